import { afterEach, describe, expect, test } from "vitest";
import type { Job } from "../../../src/domain/job.ts";
import { destinationKey, partsOfKey } from "../../../src/domain/destination.ts";
import { jobStatus } from "../../../src/domain/job-status.ts";
import type { Circuit } from "../../../src/domain/ports/circuits.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import type { JobHistory } from "../../../src/domain/ports/run-history.ts";
import type { Observed } from "../../../src/domain/ports/status-reporter.ts";
import type { Execution } from "../../../src/domain/run.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import type { KubernetesClient } from "../../../src/kubernetes/client.ts";
import type { NewEvent } from "../../../src/kubernetes/events.ts";
import { createResourceMemory } from "../../../src/kubernetes/resource-memory.ts";
import type { ScheduledJob, ScheduledJobStatus } from "../../../src/kubernetes/scheduled-job.ts";
import { createStatusWriter } from "../../../src/kubernetes/status-writer.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { FakeTime, settle } from "../controller/controller-world.ts";
import { aCursor, aJob, at } from "../domain/decide-builders.ts";

const running: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of running.splice(0)) await stop();
});

/** A writer whose time only the test moves, and its calls to PostgreSQL and the API server. */
function world() {
  const time = new FakeTime(at("12:00"));
  const memory = createResourceMemory();
  const looks: number[] = [];
  const looked: (readonly string[])[] = [];
  const history = new Map<string, JobHistory>();
  const writes: {
    path: string;
    phase: string;
    conditions: NonNullable<ScheduledJobStatus["conditions"]>;
    answer: (error?: Error) => void;
    /** As the client before each try. */
    tryAgain: () => void;
  }[] = [];
  const circuits: Circuit[] = [];
  const warnings: unknown[] = [];
  const told: NewEvent[] = [];
  const dropped: number[] = [];
  const leadership = { held: true, holds: () => leadership.held };
  const call = async (asked: Parameters<KubernetesClient["call"]>[0]): Promise<never> => {
    const [, { value }] = asked.body as [unknown, { value: Required<ScheduledJobStatus> }];
    const { promise, resolve, reject } = Promise.withResolvers<never>();
    const answer = (error?: Error) => (error ? reject(error) : resolve(undefined as never));
    const { phase, conditions } = value;
    const tryAgain = () => {
      try {
        asked.beforeTry?.();
      } catch (error) {
        reject(error);
      }
    };
    writes.push({ path: asked.path, phase, conditions: conditions ?? [], answer, tryAgain });
    return promise;
  };
  const writer = createStatusWriter({
    client: { call } as Pick<KubernetesClient, "call"> as KubernetesClient,
    memory,
    events: {
      record: (news) => void told.push(news),
      dropHeldBack: () => dropped.push(time.now()),
    },
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    history: {
      summary: async (uids) => {
        looks.push(time.now());
        looked.push(uids);
        return history;
      },
    },
    circuits: { listAll: async () => circuits },
    leadership,
    clock: time,
    timers: time,
    monotonic: () => time.now(),
    log: { warn: (...said: unknown[]) => warnings.push(said) },
  });
  const end = new AbortController();
  const done = writer.run(end.signal);
  running.push(async () => {
    end.abort();
    await done;
  });
  const report = (job: Job, missed: Observed["missed"] = []) => {
    const metadata = { uid: job.uid, namespace: "a", name: job.id };
    if (!memory.get(job.uid)) memory.seen({ metadata } as ScheduledJob);
    const timing = timingOf(job.spec);
    const cursor = aCursor(job);
    writer.report(job, { cursor, timing, status: jobStatus(job, cursor, timing), missed });
  };
  const seconds = (count: number) => time.advanceTo(time.now() + count * 1_000);
  const seen = { looks, looked, writes, warnings, told, dropped };
  return { time, memory, writer, leadership, history, circuits, ...seen, report, seconds };
}

const yearly = (change: Parameters<typeof aJob>[0] = {}) => {
  const schedule = { kind: "cron", expression: "0 0 1 1 *", timeZone: "UTC" } as const;
  return aJob({ ...change, spec: { schedule, ...change.spec } });
};

