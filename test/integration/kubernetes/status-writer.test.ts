import { KubeConfig } from "@kubernetes/client-node";
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from "vitest";
import type { Cursor } from "../../../src/domain/cursor.ts";
import type { Job, JobSpec } from "../../../src/domain/job.ts";
import { jobStatus } from "../../../src/domain/job-status.ts";
import type { Circuit } from "../../../src/domain/ports/circuits.ts";
import type { JobHistory } from "../../../src/domain/ports/run-history.ts";
import type { Observed } from "../../../src/domain/ports/status-reporter.ts";
import type { Execution } from "../../../src/domain/run.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import { createEventRecorder } from "../../../src/kubernetes/events.ts";
import { createResourceMemory } from "../../../src/kubernetes/resource-memory.ts";
import { specFromResource, type ScheduledJob } from "../../../src/kubernetes/scheduled-job.ts";
import { jobsPath } from "../../../src/kubernetes/scope.ts";
import { createStatusWriter } from "../../../src/kubernetes/status-writer.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { connect, createNamespace, installCrd, jobStore } from "../../kubernetes/cluster.ts";
import { startHttpProxy } from "../../kubernetes/http-proxy.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import { realTime } from "../../kubernetes/real-time.ts";
import { createTokenSigner } from "../../kubernetes/token-webhook.ts";
import { aCursor } from "../../unit/domain/decide-builders.ts";
import { until } from "../../until.ts";

const kubeconfig = inject("kubeconfig");
const JOB = { schedule: { cron: "0 3 1 1 *" }, webhook: { url: "https://example.com/" } };
const SPEC = specFromResource(JOB, "job");

interface KubernetesEvent {
  reason: string;
  note: string;
  type: string;
  regarding: { name: string };
  series?: { count: number };
}

async function addressOfCluster(): Promise<{ server: string; ca: string }> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const { server = "", caData = "" } = config.getCurrentCluster() ?? {};
  return { server, ca: Buffer.from(caData, "base64").toString() };
}

