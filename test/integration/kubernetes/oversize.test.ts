import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from "vitest";
import { InvalidInput } from "../../../src/domain/findings.ts";
import type { Job } from "../../../src/domain/job.ts";
import { JOBS_PER_PAGE, type JobStore } from "../../../src/domain/ports/job-store.ts";
import { patchedSpec } from "../../../src/domain/rest-job.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import { createKubernetesJobIndex } from "../../../src/kubernetes/kubernetes-job-index.ts";
import type { ScheduledJob } from "../../../src/kubernetes/scheduled-job.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { connect, createNamespace, installCrd, jobStore } from "../../kubernetes/cluster.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import { realTime } from "../../kubernetes/real-time.ts";

const kubeconfig = inject("kubeconfig");
/** Almost as much as the API server's own limit allows. */
const LARGE = 1_200_000;
/** As many levels as the API server accepts. */
const DEEP = 9_900;
const TOO_LARGE = {
  field: "webhook_payload",
  message: "must be at most 256 KiB and is 1172 KiB: shorten it, or send a link to the rest",
};

const payloadOf = (job: Job | undefined) =>
  job?.spec.target.kind === "webhook" ? job.spec.target.payload : undefined;

describe.runIf(kubeconfig !== "")("a job whose payload is larger than it may be", () => {
  let client: ReturnType<typeof connect>;
  let store: JobStore;
  let namespace: string;
  let account: string;
  const accountNamespaces = namespaceAccounts([]);

  beforeAll(async () => {
    client = connect(kubeconfig);
    await installCrd(client);
    namespace = (await createNamespace(client, "large")).name;
    store = jobStore(client, accountNamespaces, { namespaces: [namespace] });
    account = accountNamespaces.bind(namespace);
  });
  // Otherwise every list of the whole cluster, also in later files, would contain them.
  const removeAll = () =>
    client.call({
      verb: "delete",
      resource: "scheduledjobs",
      path: `/apis/carillon.dev/v1/namespaces/${namespace}/scheduledjobs`,
    });
  afterEach(removeAll);
  afterAll(async () => {
    await client?.close();
  });

  /** Creates a job in the API server, because REST refuses it. */
  const apply = (
    name: string,
    payload: unknown = { a: "x".repeat(LARGE - 8) },
  ): Promise<ScheduledJob> =>
    client.call<ScheduledJob>({
      verb: "create",
      resource: "scheduledjobs",
      path: `/apis/carillon.dev/v1/namespaces/${namespace}/scheduledjobs`,
      body: {
        apiVersion: "carillon.dev/v1",
        kind: "ScheduledJob",
        metadata: { name },
        spec: {
          schedule: { cron: "@yearly" },
          webhook: { url: "https://example.com/", payload },
        },
      },
    });

  test("lists, watches and the index leave the payload out and say why", async () => {
    const { position } = await store.list({ limit: 1 });
    await apply("listed");
    const end = new AbortController();
    let watched: Job | undefined;
    for await (const event of store.watch(position, end.signal)) {
      if (event.type !== "changed" || event.job.id !== "listed") continue;
      watched = event.job;
      break;
    }
    end.abort();
    const listed = (await store.list({ limit: 10 })).jobs.find(({ id }) => id === "listed");
    const ofAccount = (await store.list({ account, limit: 10 })).jobs.find(
      ({ id }) => id === "listed",
    );
    for (const job of [watched, listed, ofAccount]) {
      expect(job?.spec.refusal).toEqual(TOO_LARGE);
      expect(payloadOf(job)).toBe("");
    }

    const followed = createKubernetesJobIndex({
      jobs: store,
      ofNamespace: () => store,
      accountNamespaces,
      timers: realTime.timers,
      log: createLogger({ level: "silent" }),
    });
    const [inIndex] = await followed.index.jobs(account);
    expect(inIndex?.spec.refusal).toEqual(TOO_LARGE);
  });

  test("a change of something else keeps the payload, a patch has to shorten it", async () => {
    await apply("changed");
    const job = await store.get(account, "changed");
    if (!job) throw new Error("not there");
    expect(payloadOf(job)).toHaveLength(LARGE);
    expect(job.spec.refusal).toEqual(TOO_LARGE);

    const paused = await store.update(job, { ...job.spec, suspend: true });
    expect(paused.spec.suspend).toBe(true);
    expect(payloadOf(await store.get(account, "changed"))).toHaveLength(LARGE);

    const now = Date.now();
    const renamed = { fields: { name: "Other" }, payloadText: undefined, now };
    expect(patchedSpec(paused.spec, renamed)).toEqual({ ok: false, findings: [TOO_LARGE] });
    const fields = { webhook_payload: { a: 1 } };
    const patched = patchedSpec(paused.spec, { fields, payloadText: '{"a":1}', now });
    if (!patched.ok) throw new Error("refused");
    const shortened = await store.update(paused, patched.spec);
    expect(shortened.spec.refusal).toBeUndefined();
    expect(payloadOf(shortened)).toBe('{"a":1}');
  });

  test("what a list left out cannot be written back as if it were all", async () => {
    await apply("trimmed");
    const listed = (await store.list({ limit: 10 })).jobs.find(({ id }) => id === "trimmed");
    if (!listed) throw new Error("not there");
    await expect(store.update(listed, { ...listed.spec, suspend: true })).rejects.toThrow(
      SyntaxError,
    );
    expect(payloadOf(await store.get(account, "trimmed"))).toHaveLength(LARGE);
  });

  test("one that is nested deeper than the stack is refused, and keeps nobody from listing", async () => {
    let payload: unknown = 1;
    for (let level = 0; level < DEEP; level += 1) payload = { a: payload };
    await apply("deep", payload);
    const { jobs } = await store.list({ limit: 10 });
    const deep = jobs.find(({ id }) => id === "deep");
    expect(deep?.spec.refusal).toEqual({
      field: "webhook_payload",
      message: "must be nested at most 63 levels deep",
    });
    expect(payloadOf(deep)).toBe("");

    const job = await store.get(account, "deep");
    if (!job) throw new Error("not there");
    const paused = await store.update(job, { ...job.spec, suspend: true });
    const resumed = await store.update(paused, { ...paused.spec, suspend: false });
    expect([paused.spec.suspend, resumed.spec.suspend]).toEqual([true, false]);
    expect(payloadOf(resumed)).toBe(payloadOf(job));
    await store.delete(resumed);
    expect(await store.get(account, "deep")).toBeUndefined();
  });

  test("one that leaves no room for more is refused a change, which is no outage", async () => {
    // As large as etcd accepts.
    for (let size = 1_572_864; ; size -= 50) {
      const made = await apply("full", { a: "x".repeat(size) }).catch((error: unknown) => error);
      if (!(made instanceof Error)) break;
      expect(made).toBeInstanceOf(ApiError);
    }
    const job = await store.get(account, "full");
    if (!job) throw new Error("not there");
    await expect(store.update(job, { ...job.spec, suspend: true })).rejects.toThrow(InvalidInput);
    // A write of its status is refused, too; after an outage it would be tried again at once.
    for (const size of [1_000, 700_000])
      await expect(
        client.call({
          verb: "patch",
          resource: "scheduledjobs/status",
          path: `/apis/carillon.dev/v1/namespaces/${namespace}/scheduledjobs/full/status`,
          body: { status: { schedule: "x".repeat(size) } },
        }),
      ).rejects.toThrow(ApiError);
  });

  test("of the largest jobs a page has few, so that no process ends by reading them", async () => {
    // Parsed, this takes twenty times as much memory.
    const payload = { a: Array.from({ length: LARGE / 3 }, () => ({})) };
    for (let made = 0; made < 9; made += 1) await apply(`page-${made}`, payload);
    await apply("small", {});
    const pages: number[] = [];
    let read: Job[] = [];
    let next: string | undefined;
    do {
      const page = await store.list({ limit: JOBS_PER_PAGE, continue: next });
      read = read.concat(page.jobs);
      pages.push(page.jobs.length);
      next = page.continue;
    } while (next !== undefined);
    expect(read.map(({ id }) => id)).toHaveLength(10);
    expect(JSON.stringify(read).length).toBeLessThan(10_000);
    expect(Math.max(...pages)).toBeLessThanOrEqual(2);

    await removeAll();
    for (let made = 0; made < 12; made += 1) await apply(`small-${made}`, {});
    // Each page that stays small makes the next one larger.
    const sizes: number[] = [];
    for (let lists = 0; lists < 5; lists += 1)
      sizes.push((await store.list({ limit: JOBS_PER_PAGE })).jobs.length);
    expect(sizes.at(-1)).toBe(12);
  });
});