describe("writes", () => {
  test("eight at once, whatever is due", async () => {
    const { report, writes, seconds } = world();
    for (let n = 0; n < 20; n += 1) report(yearly({ uid: `uid-${n}`, id: `job-${n}` }));
    await seconds(5);
    expect(writes).toHaveLength(8);
    for (const { answer } of writes.splice(0)) answer();
    await seconds(5);
    expect(writes).toHaveLength(8);
  });

  test("of one job one at a time, and what changed meanwhile is the next", async () => {
    const { report, writes, seconds } = world();
    report(yearly());
    await seconds(3);
    report(yearly({ generation: 2, spec: { suspend: true } }));
    await seconds(5);
    expect(writes.map(({ phase }) => phase)).toEqual(["Active"]);
    writes[0]?.answer();
    await seconds(5);
    expect(writes.map(({ phase }) => phase)).toEqual(["Active", "Paused"]);
  });

  test("what is on its way is not written again once it has arrived", async () => {
    const { report, writer, writes, seconds } = world();
    report(yearly());
    await seconds(10);
    writes[0]?.answer();
    await seconds(10);
    expect([writes.length, writer.behind]).toEqual([1, 0]);
  });

  test("a condition says since when it is as it is", async () => {
    const { report, writes, seconds } = world();
    report(yearly());
    await seconds(2);
    writes[0]?.answer();
    await seconds(8);
    report(yearly({ generation: 2, spec: { suspend: true } }));
    await seconds(10);
    const since = writes.map(({ conditions }) =>
      Object.fromEntries(conditions.map((each) => [each.type, each.lastTransitionTime.slice(-3)])),
    );
    expect(since).toMatchObject([
      { Ready: "01Z", Scheduled: "01Z" },
      { Ready: "01Z", Scheduled: "11Z" },
    ]);
    const generations = writes.map(({ conditions }) => conditions[0]?.observedGeneration);
    expect(generations).toEqual([1, 2]);
  });

  test("what has been written is known without a word of the watch", async () => {
    const { report, writes, seconds } = world();
    report(yearly());
    await seconds(2);
    writes[0]?.answer();
    await seconds(600);
    expect(writes).toHaveLength(1);
  });

  test("one that is lost is made again, and each outage is told of once", async () => {
    const { report, writes, warnings, seconds } = world();
    report(yearly());
    for (const outage of [1, 2]) {
      for (const failure of [1, 2]) {
        await seconds(5);
        expect(writes).toHaveLength(1);
        writes.pop()?.answer(new DependencyUnavailable("kubernetes"));
        await settle();
        expect(warnings, `failure ${failure}`).toHaveLength(outage);
      }
      await seconds(5);
      writes.pop()?.answer();
      report(yearly({ generation: outage + 1 }));
    }
  });

  test("what nobody has told of is found at a look, and is made again soon when it is lost", async () => {
    const { report, history, writes, seconds } = world();
    report(yearly());
    await seconds(2);
    writes.pop()?.answer();
    await seconds(1_000);
    history.set("uid-1", { last: null, lastScheduleTime: at("11:00"), lastSuccessTime: null });
    await seconds(302);
    expect(writes).toHaveLength(1);
    writes.pop()?.answer(new DependencyUnavailable("kubernetes"));
    await seconds(4);
    expect(writes).toHaveLength(1);
  });

  test("one that is refused is tried ever less often, at once for a new generation, and anew once one was taken", async () => {
    const { report, writes, time, seconds } = world();
    const tries: number[] = [];
    /** Refuses all tries during `count` seconds; returns the seconds between them. */
    const refuseFor = async (count: number) => {
      const began = time.now();
      tries.length = 0;
      for (let second = 0; second < count; second += 1) {
        await seconds(1);
        if (writes.length === 0) continue;
        tries.push(Math.round((time.now() - began) / 1_000));
        writes.pop()?.answer(new ApiError(403, undefined, "patch"));
        await settle();
      }
      return gaps(tries.map((each) => each * 1_000));
    };
    report(yearly());
    const first = await refuseFor(1_500);
    expect(first.slice(0, 3).map((gap) => Math.floor(Math.log2(gap)))).toEqual([1, 2, 3]);
    expect(Math.max(...first)).toBeGreaterThanOrEqual(300);
    expect(Math.max(...first)).toBeLessThan(305);
    // An unchanged report is no reason to try again, nor to begin anew.
    report(yearly());
    await seconds(20);
    expect(writes).toEqual([]);
    expect(Math.min(...(await refuseFor(1_000)))).toBeGreaterThanOrEqual(300);
    const second = { generation: 2, spec: { suspend: true } };
    report(yearly(second));
    // Another report comes while the first try is under way.
    await seconds(4);
    expect((await refuseFor(20))[0]).toBeGreaterThan(1);
    await seconds(30);
    writes.pop()?.answer();
    await settle();
    report(yearly({ ...second, account: null }));
    expect((await refuseFor(20)).length).toBeGreaterThanOrEqual(2);
  });

  test.each([
    { what: "of a job that is gone", code: 404, causes: [], told: 0 },
    { what: "of one whose name another has", code: 422, causes: [], told: 0 },
    { what: "that says what may not be said", code: 422, causes: [{ field: "status" }], told: 1 },
    {
      what: "that a webhook of the cluster does not want",
      code: 422,
      message: 'admission webhook "x.example.com" denied the request: no',
      causes: [],
      told: 1,
    },
  ])("one $what is told of $told times", async ({ code, message = "", causes, told }) => {
    const { report, writes, warnings, seconds } = world();
    report(yearly());
    await seconds(2);
    const status = { kind: "Status", code, message, details: { causes } } as const;
    writes.pop()?.answer(new ApiError(code, status, "patch"));
    await settle();
    expect(warnings).toHaveLength(told);
  });

  test("none of a job that is gone, of which nothing is kept", async () => {
    const { report, writer, memory, looks, writes, seconds } = world();
    report(yearly());
    await seconds(1);
    expect(writer.behind).toBe(1);
    writer.forget("uid-1");
    expect([writer.behind, memory.get("uid-1")]).toEqual([0, undefined]);
    looks.length = 0;
    await seconds(10);
    expect([writes, looks]).toEqual([[], []]);
  });

  test("none once leadership is lost", async () => {
    const { report, writer, writes, warnings, seconds } = world();
    report(yearly());
    report(yearly({ uid: "uid-2", id: "job-2" }));
    await seconds(1);
    expect([writer.behind, writes.length]).toEqual([2, 0]);
    writer.clear();
    await seconds(400);
    expect([writer.behind, writes.length]).toEqual([0, 0]);
    report(yearly());
    await seconds(3);
    writer.clear();
    writes.pop()?.answer(new DependencyUnavailable("kubernetes"));
    await seconds(400);
    expect([writer.behind, writes, warnings]).toEqual([0, [], []]);
  });
});