describe.runIf(kubeconfig !== "")("status and events", () => {
  let client: ReturnType<typeof connect>;
  let namespace: string;
  let account: string;
  const accountNamespaces = namespaceAccounts([]);
  const closing: (() => unknown)[] = [];

  beforeAll(async () => {
    client = connect(kubeconfig);
    await installCrd(client);
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  afterAll(async () => {
    await client?.close();
  });

  /** A status writer in a namespace of its own; `history` stands for what PostgreSQL has recorded. */
  async function leader(options: { writesPerSecond?: number } = {}) {
    namespace = (await createNamespace(client, "status")).name;
    account = accountNamespaces.bind(namespace);
    const memory = createResourceMemory();
    const { metrics } = client;
    const store = jobStore(client, accountNamespaces, { memory });
    const history = new Map<string, JobHistory>();
    /** The circuits that the delivering replicas have published. */
    const circuits: Circuit[] = [];
    /** Jobs whose history was read. */
    const looked = new Set<string>();
    /** The reasons of all reports of Events: two reports of the same are one Event. */
    const told: string[] = [];
    const events = createEventRecorder({
      client,
      instance: "test",
      metrics,
      wallClock: Date.now,
      ...realTime,
    });
    const start = (through: typeof client = client, leadership = { holds: () => true }) => {
      const writer = createStatusWriter({
        client: through,
        memory,
        events: {
          ...events,
          record: (news) => {
            told.push(news.reason);
            events.record(news);
          },
        },
        metrics,
        history: {
          summary: async (uids) => {
            for (const uid of uids) looked.add(uid);
            return new Map(pick(history, uids));
          },
        },
        circuits: { listAll: async () => circuits },
        leadership,
        clock: { known: true, now: Date.now },
        log: createLogger({ level: "silent" }),
        settleMs: 50,
        ...options,
        ...realTime,
      });
      const end = new AbortController();
      const running = writer.run(end.signal);
      const stop = async () => {
        end.abort();
        await running;
      };
      closing.push(stop);
      return { ...bound(writer), stop, behind: () => writer.behind };
    };
    const create = async (id: string, spec: JobSpec = SPEC): Promise<Job> => {
      const job = await store.create({ account, id, spec });
      await learn();
      return job;
    };
    /**
     * Lets the memory learn from a list, as by the controller's reflector. The list contains other tests' jobs, too.
     */
    const learn = async () => {
      let page = await store.list({ limit: 500 });
      while (page.continue !== undefined)
        page = await store.list({ limit: 500, continue: page.continue });
    };
    return { store, memory, history, circuits, looked, told, events, start, create, learn };
  }

  async function read(id: string, within = namespace): Promise<ScheduledJob> {
    return client.call<ScheduledJob>({
      verb: "get",
      resource: "scheduledjobs",
      path: `/apis/carillon.dev/v1/namespaces/${within}/scheduledjobs/${id}`,
    });
  }

  async function readEvents(): Promise<KubernetesEvent[]> {
    const { items } = await client.call<{ items: KubernetesEvent[] }>({
      verb: "list",
      resource: "events",
      path: `/apis/events.k8s.io/v1/namespaces/${namespace}/events`,
    });
    return items;
  }

  const statusOf = async (id: string) => (await read(id)).status;
  const conditions = async (id: string) =>
    Object.fromEntries(
      ((await statusOf(id))?.conditions ?? []).map((each) => [each.type, each] as const),
    );

  test("a new job gets phase, conditions and its next time, and the spec stays as it was", async () => {
    const { start, create } = await leader();
    const job = await create("fresh");
    // Without an observedGeneration, tools that wait for a job would take it for ready.
    expect((await read("fresh")).status).toEqual({ observedGeneration: -1 });
    start().report(job, observed(job));
    await until("a status", async () => (await statusOf("fresh"))?.phase === "Active");
    const { status, metadata } = await read("fresh");
    expect(metadata.generation).toBe(1);
    expect(status).toMatchObject({
      observedGeneration: 1,
      type: "webhook",
      schedule: "0 3 1 1 *",
      nextScheduleTime: expect.stringMatching(/^\d{4}-01-01T03:00:00Z$/),
    });
    expect(status?.lastExecution).toBeUndefined();
    expect(await conditions("fresh")).toMatchObject({
      Ready: { status: "True", observedGeneration: 1 },
      Scheduled: { status: "True" },
      LastRunSucceeded: { status: "Unknown" },
    });
  });

  test("a job that only a change can mend is Stalled, until it is changed", async () => {
    const { start, create, store } = await leader();
    const never = specFromResource({ ...JOB, schedule: { cron: "0 0 31 2 *" } }, "job");
    const job = await create("stalled", never);
    const writer = start();
    writer.report(job, observed(job));
    await until("a status", async () => (await statusOf("stalled"))?.phase === "Invalid");
    const { Ready, Stalled } = await conditions("stalled");
    expect(Stalled).toEqual({ ...Ready, type: "Stalled", status: "True" });
    expect(Stalled).toMatchObject({ reason: "InvalidSchedule" });
    const mended = await store.update(job, SPEC);
    writer.report(mended, observed(mended));
    await until("its end", async () => (await statusOf("stalled"))?.phase === "Active");
    expect((await conditions("stalled")).Stalled).toBeUndefined();
    // It is not stalled: an account may still be bound.
    const stranger = { ...mended, account: null, generation: 3 };
    writer.report(stranger, observed(stranger));
    await until(
      "no account",
      async () => (await conditions("stalled")).Ready?.reason === "NoAccount",
    );
    expect((await conditions("stalled")).Stalled).toBeUndefined();
  });

  test("a failed run shows up without a report, with an Event; other conditions keep their time", async () => {
    const { start, create, history } = await leader();
    const job = await create("failing");
    start().report(job, observed(job));
    await until("a status", async () => (await statusOf("failing"))?.phase === "Active");
    const before = await conditions("failing");
    history.set(job.uid, ranWith("failed"));
    await until(
      "the result",
      async () => (await conditions("failing")).LastRunSucceeded?.status === "False",
    );
    const status = await statusOf("failing");
    expect(status?.lastExecution).toMatchObject({ status: "failed", httpStatus: 500, attempt: 1 });
    expect((await conditions("failing")).Ready).toEqual(before.Ready);
    await until("the event", async () =>
      (await readEvents()).some((event) => event.reason === "RunFailed"),
    );
    const told = (await readEvents()).find((event) => event.reason === "RunFailed");
    expect(told).toMatchObject({ type: "Warning", regarding: { name: "failing" } });
    // Without the status: 500 would read as an answer, and an answer's text has it.
    expect(told?.note).toContain("Attempt 1 failed: no way");
    expect((await conditions("failing")).LastRunSucceeded?.message).toMatch(
      /^Failed at \S+Z: no way$/,
    );
  });

  test("a one-time job that has run is told of, whichever of run and cursor is seen first", async () => {
    const { start, create, history, looked, told } = await leader();
    const once: JobSpec = { ...SPEC, schedule: { kind: "once", at: Date.now() } };
    const job = await create("once", once);
    const writer = start();
    writer.report(job, observed(job));
    await until("a status", async () => (await statusOf("once"))?.phase === "Active");
    history.set(job.uid, ranWith("success"));
    writer.closed([job.uid]);
    await until(
      "its success",
      async () => (await conditions("once")).LastRunSucceeded?.status === "True",
    );
    expect(told).toEqual([]);
    writer.report(job, observed(job, { once: "completed" }));
    await until("the event", async () => (await readEvents()).length === 1);
    expect(await readEvents()).toMatchObject([{ type: "Normal", reason: "Completed" }]);
    looked.clear();
    writer.report(job, observed(job, { once: "completed", version: 2 }));
    await until("it looks again", () => looked.has(job.uid));
    await until("nothing left to write", () => writer.behind() === 0);
    expect(told).toEqual(["Completed"]);
  });

  const reachable = async () => (await conditions("waiting")).DestinationReachable;
  const reasons = async () => (await readEvents()).map(({ reason, type }) => `${type} ${reason}`);

  test("an open circuit of its destination is a condition and an Event, and so is its end", async () => {
    const { start, create, circuits, looked, learn } = await leader();
    const job = await create("waiting");
    const writer = start();
    writer.report(job, observed(job));
    await until("a status", async () => (await statusOf("waiting"))?.phase === "Active");
    const circuit = { account, destination: "https://example.com", since: 0 };
    circuits.push(
      { ...circuit, worker: "one", state: "open" },
      { ...circuit, destination: "https://other.example", worker: "one", state: "open" },
    );
    await until("the open circuit", async () => (await reachable())?.status === "False");
    expect(await reachable()).toMatchObject({ reason: "CircuitOpen" });
    await until("the event", async () => (await reasons()).length === 1);
    // The next leader finds the Event already reported.
    await writer.stop();
    await learn();
    looked.clear();
    circuits.length = 0;
    circuits.push({ ...circuit, worker: "two", state: "half_open" });
    const next = start();
    next.report(job, observed(job));
    // It reads the circuits before.
    await until("it has looked", () => looked.has(job.uid));
    await until("nothing left to write", () => next.behind() === 0);
    expect((await reachable())?.status).toBe("False");
    circuits.length = 0;
    await until("the end of it", async () => (await reachable()) === undefined);
    await until("the second event", async () => (await reasons()).length === 2);
    expect((await reasons()).toSorted()).toEqual(["Normal CircuitClosed", "Warning CircuitOpened"]);
  });

  test("a new leader writes nothing where the status is right, and tells nothing again", async () => {
    const { start, create, learn, history, told } = await leader();
    const job = await create("handed-over");
    history.set(job.uid, ranWith("failed"));
    const old = start();
    old.report(job, observed(job));
    await until(
      "the result",
      async () => (await conditions("handed-over")).LastRunSucceeded?.status === "False",
    );
    await until("the event", async () => (await readEvents()).length === 1);
    await old.stop();
    await learn();
    const { resourceVersion } = (await read("handed-over")).metadata;
    const next = start();
    next.report(job, observed(job));
    const marker = await create("marker");
    next.report(marker, observed(marker));
    await until("the marker's status", async () => (await statusOf("marker"))?.phase === "Active");
    expect((await read("handed-over")).metadata.resourceVersion).toBe(resourceVersion);
    expect(told).toEqual(["RunFailed"]);
  });

  test.each([
    { end: "is lost", says: true },
    // The process was stopped for longer than its lease, and its next try is due before it hears of the loss.
    { end: "has run out unnoticed", says: false },
  ])(
    "a write that waits when leadership $end does not undo what the next leader writes",
    async ({ says }) => {
      const { start, create } = await leader();
      const job = await create("contested");
      const proxy = await startHttpProxy(await addressOfCluster());
      closing.push(() => proxy.close());
      const throttled = connect(kubeconfig, { server: proxy.url });
      closing.push(() => throttled.close());
      let patience = true;
      proxy.decide((method) =>
        method === "PATCH" && patience
          ? { status: 429, headers: { "retry-after": "1" } }
          : undefined,
      );
      const lease = { held: true, holds: () => lease.held };
      const old = start(throttled, lease);
      old.report(job, observed(job));
      await until("a write that waits", () => proxy.seen.some(({ method }) => method === "PATCH"));
      if (says) old.clear();
      else lease.held = false;
      const next = start();
      const paused = { ...job, spec: { ...job.spec, suspend: true } };
      next.report(paused, observed(paused));
      await until("the next one's", async () => (await statusOf("contested"))?.phase === "Paused");
      patience = false;
      await until("the end of the first", () => old.behind() === 0);
      expect((await statusOf("contested"))?.phase).toBe("Paused");
    },
  );

  const written = async () =>
    (await client.metrics.statusWrites.get()).values.reduce((sum, { value }) => sum + value, 0);

  test("reports in a row become one write, the latest", async () => {
    const { start, create } = await leader();
    const job = await create("busy");
    const writer = start();
    const before = await written();
    for (let i = 0; i < 100; i += 1)
      writer.report({ ...job, spec: { ...job.spec, suspend: i % 2 === 0 } }, observed(job));
    const paused = { ...job, spec: { ...job.spec, suspend: true } };
    writer.report(paused, observed(paused));
    await until("the latest status", async () => (await statusOf("busy"))?.phase === "Paused");
    await until("nothing left to write", () => writer.behind() === 0);
    // Not measured by versions, which every write to the cluster increases.
    expect((await written()) - before).toBeLessThanOrEqual(3);
  });

  test("a herd is written at the configured rate", async () => {
    const { start, create } = await leader({ writesPerSecond: 20 });
    const jobs = await Promise.all(Array.from({ length: 60 }, (_, i) => create(`herd-${i}`)));
    const writer = start();
    const began = performance.now();
    for (const job of jobs) writer.report(job, observed(job));
    let missing: string[] = [];
    await until(
      () => `the status of ${missing.join(", ")}`,
      async () => {
        const { items } = await client.call<{ items: ScheduledJob[] }>({
          verb: "list",
          resource: "scheduledjobs",
          path: jobsPath(namespace),
        });
        missing = items.filter(({ status }) => !status?.phase).map(({ metadata }) => metadata.name);
        return missing.length === 0;
      },
      20_000,
    );
    // 8 at once, then 20 per second.
    expect(performance.now() - began).toBeGreaterThan(((60 - 8) / 20) * 1_000 - 100);
  });

  test("a herd in one namespace holds up no other namespace's status", async () => {
    const { start, create, store, learn } = await leader({ writesPerSecond: 2 });
    const herd = await Promise.all(Array.from({ length: 60 }, (_, i) => create(`herd-${i}`)));
    const other = (await createNamespace(client, "status")).name;
    const neighbour = await store.create({
      account: accountNamespaces.bind(other),
      id: "neighbour",
      spec: SPEC,
    });
    await learn();
    const writer = start();
    for (const job of [...herd, neighbour]) writer.report(job, observed(job));
    await until(
      "the neighbour's status",
      async () => (await read("neighbour", other)).status?.phase !== undefined,
    );
    expect(writer.behind()).toBeGreaterThan(herd.length / 2);
  });

  test.runIf(inject("tokenSecret") !== "")(
    "a status that is refused is tried again ever less often, and complained about once",
    async () => {
      const { create, memory } = await leader();
      const job = await create("refused");
      const { tokenFor } = createTokenSigner(inject("tokenSecret"));
      const stranger = connect(kubeconfig, { token: tokenFor("nobody-in-particular") });
      closing.push(() => stranger.close());
      const warnings: unknown[] = [];
      let now = 0;
      const writer = createStatusWriter({
        client: stranger,
        memory,
        events: { record: () => undefined, dropHeldBack: () => undefined },
        metrics: stranger.metrics,
        history: { summary: async () => new Map() },
        circuits: { listAll: async () => [] },
        leadership: { holds: () => true },
        clock: { known: true, now: Date.now },
        log: { warn: (...said: unknown[]) => warnings.push(said) },
        ...realTime,
        monotonic: () => now,
      });
      const end = new AbortController();
      const running = writer.run(end.signal);
      writer.report(job, observed(job));
      let latest = Infinity;
      /** Moves the writer's time on until it has tried so often, and returns that time. */
      const tried = async (times: number): Promise<number> => {
        await until(`try ${times}`, async () => {
          if ((await failed(stranger)) >= times) return true;
          now = Math.min(now + 1_000, latest);
          return false;
        });
        return now;
      };
      const tries: number[] = [];
      for (let times = 1; times <= 6; times += 1) tries.push(await tried(times));
      // The tries come after 2, 4, 8, 16 and 32 s; each may be seen a second late.
      for (const [index, at] of tries.slice(1).entries())
        expect(at - (tries[index] ?? 0)).toBeGreaterThanOrEqual(2_000 * 2 ** index - 1_000);
      // The next try is a minute away. But another generation is tried at once: the refusal of one says nothing about
      // another.
      latest = now + 30_000;
      const changed = { ...job, generation: job.generation + 1 };
      writer.report(changed, observed(changed));
      await tried(7);
      end.abort();
      await running;
      expect(warnings).toHaveLength(1);
    },
  );

  test("a job that is gone, or another one of its name, is left alone", async () => {
    const { start, create, store } = await leader();
    const job = await create("reborn");
    await store.delete(job);
    const successor = await store.create({ account, id: "reborn", spec: SPEC });
    const before = await failed(client);
    start().report(job, observed(job));
    await until("the write that is refused", async () => (await failed(client)) > before);
    const now = await read("reborn");
    expect(now.metadata.uid).toBe(successor.uid);
    expect(now.status?.phase).toBeUndefined();
  });

  /** An event recorder whose time stands still until it is moved. */
  function recorder(instance = "test") {
    let now = 0;
    const { metrics } = client;
    const options = { ...realTime, client, instance, metrics, wallClock: Date.now };
    const events = createEventRecorder({ ...options, monotonic: () => now });
    const news = {
      uid: "0190aaaa",
      namespace,
      name: "job",
      type: "Warning" as const,
      reason: "RunFailed",
      action: "Deliver",
      note: "no way",
    };
    const later = (ms: number) => (now += ms);
    return { events, news, later };
  }

  test("an event that was cleared away is written anew when it repeats", async () => {
    await leader();
    const { events, news, later } = recorder();
    events.record(news);
    await events.settled();
    await client.call({
      verb: "delete",
      resource: "events",
      path: `/apis/events.k8s.io/v1/namespaces/${namespace}/events`,
    });
    for (let i = 0; i < 2; i += 1) {
      later(60_000);
      events.record(news);
      await events.settled();
    }
    expect(await readEvents()).toMatchObject([{ reason: "RunFailed", series: { count: 3 } }]);
  });

  test.each([
    { title: "a note of many bytes", change: { note: `${"x".repeat(1_023)}приём` } },
    { title: "what a pod of a long name has to say", change: {}, instance: "p".repeat(253) },
    { title: "a name cut at a hyphen", change: { name: `${"a".repeat(229)}-${"b".repeat(20)}` } },
  ])("$title is told all the same", async ({ change, instance }) => {
    await leader();
    const { events, news } = recorder(instance);
    events.record({ ...news, ...change });
    await events.settled();
    expect(await readEvents()).toMatchObject([{ reason: "RunFailed" }]);
  });

  test("events that repeat become one with a series; a flood is dropped", async () => {
    const { events, create } = await leader();
    const job = await create("noisy");
    const news = {
      uid: job.uid,
      namespace,
      name: job.id,
      type: "Warning" as const,
      action: "Deliver",
    };
    for (let i = 0; i < 50; i += 1)
      events.record({ ...news, reason: "RunFailed", note: "always the same" });
    for (let i = 0; i < 50; i += 1)
      events.record({ ...news, reason: "Flood", note: `number ${i}` });
    await events.settled();
    const told = await readEvents();
    expect(told.filter((event) => event.reason === "RunFailed")).toHaveLength(1);
    expect(told.length).toBe(10);
  });
});

/** How many writes of a status have failed. */
async function failed({ metrics }: ReturnType<typeof connect>): Promise<number> {
  const { values } = await metrics.statusWrites.get();
  return values.find(({ labels }) => labels.outcome === "error")?.value ?? 0;
}

function* pick<T>(map: ReadonlyMap<string, T>, keys: readonly string[]): Generator<[string, T]> {
  for (const key of keys) {
    const value = map.get(key);
    if (value !== undefined) yield [key, value];
  }
}

function bound(writer: ReturnType<typeof createStatusWriter>) {
  return {
    report: (job: Job, seen: Observed) => writer.report(job, seen),
    closed: (uids: readonly string[]) => writer.closed(uids),
    forget: (uid: string) => writer.forget(uid),
    clear: () => writer.clear(),
  };
}

function observed(job: Job, change: Partial<Cursor> = {}): Observed {
  const timing = timingOf(job.spec);
  const cursor = aCursor(job, { position: job.createdAt, ...change });
  return { cursor, timing, status: jobStatus(job, cursor, timing), missed: [] };
}

function ranWith(status: Execution["status"]): JobHistory {
  const at = Date.now();
  return {
    lastScheduleTime: at,
    lastSuccessTime: null,
    last: {
      id: "exec-1",
      runId: "run-1",
      status,
      httpStatus: 500,
      durationMs: 12,
      errorMessage: "no way",
      executedAt: at,
      attempt: 1,
      trigger: "schedule",
      scheduledAt: at,
    },
  };
}