test("nothing is written or read while leadership has run out, although nobody has said so yet", async () => {
  const { report, leadership, writes, looks, seconds } = world();
  report(yearly());
  await seconds(1);
  leadership.held = false;
  looks.length = 0;
  await seconds(60);
  expect([writes, looks]).toEqual([[], []]);
  leadership.held = true;
  await seconds(1);
  expect(writes).toHaveLength(1);
});

test("nothing is written when leadership has run out while the history was read", async () => {
  const { report, leadership, writes, looks, seconds } = world();
  report(yearly());
  await seconds(1);
  looks.length = 0;
  leadership.holds = () => looks.length === 0;
  report(yearly());
  await seconds(60);
  expect([writes, looks.length]).toEqual([[], 1]);
});

test("a write is not tried again once leadership has run out, and made anew soon if that comes back", async () => {
  const { report, circuits, leadership, writes, warnings, seconds } = world();
  const job = yearly();
  report(job);
  await seconds(3);
  writes.pop()?.answer();
  // The next look at the history is minutes away.
  await seconds(2_100);
  const destination = partsOfKey(destinationKey(job.account ?? "", job.spec.target));
  circuits.push({ ...destination, state: "open", since: at("12:30"), worker: "w" });
  await seconds(6);
  leadership.held = false;
  writes.pop()?.tryAgain();
  await seconds(10);
  leadership.held = true;
  await seconds(3);
  expect([writes.length, warnings]).toEqual([1, []]);
  writes[0]?.tryAgain();
  writes[0]?.answer();
  await seconds(600);
  expect(writes).toHaveLength(1);
});

describe("why a job is not ready", () => {
  const badCron = (expression: string) =>
    yearly({ spec: { schedule: { kind: "cron", expression, timeZone: "UTC" } } });
  const noTarget = yearly({ spec: { refusal: { field: "webhook_url", message: "is none" } } });

  test("is told when it changes, and not at each look", async () => {
    const { report, told, writes, seconds } = world();
    const reasons = () => told.splice(0).map(({ reason }) => reason);
    const reported = async (job: Job) => {
      report(job);
      report(job);
      await seconds(30);
      for (const { answer } of writes.splice(0)) answer();
      await seconds(30);
      return reasons();
    };
    expect(await reported(badCron("never"))).toEqual(["InvalidSchedule"]);
    expect(await reported(badCron("never"))).toEqual([]);
    expect(await reported(badCron("0 0 31 2 *"))).toEqual(["InvalidSchedule"]);
    expect(await reported(noTarget)).toEqual(["InvalidTarget"]);
    expect(await reported(yearly())).toEqual([]);
    expect(await reported(noTarget)).toEqual(["InvalidTarget"]);
  });

  test("is told by the next leader only when it is another than the status says", async () => {
    const { report, writer, told, writes, seconds } = world();
    report(noTarget);
    await seconds(2);
    for (const { answer } of writes.splice(0)) answer();
    await settle();
    writer.clear();
    report(noTarget);
    await seconds(60);
    expect(told.map(({ reason }) => reason)).toEqual(["InvalidTarget"]);
    writer.clear();
    report(badCron("never"));
    await seconds(60);
    expect(told.map(({ reason }) => reason)).toEqual(["InvalidTarget", "InvalidSchedule"]);
  });
});

test("a circuit is told of when it opens and when it closes, and not at each look or report", async () => {
  const { report, circuits, told, writes, seconds } = world();
  const job = yearly();
  report(job);
  await seconds(3);
  writes.pop()?.answer();
  await seconds(2_000);
  const destination = partsOfKey(destinationKey(job.account ?? "", job.spec.target));
  circuits.push({ ...destination, state: "open", since: at("12:30"), worker: "w" });
  // It comes long before the next look at the history.
  await seconds(6);
  const unreachable = writes[0]?.conditions.find(({ type }) => type === "DestinationReachable");
  expect(unreachable).toMatchObject({ status: "False" });
  await seconds(600);
  report(job);
  await seconds(600);
  expect(told.map(({ reason }) => reason)).toEqual(["CircuitOpened"]);
  circuits.length = 0;
  await seconds(600);
  report(job);
  await seconds(600);
  expect(told.map(({ reason }) => reason)).toEqual(["CircuitOpened", "CircuitClosed"]);
});

test("the next leader tells of a circuit only if it is not as the status says", async () => {
  const { report, writer, circuits, told, writes, seconds } = world();
  const job = yearly();
  const destination = partsOfKey(destinationKey(job.account ?? "", job.spec.target));
  circuits.push({ ...destination, state: "open", since: at("11:30"), worker: "w" });
  report(job);
  await seconds(3);
  writes.pop()?.answer();
  await settle();
  writer.clear();
  report(job);
  await seconds(60);
  expect(told.map(({ reason }) => reason)).toEqual(["CircuitOpened"]);
  writer.clear();
  circuits.length = 0;
  await seconds(60);
  report(job);
  await seconds(60);
  expect(told.map(({ reason }) => reason)).toEqual(["CircuitOpened", "CircuitClosed"]);
});

test("events that are held back are dropped when leadership is lost", async () => {
  const { writer, dropped, time } = world();
  writer.clear();
  expect(dropped).toEqual([time.now()]);
});

test("fire times that did not run are told of", () => {
  const { report, told } = world();
  const [first, last] = [at("10:00"), at("11:00")];
  report(yearly(), [
    { first, last, count: 7, reason: "downtime" },
    { first: last, last, count: 1, reason: "deadline" },
    { first, last: first, count: 1, reason: "overlap" },
    { first: last, last, count: 1, reason: "overlap" },
  ]);
  expect(told).toMatchObject([
    { reason: "Missed", note: expect.stringMatching(/^7 runs from .*10:00.* to .*11:00.* nobody/) },
    { reason: "Missed", note: expect.stringMatching(/^The run of .*11:00.* deadline/) },
    { reason: "Missed", note: expect.stringMatching(/^A run did not take place.* unfinished/) },
    // A repeated Event is a series, and still one Event.
    { note: told[2]?.note },
  ]);
});

/** The seconds between them. */
const gaps = (looks: readonly number[]) =>
  looks.slice(1).map((look, n) => Math.round((look - (looks[n] ?? 0)) / 1_000));

describe("looks at the history", () => {
  test("ever less often, at least every five minutes, and anew once something has ended", async () => {
    const { report, writer, writes, looks, seconds } = world();
    report(yearly());
    await seconds(3);
    writes.pop()?.answer();
    looks.length = 0;
    await seconds(3_000);
    expect(Math.max(...gaps(looks))).toBe(300);
    expect(looks.length).toBeLessThan(20);
    looks.length = 0;
    writer.closed(["uid-1", "somebody-else"]);
    await seconds(10);
    expect(gaps(looks)).toEqual([1, 2, 4]);
  });

  test("a second after the fire time", async () => {
    const { report, writes, looks, time } = world();
    report(aJob());
    await time.advanceTo(at("12:00:03"));
    writes.pop()?.answer();
    await time.advanceTo(at("12:09:50"));
    looks.length = 0;
    await time.advanceTo(at("12:10:03"));
    expect(looks[0]).toBeGreaterThanOrEqual(at("12:10:01"));
    expect(looks[0]).toBeLessThan(at("12:10:02"));
  });

  test("ever less often while a one-time job is late, which is reported when it runs", async () => {
    const { report, writes, looks, seconds } = world();
    report(aJob({ spec: { schedule: { kind: "once", at: at("11:00") } } }));
    await seconds(3);
    writes.pop()?.answer();
    await seconds(60);
    looks.length = 0;
    await seconds(600);
    expect(Math.min(...gaps(looks))).toBeGreaterThan(60);
  });

  test("a thousand at a time, and whoever waits has the next turn, however often the others end", async () => {
    const { report, writer, looked, seconds, time } = world();
    const busy = Array.from({ length: 1_000 }, (_, n) => `busy-${n}`);
    for (const uid of [...busy, "quiet"]) report(yearly({ uid, id: uid }));
    const ends = () => {
      writer.closed(busy);
      time.after(100, ends);
    };
    ends();
    await seconds(1);
    expect(Math.max(...looked.map((uids) => uids.length))).toBe(1_000);
    expect(looked.flat()).toContain("quiet");
  });

  test("a failure is told of although the job was reported again before it was seen, and once", async () => {
    const { report, history, told, writes, seconds } = world();
    const failed: Partial<Execution> = {
      id: "e-1",
      status: "failed",
      scheduledAt: at("11:00"),
      executedAt: at("11:00"),
    };
    const last = failed as Execution;
    report(yearly());
    await seconds(2);
    writes.pop()?.answer();
    await seconds(2);
    history.set("uid-1", { last, lastScheduleTime: at("11:00"), lastSuccessTime: null });
    report(yearly());
    await seconds(60);
    report(yearly());
    await seconds(60);
    expect(told.map(({ reason }) => reason)).toEqual(["RunFailed"]);
  });

  test("none while nobody knows the time", async () => {
    const { report, looks, seconds, time } = world();
    time.known = false;
    report(yearly());
    await seconds(60);
    expect(looks).toEqual([]);
  });
});

test.each([0, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200])(
  "a status that a circuit changed %i s after a look and whose write got lost is written again soon",
  async (more) => {
    const { report, circuits, writes, seconds } = world();
    const job = yearly();
    report(job);
    await seconds(3);
    writes.pop()?.answer();
    await seconds(2_000 + more);
    const destination = partsOfKey(destinationKey(job.account ?? "", job.spec.target));
    circuits.push({ ...destination, state: "open", since: at("12:30"), worker: "w" });
    await seconds(6);
    expect(writes).toHaveLength(1);
    writes.pop()?.answer(new DependencyUnavailable("kubernetes"));
    await seconds(30);
    expect(writes).toHaveLength(1);
  },
);
