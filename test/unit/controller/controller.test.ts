import { PassThrough } from "node:stream";
import { afterEach, describe, expect, test } from "vitest";
import { createController, type ControllerDeps } from "../../../src/controller/controller.ts";
import { isoUtc } from "../../../src/domain/instant.ts";
import type { Observed } from "../../../src/domain/ports/status-reporter.ts";
import {
  DependencyUnavailable,
  LockHeld,
} from "../../../src/domain/ports/dependency-unavailable.ts";
import {
  ChangeUnread,
  PositionExpired,
  type JobStore,
} from "../../../src/domain/ports/job-store.ts";
import type { UnfinishedRun } from "../../../src/domain/run.ts";
import { revisionOf } from "../../../src/domain/revision.ts";
import { pause } from "../../../src/waiting/pause.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { aJob, at } from "../domain/decide-builders.ts";
import {
  FakeTime,
  MemoryJobs,
  MemoryLedger,
  SpokenNews,
  SwitchableLeadership,
  settle,
} from "./controller-world.ts";
import { metricValue } from "../../metric-value.ts";

const running: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of running.splice(0)) await stop();
});

function world(now = at("12:00:30")) {
  const time = new FakeTime(now);
  const ledger = new MemoryLedger(time);
  /** Changes are applied, but not answered until the returned function is called. */
  const holdApply = () => {
    const apply = ledger.apply.bind(ledger);
    const held = Promise.withResolvers<void>();
    ledger.apply = async (changes) => {
      const result = await apply(changes);
      await held.promise;
      return result;
    };
    return held.resolve;
  };
  return { time, jobs: new MemoryJobs(), ledger, holdApply };
}

function start(
  w: ReturnType<typeof world>,
  options: Partial<ControllerDeps> & { leadership?: SwitchableLeadership } = {},
) {
  const leadership = options.leadership ?? new SwitchableLeadership(true);
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  const reports: { uid: string; observed: Observed }[] = [];
  const closed: string[] = [];
  const forgotten: string[] = [];
  let cleared = 0;
  const controller = createController({
    jobs: w.jobs as unknown as JobStore,
    ledger: w.ledger,
    clock: w.time,
    timers: w.time,
    monotonic: () => w.time.now(),
    random: () => 0.5,
    metrics,
    log: createLogger({ level: "silent" }),
    reporter: {
      report: (job, observed) => {
        reports.push({ uid: job.uid, observed });
      },
      closed: (uids) => {
        closed.push(...uids);
      },
      forget: (uid) => {
        forgotten.push(uid);
      },
      clear: () => {
        cleared += 1;
      },
    },
    prepareAheadMs: 0,
    ...options,
    leadership,
  });
  const abort = new AbortController();
  const done = controller.run(abort.signal);
  const stop = async (): Promise<void> => {
    abort.abort();
    await done;
  };
  running.push(stop);
  const counted = async (name: string): Promise<number | undefined> => {
    const { text } = await metrics.render();
    return metricValue(text, name);
  };
  return {
    controller,
    leadership,
    metrics,
    reports,
    closed,
    forgotten,
    cleared: () => cleared,
    counted,
    stop,
  };
}

/** A log, and the messages that have been written to it. */
function listening() {
  const said: string[] = [];
  const output = new PassThrough().setEncoding("utf8").on("data", (line: string) => {
    said.push((JSON.parse(line) as { msg: string }).msg);
  });
  return { said, log: createLogger({ output }) };
}

/** A job that fires every minute, and was created before the test begins. */
function minutely(uid: string, change: Parameters<typeof aJob>[0] = {}) {
  const { spec, ...rest } = change;
  return aJob({
    uid,
    id: `job-${uid}`,
    createdAt: at("12:00"),
    ...rest,
    spec: { schedule: { kind: "cron", expression: "* * * * *", timeZone: "UTC" }, ...spec },
  });
}

const keys = (w: ReturnType<typeof world>, uid = "a") =>
  w.ledger.runs.filter((run) => run.uid === uid).map((run) => run.key.slice(11, 16));

describe("on time", () => {
  test("a job fires at its time, not before", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    start(w);
    await w.time.advanceTo(at("12:00:59.999"));
    expect(keys(w)).toEqual([]);
    await w.time.advanceTo(at("12:03"));
    expect(keys(w)).toEqual(["12:01", "12:02", "12:03"]);
    expect(w.ledger.runs.map((run) => run.createdAt - run.scheduledAt)).toEqual([0, 0, 0]);
  });

  test("runs are prepared by the horizon", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    start(w, { prepareAheadMs: 15_000 });
    await w.time.advanceTo(at("12:02"));
    expect(w.ledger.runs.map((run) => run.createdAt - run.scheduledAt)).toEqual([-15_000, -15_000]);
  });

  test("a job made while running fires too, and no timer is longer than an hour", async () => {
    const w = world();
    start(w, { resyncMs: 40 * 60_000 });
    await settle();
    w.jobs.put(minutely("a", { spec: { schedule: { kind: "once", at: at("18:00") } } }));
    await w.time.advanceTo(at("19:00"));
    expect(keys(w)).toEqual(["18:00"]);
    expect(w.time.longestTimer).toBeLessThanOrEqual(3_600_000);
  });

  test("a clock that steps ahead of the timers, as when a machine has slept, is noticed in seconds", async () => {
    const w = world();
    start(w);
    await settle();
    w.jobs.put(minutely("a", { spec: { schedule: { kind: "once", at: at("18:00") } } }));
    await settle();
    w.time.stepTo(at("17:59:58"));
    await w.time.advanceTo(at("18:00:05"));
    expect(keys(w)).toEqual(["18:00"]);
  });

  test("a herd is applied in batches", async () => {
    const w = world();
    for (let n = 0; n < 1_250; n += 1) w.jobs.put(minutely(`j${n}`));
    start(w, { batchSize: 500 });
    await w.time.advanceTo(at("12:00:40"));
    w.ledger.batches.length = 0;
    await w.time.advanceTo(at("12:01:00"));
    expect(w.ledger.batches).toEqual([500, 500, 250]);
    expect(w.ledger.runs).toHaveLength(1_250);
  });

  test("nothing happens while the clock is unknown", async () => {
    const w = world();
    w.time.known = false;
    w.jobs.put(minutely("a"));
    start(w);
    await w.time.advanceTo(at("12:01:10"));
    expect(w.ledger.stored.size).toBe(0);
    w.time.known = true;
    await w.time.advanceTo(at("12:01:11"));
    expect(keys(w)).toEqual(["12:01"]);
  });
});

describe("changes", () => {
  test("pause stops, resume goes on from then", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    start(w);
    await w.time.advanceTo(at("12:01:10"));
    w.jobs.put(minutely("a", { generation: 2, spec: { suspend: true } }));
    await w.time.advanceTo(at("12:04:10"));
    w.jobs.put(minutely("a", { generation: 3 }));
    await w.time.advanceTo(at("12:05"));
    expect(keys(w)).toEqual(["12:01", "12:05"]);
  });

  test("an event that bears on nothing is not reconciled", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    start(w);
    await settle();
    const { attempts } = w.ledger;
    w.jobs.put(minutely("a", { version: "2" }));
    await settle();
    expect(w.ledger.attempts).toBe(attempts);
  });

  test("another schedule counts from when it comes", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    start(w);
    await w.time.advanceTo(at("12:01:10"));
    const schedule = { kind: "cron", expression: "*/3 * * * *", timeZone: "UTC" } as const;
    w.jobs.put(minutely("a", { generation: 2, spec: { schedule } }));
    await w.time.advanceTo(at("12:06:10"));
    expect(keys(w)).toEqual(["12:01", "12:03", "12:06"]);
  });

  test("a replayed older event changes nothing", async () => {
    const w = world();
    w.jobs.put(minutely("a", { generation: 2, spec: { suspend: true } }));
    start(w);
    await settle();
    w.jobs.put(minutely("a", { generation: 1 }));
    await w.time.advanceTo(at("12:02"));
    expect(keys(w)).toEqual([]);
  });

  test("a deleted job is cancelled and fires no more", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const { forgotten } = start(w);
    await w.time.advanceTo(at("12:01"));
    w.jobs.remove("a");
    await w.time.advanceTo(at("12:03"));
    expect(keys(w)).toEqual(["12:01"]);
    expect(w.ledger.cancelled).toEqual(["a"]);
    expect(forgotten).toEqual(["a"]);
  });

  test("a deleted job is not counted any more, or waited for", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    w.jobs.put(minutely("b"));
    const { counted } = start(w);
    await settle();
    w.ledger.poison.add("b");
    await w.time.advanceTo(at("12:01"));
    const figures = () =>
      Promise.all([
        counted('carillon_jobs{status="active"}'),
        counted("carillon_reconcile_queue_depth"),
      ]);
    expect(await figures()).toEqual([2, 1]);
    w.jobs.remove("a");
    w.jobs.remove("b");
    await settle();
    expect(await figures()).toEqual([0, 0]);
  });

  test("a job that is deleted while its first decision is written is not counted", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const answer = w.holdApply();
    const { metrics } = start(w);
    await settle();
    w.jobs.remove("a");
    await settle();
    answer();
    await w.time.advanceTo(at("12:01"));
    expect(w.ledger.cancelled).toEqual(["a"]);
    expect((await metrics.render()).text).not.toMatch(/carillon_jobs\{status="active"\} 1/);
  });

  test("a job runs once its namespace has an account, and no more once it has none", async () => {
    const w = world();
    w.jobs.put(minutely("a", { account: null }));
    start(w);
    await w.time.advanceTo(at("12:01:10"));
    w.jobs.put(minutely("a"));
    await w.time.advanceTo(at("12:02:10"));
    w.jobs.put(minutely("a", { account: null }));
    await w.time.advanceTo(at("12:03:10"));
    expect(keys(w)).toEqual(["12:02"]);
  });

  test("a worker's write to the cursor is found by the conflict and respected", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const { metrics } = start(w);
    await settle();
    const cursor = w.ledger.stored.get("a");
    if (cursor === undefined) throw new Error("no cursor");
    w.ledger.stored.set("a", { ...cursor, haltedGeneration: 1, version: cursor.version + 1 });
    await w.time.advanceTo(at("12:02"));
    expect(keys(w)).toEqual([]);
    expect(w.ledger.stored.get("a")?.startable).toBe(false);
    expect((await metrics.render()).text).toMatch(/carillon_jobs\{status="paused"\} 1/);
  });

  test("however often others have written to it, a run is not late for it", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    start(w);
    for (let minute = 1; minute <= 8; minute += 1) {
      await w.time.advanceTo(at(`12:0${minute}`) - 1_000);
      w.ledger.write("a", {});
    }
    await w.time.advanceTo(at("12:08:30"));
    expect(w.ledger.runs.map((run) => run.createdAt - run.scheduledAt)).toEqual(Array(8).fill(0));
  });

  test("an invalid schedule does not disturb its neighbours", async () => {
    const w = world();
    w.jobs.put(
      minutely("bad", { spec: { schedule: { kind: "cron", expression: "x", timeZone: "UTC" } } }),
    );
    w.jobs.put(minutely("a"));
    const { reports } = start(w);
    await w.time.advanceTo(at("12:01"));
    expect(keys(w)).toEqual(["12:01"]);
    expect(reports.find((report) => report.uid === "bad")?.observed.status).toBe("invalid");
  });

  test("a job that cannot be decided does not disturb its neighbours, and is tried again", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    w.jobs.put(minutely("b"));
    const first = start(w);
    await w.time.advanceTo(at("12:00:40"));
    await first.stop();
    // A position beyond every calendar.
    w.ledger.write("a", { position: 9e15 });
    const { metrics } = start(w);
    await w.time.advanceTo(at("12:01:10"));
    expect(keys(w, "b")).toEqual(["12:01"]);
    const { values } = await metrics.reconciles.get();
    const errors = values.find(({ labels }) => labels.outcome === "error")?.value;
    expect(errors).toBeGreaterThan(3);
    expect(errors).toBeLessThan(10);
  });
});

test("deletions that follow each other without a pause keep nobody from their time", async () => {
  const w = world();
  w.jobs.put(minutely("a"));
  for (let n = 0; n < 100; n += 1) w.jobs.put(minutely(`gone${n}`));
  let deleted = 0;
  const cancelSome = w.ledger.cancelSome.bind(w.ledger);
  w.ledger.cancelSome = async (gone) => {
    const all = await cancelSome(gone);
    if (w.time.now() > at("12:01:02")) return all;
    // The next deletion comes while PostgreSQL cancels the last.
    w.jobs.remove(`gone${(deleted += 1)}`);
    await new Promise<void>((resolve) => w.time.after(50, resolve));
    return all;
  };
  start(w);
  await w.time.advanceTo(at("12:00:59"));
  w.jobs.remove("gone0");
  await w.time.advanceTo(at("12:01:05"));
  expect(deleted).toBeGreaterThan(30);
  const [run] = w.ledger.runs.filter(({ uid }) => uid === "a");
  expect(run?.createdAt).toBeLessThan(at("12:01:00.200"));
});

test("thousands of changed jobs of one account do not hold up what falls due meanwhile", async () => {
  const w = world();
  w.jobs.put(minutely("due"));
  const theirs = Array.from({ length: 200 }, (_, n) => minutely(`theirs${n}`));
  for (const job of theirs) w.jobs.put({ ...job, account: null });
  start(w, { batchSize: 10 });
  await w.time.advanceTo(at("12:00:40"));
  const goOn = w.holdApply();
  // Their namespace is bound to an account. The first batch is under way when the other account's job falls due.
  for (const job of theirs) w.jobs.put(job);
  await settle();
  await w.time.advanceTo(at("12:01"));
  w.ledger.batches.length = 0;
  const batches: number[] = [];
  const apply = w.ledger.apply.bind(w.ledger);
  w.ledger.apply = (changes) => {
    if (changes.some(({ job }) => job.uid === "due")) batches.push(w.ledger.batches.length);
    return apply(changes);
  };
  goOn();
  await settle();
  await w.time.advanceTo(at("12:01:00.500"));
  expect(batches).toEqual([0]);
  expect(w.ledger.batches.length).toBeGreaterThanOrEqual(19);
});

test("work that never ends does not keep deletions waiting", async () => {
  const w = world();
  for (const uid of ["gone0", "gone1"]) w.jobs.put(minutely(uid));
  start(w, { batchSize: 1 });
  await w.time.advanceTo(at("12:00:40"));
  let more = 0;
  const another = () => {
    if (more < 100) w.jobs.put(minutely(`more${(more += 1)}`));
  };
  const apply = w.ledger.apply.bind(w.ledger);
  w.ledger.apply = async (changes) => {
    another();
    return apply(changes);
  };
  const cancelledAt: number[] = [];
  const cancelSome = w.ledger.cancelSome.bind(w.ledger);
  w.ledger.cancelSome = async (gone) => {
    cancelledAt.push(more);
    w.jobs.remove("gone1");
    return cancelSome(gone);
  };
  for (let n = 0; n < 5; n += 1) another();
  w.jobs.remove("gone0");
  await settle();
  expect(cancelledAt).toHaveLength(2);
  expect(cancelledAt[1]).toBeLessThan(20);
});

test("jobs whose runs are dropped are changed some at a time, the accounts in turn, and what falls due is not late", async () => {
  const w = world();
  w.jobs.put(minutely("due"));
  const theirs = Array.from({ length: 400 }, (_, n) => minutely(`theirs${n}`));
  const another = minutely("another", { account: "account-2" });
  for (const job of [...theirs, another]) w.jobs.put(job);
  start(w);
  await w.time.advanceTo(at("12:00:50"));
  const apply = w.ledger.apply.bind(w.ledger);
  const paused: string[][] = [];
  w.ledger.apply = async (changes) => {
    const those = changes.filter(({ to }) => !to.startable).map(({ job }) => job.uid);
    if (those.length > 0) {
      paused.push(those);
      // Each of these transactions takes a second.
      await new Promise<void>((resolve) => w.time.after(1_000, resolve));
    }
    return apply(changes);
  };
  for (const job of [...theirs, another])
    w.jobs.put({ ...job, generation: 2, spec: { ...job.spec, suspend: true } });
  await w.time.advanceTo(at("12:01:30"));
  expect(paused.flat().toSorted()).toEqual([...theirs, another].map(({ uid }) => uid).toSorted());
  expect(Math.max(...paused.map((those) => those.length))).toBe(20);
  expect(paused.slice(0, 2).flat()).toContain("another");
  const [run] = w.ledger.runs.filter(({ uid }) => uid === "due");
  expect(run?.createdAt).toBeLessThanOrEqual(at("12:01:03"));
});

test("a deleted job with very many runs is cancelled in turns with what falls due", async () => {
  const w = world();
  for (const uid of ["a", "gone"]) w.jobs.put(minutely(uid));
  let turns = 0;
  const runsBefore: number[] = [];
  const cancelSome = w.ledger.cancelSome.bind(w.ledger);
  w.ledger.cancelSome = async (gone) => {
    // Each turn takes a second.
    await new Promise<void>((resolve) => w.time.after(1_000, resolve));
    runsBefore.push(keys(w).length);
    turns += 1;
    return (await cancelSome(gone)) && turns === 20;
  };
  start(w);
  await w.time.advanceTo(at("12:00:50"));
  w.jobs.remove("gone");
  await w.time.advanceTo(at("12:02"));
  expect(turns).toBe(20);
  const [run] = w.ledger.runs.filter(({ uid }) => uid === "a");
  expect(run?.createdAt).toBeLessThanOrEqual(at("12:01:01"));
  expect(runsBefore.at(-1)).toBe(1);
});

test("while PostgreSQL is away, deletions that wait ask for it ever more rarely", async () => {
  const w = world();
  w.jobs.put(minutely("a"));
  w.jobs.put(minutely("b"));
  let asked = 0;
  const cancelSome = w.ledger.cancelSome.bind(w.ledger);
  w.ledger.cancelSome = async (gone) => {
    asked += 1;
    if (w.time.now() < at("12:00:55")) throw new DependencyUnavailable("postgres");
    return cancelSome(gone);
  };
  start(w);
  await w.time.advanceTo(at("12:00:31"));
  w.jobs.remove("b");
  await w.time.advanceTo(at("12:02"));
  expect(asked).toBeLessThan(15);
  expect(w.ledger.cancelled).toContain("b");
  expect(keys(w, "a")).toEqual(["12:01", "12:02"]);
});

test.each([
  { who: "a leader forgets none", leading: true, cancelled: 50_003 },
  { who: "a follower the oldest", leading: false, cancelled: 50_000 },
])("deletions that wait by the ten thousand: $who", async ({ leading, cancelled }) => {
  const w = world();
  const batches: number[] = [];
  const cancelSome = w.ledger.cancelSome.bind(w.ledger);
  w.ledger.cancelSome = async (gone) => {
    batches.push(gone.length);
    return cancelSome(gone);
  };
  const { leadership } = start(w, { leadership: new SwitchableLeadership(leading) });
  await w.time.advanceTo(at("12:00:31"));
  w.ledger.down = true;
  for (let n = 0; n < 50_003; n += 1) {
    w.jobs.put(minutely(`gone${n}`));
    w.jobs.remove(`gone${n}`);
  }
  await w.time.advanceTo(at("12:00:35"));
  w.ledger.down = false;
  leadership.set(true);
  await w.time.advanceTo(at("12:00:50"));
  expect(new Set(w.ledger.cancelled).size).toBe(cancelled);
  expect(Math.max(...batches)).toBe(200);
});

describe("the store is lossy or away", () => {
  test("a store that asks for a minute is away all the same: scheduling pauses after ten seconds", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const { controller } = start(w);
    // It has been away before, for a moment.
    await w.time.advanceTo(at("12:00:10"));
    w.jobs.down = true;
    w.jobs.wake();
    await w.time.advanceTo(at("12:00:12"));
    w.jobs.down = false;
    w.jobs.put(minutely("b", { spec: { suspend: true } }));
    await w.time.advanceTo(at("12:00:35"));
    w.jobs.downWith = () => new DependencyUnavailable("kubernetes", { retryAfterSeconds: 60 });
    w.jobs.down = true;
    w.jobs.wake();
    await w.time.advanceTo(at("12:00:50"));
    // Suspended 10 s before its fire time; nobody here can see it.
    w.jobs.put(minutely("a", { generation: 2, spec: { suspend: true } }));
    await w.time.advanceTo(at("12:01:30"));
    const stale = controller.staleMs;
    expect({ runs: keys(w), stale: stale > 30_000 }).toEqual({ runs: [], stale: true });
  });

  test("a watch that broke and cannot be opened again, because the store does not answer, pauses scheduling", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const watch = w.jobs.watch.bind(w.jobs);
    let watches = 0;
    w.jobs.watch = async function* (position, signal) {
      watches += 1;
      if (watches === 1) yield* watch(position, signal);
      else {
        // As client.watch: no answer within inactivityMs.
        await pause(100_000, w.time, signal);
        throw new DependencyUnavailable("kubernetes");
      }
    };
    const { controller } = start(w);
    await w.time.advanceTo(at("12:00:35"));
    w.jobs.down = true;
    w.jobs.wake();
    await w.time.advanceTo(at("12:00:50"));
    w.jobs.put(minutely("a", { generation: 2, spec: { suspend: true } }));
    await w.time.advanceTo(at("12:01:30"));
    const stale = controller.staleMs;
    expect({ runs: keys(w), stale: stale > 30_000 }).toEqual({ runs: [], stale: true });
    // The next list does not wait for the end of that watch.
    w.jobs.down = false;
    await w.time.advanceTo(at("12:01:50"));
    expect(controller.staleMs).toBe(0);
  });

  test("an expired position lists again; deletions in the gap are found", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    w.jobs.put(minutely("b"));
    start(w);
    await w.time.advanceTo(at("12:00:40"));
    w.jobs.remove("a", true);
    w.jobs.put(minutely("c"));
    w.jobs.expire();
    w.jobs.down = true;
    w.jobs.wake();
    await w.time.advanceTo(at("12:00:42"));
    w.jobs.down = false;
    await w.time.advanceTo(at("12:01"));
    expect([keys(w, "a"), keys(w, "b"), keys(w, "c")]).toEqual([[], ["12:01"], ["12:01"]]);
    expect(w.ledger.cancelled).toEqual(["a"]);
  });

  test("a lost event is repaired by the resync", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    start(w, { resyncMs: 120_000 });
    await w.time.advanceTo(at("12:01"));
    w.jobs.putQuietly(minutely("a", { generation: 2, spec: { suspend: true } }));
    await w.time.advanceTo(at("12:05"));
    expect(keys(w)).toEqual(["12:01", "12:02"]);
  });

  test("a resync is no outage, although the watch that it ends fails", async () => {
    const w = world();
    const { said, log } = listening();
    const watch = w.jobs.watch.bind(w.jobs);
    w.jobs.watch = async function* (position, signal) {
      yield* watch(position, signal);
      // As client.watch.
      signal.throwIfAborted();
    };
    start(w, { resyncMs: 20_000, log });
    await w.time.advanceTo(at("12:03"));
    expect(w.jobs.lists).toBeGreaterThan(5);
    expect(said).not.toContainEqual(expect.stringContaining("does not answer"));
  });

  test("an old state of a job that the watch tells of after the list is not gone back to", async () => {
    const w = world();
    const edited = minutely("a", { generation: 2 });
    w.jobs.put(edited);
    start(w);
    await w.time.advanceTo(at("12:01"));
    w.jobs.put(minutely("a"));
    w.jobs.putQuietly(edited);
    await w.time.advanceTo(at("12:03"));
    expect(keys(w)).toEqual(["12:01", "12:02", "12:03"]);
    expect(w.jobs.lists).toBe(1);
  });

  test.each([
    { random: 0, after: 90 },
    { random: 1, after: 150 },
  ])("replicas do not resync in step: of two minutes, one after $after s", async (of) => {
    const w = world();
    start(w, { resyncMs: 120_000, random: () => of.random });
    await settle();
    const began = w.time.now();
    await w.time.advanceTo(began + of.after * 1_000 - 1_000);
    expect(w.jobs.lists).toBe(1);
    await w.time.advanceTo(began + of.after * 1_000);
    expect(w.jobs.lists).toBe(2);
  });

  test("a long outage pauses scheduling; the changes made meanwhile come first", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    w.jobs.put(minutely("b"));
    start(w);
    await w.time.advanceTo(at("12:00:35"));
    w.jobs.down = true;
    w.jobs.wake();
    await w.time.advanceTo(at("12:02:30"));
    expect(w.ledger.runs).toEqual([]);
    w.jobs.put(minutely("a", { generation: 2, spec: { suspend: true } }));
    w.jobs.down = false;
    await w.time.advanceTo(at("12:02:40"));
    expect([keys(w, "a"), keys(w, "b")]).toEqual([[], ["12:02"]]);
  });

  test("a change that cannot be taken in pauses scheduling at once, until a list has it", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    w.jobs.put(minutely("b"));
    start(w);
    await w.time.advanceTo(at("12:00:56"));
    w.jobs.downWith = () => new ChangeUnread("postgres");
    w.jobs.down = true;
    w.jobs.put(minutely("a", { generation: 2, spec: { suspend: true } }));
    await w.time.advanceTo(at("12:01:02"));
    w.jobs.down = false;
    await w.time.advanceTo(at("12:01:30"));
    expect([keys(w, "a"), keys(w, "b")]).toEqual([[], ["12:01"]]);
  });

  test.each([
    { after: "events", expires: false, lists: 1 },
    { after: "lists and no event", expires: true, lists: 3 },
  ])("two short outages are not one long one, after $after", async ({ expires, lists }) => {
    const w = world();
    w.jobs.put(minutely("a"));
    const warnings: unknown[] = [];
    const log = {
      ...createLogger({ level: "silent" }),
      warn: (line: unknown) => warnings.push(line),
    };
    const { controller } = start(w, { log });
    for (const minute of ["12:01", "12:02"]) {
      await w.time.advanceTo(at(`${minute}:10`));
      w.jobs.down = true;
      if (expires) w.jobs.expire();
      else w.jobs.wake();
      await w.time.advanceTo(at(`${minute}:16`));
      expect(controller.staleMs).toBe(0);
      w.jobs.down = false;
      if (!expires) w.jobs.put(minutely(`since ${minute}`));
    }
    await w.time.advanceTo(at("12:03"));
    expect([w.jobs.lists, warnings.length]).toEqual([lists, 2]);
  });

  test.each([
    { asks: 30, lists: 4 },
    { asks: 3_600, lists: 2 },
  ])("a store that asks for $asks s is given them, up to a minute", async ({ asks, lists }) => {
    const w = world();
    let asked = 0;
    w.jobs.list = async () => {
      asked += 1;
      throw new DependencyUnavailable("kubernetes", { retryAfterSeconds: asks });
    };
    start(w);
    await w.time.advanceTo(at("12:02:30"));
    expect(asked).toBe(lists);
  });

  test("a store that ends every watch is not asked without a pause", async () => {
    const w = world();
    let watches = 0;
    w.jobs.watch = async function* () {
      watches += 1;
      if (watches > 1_000) throw new Error("a busy loop");
      yield* [];
    };
    start(w);
    await w.time.advanceTo(at("12:00:40"));
    expect(watches).toBeLessThan(200);
  });
});

test("a store that is down is asked ever more rarely", async () => {
  const w = world();
  let asked = 0;
  w.jobs.down = true;
  w.jobs.downWith = () => {
    asked += 1;
    return new Error("store down");
  };
  start(w);
  await w.time.advanceTo(at("12:01:30"));
  expect(asked).toBeGreaterThan(10);
  expect(asked).toBeLessThan(30);
});

/** Every watch answers, and breaks a moment later, at the position where it began unless it `getsOn`. */
function breaking(
  w: ReturnType<typeof world>,
  afterMs: number,
  error: () => Error,
  { getsOn = false } = {},
) {
  const seen = { watches: 0 };
  w.jobs.watch = async function* (position, signal) {
    seen.watches += 1;
    yield { type: "bookmark", position: getsOn ? `${position}+` : position };
    await pause(afterMs, w.time, signal);
    throw error();
  };
  return seen;
}

describe("a store that lets nobody watch it for long", () => {
  test("what it never tells of is found by a list", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    breaking(w, 10, () => new DependencyUnavailable("kubernetes"));
    const { controller } = start(w);
    await w.time.advanceTo(at("12:00:40"));
    w.jobs.putQuietly(minutely("b"));
    await w.time.advanceTo(at("12:02"));
    expect([keys(w, "a"), keys(w, "b")]).toEqual([
      ["12:01", "12:02"],
      ["12:01", "12:02"],
    ]);
    expect(controller.staleMs).toBe(0);
    expect(w.jobs.lists).toBeLessThan(60);
  });

  test("it is listed after the third in a row that breaks at once, and after each from there on", async () => {
    const w = world();
    /** How many lists there had been when each watch began. */
    const lists: number[] = [];
    w.jobs.watch = async function* (position) {
      const turn = lists.push(w.jobs.lists);
      yield { type: "bookmark", position };
      // These two watches end in order; before each of them two break.
      if (turn !== 3 && turn !== 6) throw new DependencyUnavailable("kubernetes");
    };
    start(w);
    await w.time.advanceTo(at("12:02"));
    expect(lists.slice(0, 11)).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3]);
  });

  test("while each watch takes up where the one before broke, nothing is listed", async () => {
    const w = world();
    const seen = breaking(w, 10, () => new DependencyUnavailable("kubernetes"), { getsOn: true });
    start(w);
    await w.time.advanceTo(at("12:01"));
    expect(seen.watches).toBeGreaterThan(10);
    expect(w.jobs.lists).toBe(1);
  });

  test("broken every minute, it is listed by the resync all the same", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    breaking(w, 60_000, () => new DependencyUnavailable("kubernetes"));
    start(w, { resyncMs: 240_000 });
    await w.time.advanceTo(at("12:00:40"));
    w.jobs.putQuietly(minutely("b"));
    await w.time.advanceTo(at("12:10"));
    expect(keys(w, "b").at(-1)).toBe("12:10");
    expect(w.jobs.lists).toBeLessThan(5);
  });

  test("one whose positions expire at once is not listed without a pause", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const seen = breaking(w, 10, () => new PositionExpired("too old"));
    start(w);
    await w.time.advanceTo(at("12:02:30"));
    expect(seen.watches).toBeLessThan(50);
    expect(keys(w)).toEqual(["12:01", "12:02"]);
  });
});

describe("the store fails just when it is to be listed", () => {
  test.each([
    { when: "at a resync", resyncMs: 8_000, expires: false, late: false },
    {
      when: "after an expired position or a rebinding",
      resyncMs: 900_000,
      expires: true,
      late: false,
    },
    { when: "as its pages expire on the way", resyncMs: 900_000, expires: true, late: true },
  ])("$when: scheduling pauses until it is listed", async ({ resyncMs, expires, late }) => {
    const w = world();
    w.jobs.put(minutely("a"));
    w.jobs.put(minutely("b"));
    const { controller } = start(w, { resyncMs });
    await w.time.advanceTo(at("12:00:35"));
    if (late) w.jobs.downWith = () => new PositionExpired("too old a page");
    w.jobs.down = true;
    if (expires) w.jobs.expire();
    await w.time.advanceTo(at("12:02:30"));
    expect(w.ledger.runs).toEqual([]);
    // Blind during all of the outage but its first ten seconds and one backoff.
    expect(controller.staleMs).toBeGreaterThan(90_000);
    expect(controller.staleMs).toBeLessThan(120_000);
    w.jobs.put(minutely("a", { generation: 2, spec: { suspend: true } }));
    w.jobs.down = false;
    await w.time.advanceTo(at("12:02:40"));
    expect([keys(w, "a"), keys(w, "b")]).toEqual([[], ["12:02"]]);
    expect(controller.staleMs).toBe(0);
  });

  test("a list that is under way at the end is not gone on with", async () => {
    const w = world();
    const page = Promise.withResolvers<void>();
    let pages = 0;
    w.jobs.list = async () => {
      pages += 1;
      await page.promise;
      return { jobs: [], position: "0", ...(pages < 3 && { continue: "more" }) };
    };
    const { stop } = start(w);
    await settle();
    const stopped = stop();
    page.resolve();
    await stopped;
    expect(pages).toBe(1);
  });

  test("a list that is not answered at all pauses scheduling too", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const { said, log } = listening();
    const { controller } = start(w, { log });
    await w.time.advanceTo(at("12:00:35"));
    const answer = Promise.withResolvers<void>();
    w.jobs.held = answer.promise;
    w.jobs.expire();
    await w.time.advanceTo(at("12:02:30"));
    const created = w.ledger.runs.length;
    const { staleMs } = controller;
    answer.resolve();
    expect(created).toBe(0);
    expect(staleMs).toBeGreaterThan(90_000);
    await w.time.advanceTo(at("12:02:40"));
    expect(keys(w)).toEqual(["12:02"]);
    // The log says that scheduling goes on just as it said that it pauses, although no call has failed.
    expect(said.filter((message) => message.includes("; scheduling"))).toEqual([
      expect.stringContaining("scheduling pauses"),
      expect.stringContaining("scheduling goes on"),
    ]);
  });

  test("while each list fails after a while, it counts from the first one how long the store has been away", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const { controller } = start(w);
    await w.time.advanceTo(at("12:00:35"));
    w.jobs.list = async () => {
      await pause(20_000, w.time);
      throw new DependencyUnavailable("kubernetes");
    };
    w.jobs.expire();
    await w.time.advanceTo(at("12:03"));
    expect(controller.staleMs).toBeGreaterThan(120_000);
  });

  test("jobs of a namespace that refuses wait, are not cancelled, and stop nobody", async () => {
    const w = world();
    for (const uid of ["a", "b", "c"]) w.jobs.put(minutely(uid));
    const first = start(w, { resyncMs: 20_000 });
    await w.time.advanceTo(at("12:01"));
    w.jobs.refused.add("b");
    // The event of its deletion is lost, and the list cannot tell it from a job of the namespace that refuses.
    w.jobs.remove("c", true);
    await w.time.advanceTo(at("12:02:30"));
    expect([keys(w, "a"), keys(w, "b"), keys(w, "c")]).toEqual([
      ["12:01", "12:02"],
      ["12:01"],
      ["12:01"],
    ]);
    expect(first.controller).toMatchObject({ staleMs: 0, refused: ["team-b"] });
    // A leader that starts meanwhile knows of b only by its cursor.
    await first.stop();
    w.jobs.lists = 0;
    const { controller } = start(w, { resyncMs: 20_000 });
    await w.time.advanceTo(at("12:03:30"));
    // The first list, one because of the cursors without jobs, and the resyncs.
    expect(w.jobs.lists).toBeLessThan(6);
    expect(keys(w, "a")).toContain("12:03");
    expect(w.ledger.cancelled).toEqual([]);

    w.jobs.refused.clear();
    await w.time.advanceTo(at("12:04"));
    expect(keys(w, "b")).toEqual(["12:01", "12:03", "12:04"]);
    expect(controller.refused).toEqual([]);
    expect(w.ledger.cancelled).toEqual(["c"]);
  });

  test("a store that was never listed is no view, however long it fails", async () => {
    const w = world();
    w.jobs.down = true;
    w.jobs.put(minutely("a"));
    const { controller } = start(w);
    await w.time.advanceTo(at("12:05"));
    expect(controller.staleMs).toBe(Infinity);
    w.jobs.down = false;
    await w.time.advanceTo(at("12:05:10"));
    expect(controller.staleMs).toBe(0);
  });
});

describe("PostgreSQL is away", () => {
  test("scheduling pauses, recovers by itself and catches up", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    start(w);
    await w.time.advanceTo(at("12:00:40"));
    w.ledger.down = true;
    await w.time.advanceTo(at("12:03:30"));
    expect(w.ledger.attempts).toBeLessThan(60);
    w.ledger.down = false;
    await w.time.advanceTo(at("12:03:36"));
    expect(keys(w)).toEqual(["12:03"]);
  });

  test("it may be away at the start", async () => {
    const w = world();
    w.ledger.down = true;
    w.jobs.put(minutely("a"));
    start(w);
    await w.time.advanceTo(at("12:00:50"));
    w.ledger.down = false;
    await w.time.advanceTo(at("12:01"));
    expect(keys(w)).toEqual(["12:01"]);
  });

  test("what is deleted meanwhile is cancelled when it is back", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    start(w);
    await w.time.advanceTo(at("12:00:40"));
    w.ledger.down = true;
    w.jobs.remove("a");
    await w.time.advanceTo(at("12:00:42"));
    w.ledger.down = false;
    await w.time.advanceTo(at("12:00:50"));
    expect(w.ledger.cancelled).toEqual(["a"]);
  });

  test("what was deleted while nobody led is found also when it is away at the start", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const first = start(w);
    await w.time.advanceTo(at("12:00:40"));
    await first.stop();
    w.jobs.remove("a");
    w.ledger.down = true;
    start(w);
    await w.time.advanceTo(at("12:00:42"));
    w.ledger.down = false;
    await w.time.advanceTo(at("12:00:50"));
    expect(w.ledger.cancelled).toEqual(["a"]);
  });

  test("a batch that takes it too long gets through in parts", async () => {
    const w = world();
    for (let n = 0; n < 100; n += 1) w.jobs.put(minutely(`j${n}`));
    const apply = w.ledger.apply.bind(w.ledger);
    let most = 10;
    w.ledger.apply = async (changes) => {
      if (changes.length > most) throw new DependencyUnavailable("postgres");
      return apply(changes);
    };
    start(w);
    await w.time.advanceTo(at("12:01:20"));
    expect(w.ledger.runs).toHaveLength(100);
    // The batches grow again once PostgreSQL is quicker.
    most = 100;
    await w.time.advanceTo(at("12:02:20"));
    w.ledger.batches.length = 0;
    await w.time.advanceTo(at("12:03:20"));
    expect(w.ledger.batches).toEqual([100]);
  });

  test("it may answer and refuse every write: no job is suspected and put off", async () => {
    const w = world();
    for (let n = 0; n < 50; n += 1) w.jobs.put(minutely(`j${n}`));
    const { metrics } = start(w);
    await w.time.advanceTo(at("12:00:30"));
    w.ledger.readOnly = true;
    await w.time.advanceTo(at("12:05:30"));
    const { values } = await metrics.reconciles.get();
    expect(values.find(({ labels }) => labels.outcome === "error")).toBeUndefined();
    w.ledger.readOnly = false;
    // All of them run as soon as the loop looks again.
    await w.time.advanceTo(at("12:05:35.500"));
    expect(w.ledger.runs).toHaveLength(50);
  });

  test("jobs that it refuses, however many, are put off alone", async () => {
    const w = world();
    for (let n = 0; n < 200; n += 1) w.jobs.put(minutely(`j${n}`));
    for (let n = 50; n < 90; n += 1) w.ledger.poison.add(`j${n}`);
    const { metrics } = start(w);
    await settle();
    expect(w.ledger.stored.size).toBe(160);
    await w.time.advanceTo(at("12:01"));
    expect(w.ledger.runs).toHaveLength(160);
    w.ledger.poison.clear();
    await w.time.advanceTo(at("12:03"));
    expect(keys(w, "j77")).toContain("12:03");
    const { values } = await metrics.reconciles.get();
    const errors = values.find(({ labels }) => labels.outcome === "error")?.value;
    expect(errors).toBeGreaterThanOrEqual(40);
  });

  test("one that fails in its own way for hours is put off alone for as long", async () => {
    const w = world();
    for (let n = 0; n < 20; n += 1) w.jobs.put(minutely(`j${n}`));
    const apply = w.ledger.apply.bind(w.ledger);
    w.ledger.apply = async (changes) => {
      if (changes.some(({ job }) => job.uid === "j7")) throw new Error("nobody knows why");
      return apply(changes);
    };
    start(w);
    await w.time.advanceTo(at("14:00:30"));
    expect(w.ledger.runs).toHaveLength(19 * 120);
    const late = w.ledger.runs.filter(({ createdAt, scheduledAt }) => createdAt > scheduledAt);
    expect(late).toEqual([]);
  });

  test("it may fail at every write in a way of its own: then it is not the jobs", async () => {
    const w = world();
    for (let n = 0; n < 100; n += 1) w.jobs.put(minutely(`j${n}`));
    const apply = w.ledger.apply.bind(w.ledger);
    let tries = 0;
    w.ledger.apply = () => {
      tries += 1;
      return Promise.reject(new Error("nobody knows why"));
    };
    start(w);
    await w.time.advanceTo(at("12:00:40"));
    expect(tries).toBeLessThan(40);
    w.ledger.apply = apply;
    await w.time.advanceTo(at("12:01:10"));
    expect(w.ledger.runs).toHaveLength(100);
  });

  test("a job that it has taken since it refused it is tried again as soon as one that it never refused", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    start(w);
    await settle();
    w.ledger.poison.add("a");
    await w.time.advanceTo(at("12:10:30"));
    w.ledger.poison.clear();
    await w.time.advanceTo(at("12:12:30"));
    expect(keys(w)).toContain("12:12");
    w.ledger.poison.add("a");
    await w.time.advanceTo(at("12:13:00.100"));
    w.ledger.poison.clear();
    await w.time.advanceTo(at("12:13:01"));
    expect(keys(w)).toContain("12:13");
  });
});

describe("leadership", () => {
  test("a follower does nothing, and schedules once it leads", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const { leadership } = start(w, { leadership: new SwitchableLeadership(false) });
    await w.time.advanceTo(at("12:01:10"));
    expect(w.ledger.attempts).toBe(0);
    leadership.set(true);
    await w.time.advanceTo(at("12:02"));
    expect(keys(w)).toEqual(["12:01", "12:02"]);
  });

  test("nothing is created once it is lost, even before the listener hears", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const { leadership } = start(w);
    await w.time.advanceTo(at("12:00:40"));
    leadership.lapsed = true;
    await w.time.advanceTo(at("12:02"));
    expect(keys(w)).toEqual([]);
    leadership.set(false);
    await w.time.advanceTo(at("12:03"));
    leadership.set(true);
    await w.time.advanceTo(at("12:04"));
    expect(keys(w)).toEqual(["12:03", "12:04"]);
  });

  test("what was about to be decided when it was lost is not written", async () => {
    const w = world();
    w.jobs.put(minutely("a", { spec: { concurrencyPolicy: "Forbid" } }));
    const { leadership } = start(w);
    await w.time.advanceTo(at("12:00:40"));
    const { attempts } = w.ledger;
    const answer = Promise.withResolvers<Map<string, UnfinishedRun[]>>();
    w.ledger.unfinished = () => answer.promise;
    await w.time.advanceTo(at("12:01"));
    leadership.set(false);
    answer.resolve(new Map());
    await settle();
    expect(w.ledger.attempts).toBe(attempts);
  });

  test("a pause that comes while a decision waits for PostgreSQL counts from when it came", async () => {
    const w = world();
    const of = minutely("a", { spec: { concurrencyPolicy: "Forbid" } });
    w.jobs.put(of);
    start(w);
    await w.time.advanceTo(at("12:00:40"));
    const missed: string[] = [];
    const apply = w.ledger.apply.bind(w.ledger);
    w.ledger.apply = (changes) => {
      for (const { first, reason } of changes.flatMap((change) => change.missed))
        missed.push(`${isoUtc(first).slice(11, 16)} ${reason}`);
      return apply(changes);
    };
    const answer = Promise.withResolvers<Map<string, UnfinishedRun[]>>();
    w.ledger.unfinished = () => answer.promise;
    await w.time.advanceTo(at("12:02:10"));
    w.jobs.put({ ...of, generation: 2, spec: { ...of.spec, suspend: true } });
    await settle();
    answer.resolve(new Map());
    await settle();
    expect(keys(w)).toEqual(["12:01"]);
    expect(missed).toEqual(["12:02 paused"]);
  });

  test("two that both believe they lead create each run once", async () => {
    const w = world();
    for (let n = 0; n < 20; n += 1) w.jobs.put(minutely(`j${n}`));
    start(w);
    start(w);
    await w.time.advanceTo(at("12:05"));
    expect(w.ledger.runs).toHaveLength(100);
    expect(new Set(w.ledger.runs.map((run) => run.uid + run.key)).size).toBe(100);
  });

  test("a cursor that PostgreSQL has lost, as one that was restored, is made anew", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    start(w);
    await w.time.advanceTo(at("12:01"));
    w.ledger.stored.clear();
    await w.time.advanceTo(at("12:03"));
    expect(keys(w)).toEqual(["12:01", "12:02", "12:03"]);
  });

  test("a compare-and-set that is lost again and again is not tried without a pause, nor given up", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    let tries = 0;
    const apply = w.ledger.apply.bind(w.ledger);
    w.ledger.apply = async (changes) => {
      tries += 1;
      if (tries > 1_000) throw new Error("a busy loop");
      return { conflicts: changes.map(({ job }) => job.uid), created: 0 };
    };
    start(w);
    await w.time.advanceTo(at("12:01:30"));
    expect(tries).toBeLessThan(20);
    w.ledger.apply = apply;
    await w.time.advanceTo(at("12:03"));
    expect(keys(w).at(-1)).toBe("12:03");
  });

  test("what was written while it was lost is told of in the next term, not before", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const { leadership, reports } = start(w);
    await w.time.advanceTo(at("12:00:40"));
    const answer = w.holdApply();
    await w.time.advanceTo(at("12:01"));
    const told = reports.length;
    leadership.set(false);
    answer();
    await settle();
    expect(reports).toHaveLength(told);
    leadership.set(true);
    await settle();
    expect(reports).toHaveLength(told + 1);
  });

  test("jobs are counted and told of by who leads, in each term anew", async () => {
    const w = world();
    w.jobs.put(minutely("a", { spec: { schedule: { kind: "once", at: at("18:00") } } }));
    const { leadership, reports, cleared, counted, stop } = start(w);
    const active = () => counted('carillon_jobs{status="active"}');
    const leader = () => counted("carillon_leader");
    await settle();
    expect([await leader(), await active(), reports.length, cleared()]).toEqual([1, 1, 1, 0]);
    leadership.set(false);
    await settle();
    expect([await leader(), await active(), reports.length, cleared()]).toEqual([0, 0, 1, 1]);
    leadership.set(true);
    await settle();
    expect([await leader(), await active(), reports.length, cleared()]).toEqual([1, 1, 2, 1]);
    await stop();
    expect([await leader(), cleared()]).toEqual([0, 2]);
    leadership.set(false);
    leadership.set(true);
    expect(await leader()).toBe(0);
  });

  test("runs are counted by what asked for them, and it is measured how late they were created", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const first = start(w);
    await w.time.advanceTo(at("12:01"));
    await first.stop();
    await w.time.advanceTo(at("12:03:20"));
    const { counted } = start(w);
    await settle();
    w.jobs.put(minutely("a", { runNow: "now" }));
    await settle();
    expect(await counted('carillon_runs_created_total{trigger="schedule"}')).toBe(1);
    expect(await counted('carillon_runs_created_total{trigger="manual"}')).toBe(1);
    expect(await counted("carillon_run_creation_lateness_seconds_count")).toBe(1);
    expect(await counted("carillon_run_creation_lateness_seconds_sum")).toBe(20);
    expect(await counted('carillon_runs_missed_total{reason="downtime"}')).toBe(1);
  });

  test("jobs deleted while nobody led are cancelled, but only when a later list confirms it", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    w.jobs.put(minutely("b"));
    const first = start(w);
    await w.time.advanceTo(at("12:00:40"));
    await first.stop();
    w.jobs.remove("a");
    start(w);
    await w.time.advanceTo(at("12:00:50"));
    expect(w.ledger.cancelled).toEqual(["a"]);
    expect(w.jobs.lists).toBe(3);
  });

  test.each([
    { title: "deleted", given: { deleted: true, startable: false } },
    { title: "at a later generation", given: { generation: 9 } },
  ])(
    "a job that its cursor has $title runs again once a later list shows it",
    async ({ given }) => {
      const w = world();
      w.jobs.put(minutely("a"));
      w.jobs.put(minutely("b"));
      const first = start(w);
      await w.time.advanceTo(at("12:01:30"));
      await first.stop();
      w.ledger.write("a", given);
      const { reports } = start(w);
      await w.time.advanceTo(at("12:02:30"));
      expect(keys(w, "a")).toEqual(["12:01", "12:02"]);
      expect(w.ledger.stored.get("a")).toMatchObject({ deleted: false, generation: 1 });
      expect(statuses(reports, "a").at(-1)).toBe("active");
      // One list for each leader, and one to make sure.
      expect(w.jobs.lists).toBe(3);
      // A later contradiction has to be proved again.
      w.ledger.write("a", given);
      await w.time.advanceTo(at("12:04:30"));
      expect(keys(w, "a")).toEqual(["12:01", "12:02"]);
    },
  );

  test.each([
    { when: "when all of it can be listed", refused: [] },
    { when: "although a namespace cannot be listed", refused: ["b"] },
  ])("a store that is restored under the leader's eyes is followed, $when", async ({ refused }) => {
    const w = world();
    w.jobs.put(minutely("b"));
    for (const uid of refused) w.jobs.refused.add(uid);
    w.jobs.put(minutely("a", { generation: 2, spec: { suspend: true } }));
    start(w);
    await w.time.advanceTo(at("12:01:30"));
    w.jobs.putQuietly(minutely("a"));
    w.jobs.expire();
    await w.time.advanceTo(at("12:03:30"));
    expect(keys(w, "a")).toEqual(["12:02", "12:03"]);
    expect(w.ledger.stored.get("a")).toMatchObject({ generation: 1, startable: true });
  });

  test("one that is restored and changed since is followed too, although the number is known", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    start(w);
    await w.time.advanceTo(at("12:01:50"));
    const changed = minutely("a", { spec: { name: "changed" } });
    w.jobs.putQuietly(changed);
    w.jobs.expire();
    await w.time.advanceTo(at("12:02:30"));
    expect(w.ledger.stored.get("a")).toMatchObject({
      generation: 1,
      revision: revisionOf(changed),
    });
    expect(keys(w, "a")).toEqual(["12:01", "12:02"]);
  });

  test("a list that is under way at a take-over proves nothing; the next one follows at once", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    w.jobs.put(minutely("b"));
    const first = start(w);
    await w.time.advanceTo(at("12:00:40"));
    await first.stop();
    w.jobs.remove("a");
    const { leadership } = start(w, { leadership: new SwitchableLeadership(false) });
    await w.time.advanceTo(at("12:00:50"));
    const answer = Promise.withResolvers<void>();
    w.jobs.held = answer.promise;
    w.jobs.expire();
    await w.time.advanceTo(at("12:00:51"));
    leadership.set(true);
    await w.time.advanceTo(at("12:00:55"));
    expect(w.ledger.cancelled).toEqual([]);
    answer.resolve();
    await w.time.advanceTo(at("12:00:56"));
    expect(w.ledger.cancelled).toEqual(["a"]);
    // The first leader's list, the second's two, and one to make sure.
    expect(w.jobs.lists).toBe(4);
  });

  test("a job that was made after such a list had passed its place is not cancelled", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const first = start(w);
    await w.time.advanceTo(at("12:00:40"));
    await first.stop();
    const { leadership } = start(w, { leadership: new SwitchableLeadership(false) });
    await w.time.advanceTo(at("12:00:50"));
    const list = w.jobs.list.bind(w.jobs);
    const answer = Promise.withResolvers<void>();
    w.jobs.list = async (options) => {
      w.jobs.list = list;
      const passed = await list(options);
      await answer.promise;
      return passed;
    };
    w.jobs.expire();
    await w.time.advanceTo(at("12:00:51"));
    // Another leader has seen the new job meanwhile, and has given it a cursor.
    w.jobs.put(minutely("new"));
    const cursor = w.ledger.stored.get("a");
    if (cursor === undefined) throw new Error("no cursor");
    w.ledger.stored.set("new", { ...cursor, jobUid: "new" });
    leadership.set(true);
    await w.time.advanceTo(at("12:00:52"));
    answer.resolve();
    await w.time.advanceTo(at("12:01"));
    expect(w.ledger.cancelled).toEqual([]);
    expect(keys(w, "new")).toEqual(["12:01"]);
  });

  test("one that follows another leader does not list again for each job that the other saw first", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    start(w);
    await w.time.advanceTo(at("12:00:31"));
    let lists = 0;
    const slow: Pick<JobStore, "list" | "watch"> = {
      async list(options) {
        lists += 1;
        const page = await w.jobs.list(options);
        await new Promise<void>((resolve) => void w.time.after(3_000, resolve));
        return page;
      },
      watch: (position, signal) => w.jobs.watch(position, signal),
    };
    start(w, { jobs: slow as JobStore });
    for (let n = 0; n < 200; n += 1) {
      w.jobs.put(minutely(`j${n}`));
      await w.time.advanceTo(w.time.now() + 100);
    }
    expect(lists).toBe(1);
  });

  test("what a follower saw deleted, and a restored store has again, is not cancelled when it leads", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const first = start(w);
    const second = start(w, { leadership: new SwitchableLeadership(false) });
    await w.time.advanceTo(at("12:01:10"));
    w.jobs.remove("a");
    await w.time.advanceTo(at("12:01:20"));
    w.jobs.putQuietly(minutely("a"));
    w.jobs.expire();
    await w.time.advanceTo(at("12:02:10"));
    first.leadership.set(false);
    second.leadership.set(true);
    await w.time.advanceTo(at("12:03:10"));
    expect(keys(w)).toEqual(["12:01", "12:02", "12:03"]);
    expect(w.ledger.cancelled).toEqual(["a"]);
  });

  test("a cursor that is ahead of the store's news waits for them", async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    const first = start(w);
    await w.time.advanceTo(at("12:00:30"));
    await first.stop();
    w.ledger.write("a", { generation: 2 });
    const list = w.jobs.list.bind(w.jobs);
    w.jobs.list = async (options) => {
      // The new leader's first list is out of date; the list that is to prove the cursor contains the edit.
      if (w.jobs.lists === 2)
        w.jobs.putQuietly(minutely("a", { generation: 2, spec: { suspend: true } }));
      return list(options);
    };
    const { reports } = start(w);
    await w.time.advanceTo(at("12:02:30"));
    expect(w.jobs.lists).toBe(3);
    expect(keys(w, "a")).toEqual([]);
    expect(statuses(reports, "a")).toEqual(["paused"]);
    // The first leader wrote it, then the edit was taken up; there was no write in between.
    expect(w.ledger.stored.get("a")).toMatchObject({ generation: 2, startable: false, version: 3 });
  });
});

const statuses = (reports: { uid: string; observed: Observed }[], uid: string) =>
  reports.filter((report) => report.uid === uid).map((report) => report.observed.status);

async function halted() {
  const w = world();
  const news = new SpokenNews();
  w.jobs.put(minutely("a"));
  w.jobs.put(minutely("b"));
  const started = start(w, { news });
  await w.time.advanceTo(at("12:01:30"));
  w.ledger.write("a", { haltedGeneration: 1, startable: false });
  return { w, news, ...started };
}

for (const { what, turn, turnBack, inTheEnd } of [
  {
    what: "a view turns stale",
    turn: ({ w }: { w: ReturnType<typeof world> }) => {
      // The deletion of a cannot be read: the view is known to lack a change.
      w.jobs.downWith = () => new ChangeUnread("postgres");
      w.jobs.down = true;
      w.jobs.remove("a", true);
      w.jobs.wake();
    },
    turnBack: () => undefined,
    inTheEnd: ["12:01"],
  },
  {
    what: "leadership lapses",
    turn: ({ leadership }: { leadership: SwitchableLeadership }) => {
      leadership.lapsed = true;
    },
    turnBack: ({ leadership }: { leadership: SwitchableLeadership }) => {
      leadership.lapsed = false;
    },
    inTheEnd: ["12:01", "12:02"],
  },
  {
    what: "the clock is lost",
    turn: ({ w }: { w: ReturnType<typeof world> }) => {
      w.time.known = false;
    },
    turnBack: ({ w }: { w: ReturnType<typeof world> }) => {
      w.time.known = true;
    },
    inTheEnd: ["12:01", "12:02"],
  },
])
  test(`${what} while it is asked who is locked: nothing is decided by it, nor lost`, async () => {
    const w = world();
    w.jobs.put(minutely("a"));
    w.jobs.put(minutely("b"));
    const { leadership } = start(w);
    await w.time.advanceTo(at("12:00:40"));
    const apply = w.ledger.apply.bind(w.ledger);
    w.ledger.apply = async (changes) => {
      if (changes.some(({ job }) => job.uid === "b")) throw new LockHeld("postgres");
      return apply(changes);
    };
    // b is put aside at 12:01. From then on each batch is preceded by the question; that of 12:02 gets no answer.
    const answer = Promise.withResolvers<void>();
    let asked = false;
    w.ledger.locked = async (uids) => {
      if (uids.includes("a") && w.time.now() >= at("12:02")) {
        asked = true;
        await answer.promise;
      }
      return new Set(uids.filter((uid) => uid === "b"));
    };
    await w.time.advanceTo(at("12:02:05"));
    expect(asked).toBe(true);
    turn({ w, leadership });
    await settle();
    answer.resolve();
    await w.time.advanceTo(at("12:02:06"));
    expect(keys(w, "a")).toEqual(["12:01"]);
    turnBack({ w, leadership });
    await w.time.advanceTo(at("12:02:10"));
    expect(keys(w, "a")).toEqual(inTheEnd);
  });

test("while it cannot be asked who is locked, the others go on", async () => {
  const w = world();
  for (const uid of ["a", "locked"]) w.jobs.put(minutely(uid));
  let held = false;
  let answers = true;
  const apply = w.ledger.apply.bind(w.ledger);
  w.ledger.apply = async (changes) => {
    if (held && changes.some(({ job }) => job.uid === "locked")) throw new LockHeld("postgres");
    return apply(changes);
  };
  w.ledger.locked = async (uids) => {
    if (!answers) throw new DependencyUnavailable("postgres");
    return new Set(uids.filter((uid) => held && uid === "locked"));
  };
  start(w);
  await w.time.advanceTo(at("12:00:40"));
  [held, answers] = [true, false];
  await w.time.advanceTo(at("12:01:10"));
  answers = true;
  await w.time.advanceTo(at("12:01:20"));
  answers = false;
  await w.time.advanceTo(at("12:04:00.100"));
  expect(keys(w, "a")).toEqual(["12:01", "12:02", "12:03", "12:04"]);
  expect(keys(w, "locked")).toEqual([]);
  [held, answers] = [false, true];
  await w.time.advanceTo(at("12:05"));
  expect(keys(w, "locked").at(-1)).toBe("12:05");
});

test("a deleted job that somebody has locked stops nobody else, and is cancelled in the end", async () => {
  const w = world();
  for (const uid of ["a", "locked"]) w.jobs.put(minutely(uid));
  let held = true;
  const isHeld = (uid: string) => held && uid === "locked";
  const cancelSome = w.ledger.cancelSome.bind(w.ledger);
  w.ledger.cancelSome = async (uids) => {
    if (uids.some(isHeld)) throw new LockHeld("postgres");
    return cancelSome(uids);
  };
  w.ledger.locked = async (uids) => new Set(uids.filter(isHeld));
  const { said, log } = listening();
  start(w, { log });
  await w.time.advanceTo(at("12:00:40"));
  w.jobs.remove("locked");
  await w.time.advanceTo(at("12:02:00.100"));
  expect(keys(w, "a")).toEqual(["12:01", "12:02"]);
  expect(said).not.toContainEqual(expect.stringContaining("PostgreSQL fails"));
  expect(w.ledger.cancelled).toEqual([]);
  held = false;
  await w.time.advanceTo(at("12:02:10"));
  expect(w.ledger.cancelled).toContain("locked");
});

test("more locked jobs than can be looked at in one statement stop nobody else", async () => {
  const w = world();
  w.jobs.put(minutely("a"));
  for (let n = 0; n < 500; n += 1) w.jobs.put(minutely(`locked${n}`));
  let held = false;
  const isHeld = (uid: string) => held && uid.startsWith("locked");
  const apply = w.ledger.apply.bind(w.ledger);
  w.ledger.apply = async (changes) => {
    if (changes.some(({ job }) => isHeld(job.uid))) throw new LockHeld("postgres");
    return apply(changes);
  };
  w.ledger.locked = async (uids) => {
    // The statement's time limit.
    if (uids.length > 200) throw new DependencyUnavailable("postgres");
    return new Set(uids.filter(isHeld));
  };
  start(w, { batchSize: 100 });
  await w.time.advanceTo(at("12:00:31"));
  held = true;
  await w.time.advanceTo(at("12:05:30"));
  held = false;
  await w.time.advanceTo(at("12:30:30"));
  expect(keys(w).length).toBeGreaterThanOrEqual(29);
  expect(keys(w, "locked0").length).toBeGreaterThanOrEqual(24);
});

describe("what others write", () => {
  test.each([
    { told: "of the job", uids: ["a"] },
    { told: "of it among strangers", uids: ["x", "a", ""] },
    { told: "that some news were lost", uids: undefined },
  ])("a halt is reported, and lifted, when told $told", async ({ uids }) => {
    const { w, news, reports } = await halted();
    const others = statuses(reports, "b").length;
    news.cursors(uids);
    await w.time.advanceTo(at("12:01:31"));
    expect(statuses(reports, "a").at(-1)).toBe("paused");
    await w.time.advanceTo(at("12:03:30"));
    expect(keys(w)).toEqual(["12:01"]);
    w.ledger.write("a", { haltedGeneration: null });
    news.cursors(uids);
    await w.time.advanceTo(at("12:03:31"));
    expect(statuses(reports, "a").at(-1)).toBe("active");
    await w.time.advanceTo(at("12:05:30"));
    expect(keys(w)).toEqual(["12:01", "12:04", "12:05"]);
    // Another job is reported only for its own runs.
    expect(statuses(reports, "b").length - others).toBe(4);
  });

  test("news that came before our own write, or while another leads, change nothing", async () => {
    const { w, news, reports, leadership } = await halted();
    await w.time.advanceTo(at("12:02:30"));
    const heard = statuses(reports, "a").length;
    news.cursors(["a"]);
    await w.time.advanceTo(at("12:02:31"));
    expect(statuses(reports, "a")).toHaveLength(heard);
    w.ledger.write("a", { haltedGeneration: null });
    news.cursors(["a"]);
    leadership.set(false);
    news.cursors(["a"]);
    await w.time.advanceTo(at("12:02:32"));
    expect(statuses(reports, "a")).toHaveLength(heard);
  });

  test("news that were lost while all cursors are read are looked for once more", async () => {
    const { w, news, reports } = await halted();
    const cursors = w.ledger.cursors.bind(w.ledger);
    const answer = Promise.withResolvers<void>();
    w.ledger.cursors = async (uids) => {
      w.ledger.cursors = cursors;
      const read = await cursors(uids);
      await answer.promise;
      return read;
    };
    news.cursors(undefined);
    await settle();
    w.ledger.write("b", { haltedGeneration: 1, startable: false });
    news.cursors(undefined);
    answer.resolve();
    await settle();
    expect(statuses(reports, "b").at(-1)).toBe("paused");
  });

  test("news that cannot be read because PostgreSQL is away are read later", async () => {
    const { w, news, reports } = await halted();
    w.ledger.down = true;
    const reads = w.ledger.reads.length;
    news.cursors(["a"]);
    // Before the next minute, so that nothing else reads cursors.
    await w.time.advanceTo(at("12:01:44"));
    // The pauses grow from 0.1 s to 5 s.
    const tries = w.ledger.reads.length - reads;
    expect(tries).toBeGreaterThan(3);
    expect(tries).toBeLessThan(12);
    w.ledger.down = false;
    await w.time.advanceTo(at("12:01:50"));
    expect(statuses(reports, "a").at(-1)).toBe("paused");
  });

  test("a job that another process knows to be deleted is not told of any more", async () => {
    const { w, news, reports } = await halted();
    const heard = statuses(reports, "a").length;
    w.ledger.write("a", { deleted: true });
    news.cursors(["a"]);
    await w.time.advanceTo(at("12:01:31"));
    expect(statuses(reports, "a")).toHaveLength(heard);
  });

  test("no timer is left at the end, whatever was waited for", async () => {
    const { w, news, stop } = await halted();
    w.ledger.locked = async (uids) => new Set(uids);
    w.ledger.apply = () => Promise.reject(new LockHeld("postgres"));
    await w.time.advanceTo(at("12:02:00.100"));
    news.cursors(["a"]);
    await stop();
    expect(w.time.timers).toBe(0);
  });

  test("the news of a moment are read together, so that a herd is delivered first", async () => {
    const { w, news } = await halted();
    const reads = w.ledger.reads.length;
    news.cursors(["a"]);
    // Something to do at once.
    w.jobs.put(minutely("c"));
    await settle();
    news.cursors(["b"]);
    await settle();
    expect(w.ledger.stored.has("c")).toBe(true);
    expect(w.ledger.reads).toHaveLength(reads);
    await w.time.advanceTo(at("12:01:31"));
    expect(w.ledger.reads.slice(reads)).toEqual([["a", "b"]]);
  });

  test("the reporter of the leader hears of closed runs", async () => {
    const { news, closed, leadership } = await halted();
    news.closed(["a", "b"]);
    news.closed(undefined);
    leadership.set(false);
    news.closed(["a"]);
    expect(closed).toEqual(["a", "b"]);
  });
});

describe("more was changed than the controller keeps in memory", () => {
  /** Jobs of which one alone can be kept at a time. */
  const bulky = (uid: string, change: Parameters<typeof aJob>[0] = {}) => {
    const payload = `"${uid.repeat(1_000)} ${change.generation ?? 1}"`;
    const target = { ...WEBHOOK, payload };
    return minutely(uid, { ...change, spec: { target } });
  };
  const WEBHOOK = {
    kind: "webhook",
    url: "http://receiver.example/",
    headers: {},
    headersFrom: [],
    timeoutSeconds: 30,
  } as const;
  const UIDS = ["a", "b", "c", "d", "e"];
  const sent = (w: ReturnType<typeof world>) =>
    UIDS.map((uid) => {
      const target = w.ledger.specs.get(uid)?.target;
      return target?.kind === "webhook" ? target.payload : undefined;
    });

  test.each(["before it leads", "while it leads"])(
    "%s: each job is stored as it is, and runs on time",
    async (when) => {
      const w = world();
      const early = when === "before it leads";
      if (early) for (const uid of UIDS) w.jobs.put(bulky(uid));
      start(w, { mostKept: 2_000 });
      await settle();
      if (!early) for (const uid of UIDS) w.jobs.put(bulky(uid));
      await w.time.advanceTo(at("12:01"));
      expect(sent(w)).toEqual(UIDS.map((uid) => `"${uid.repeat(1_000)} 1"`));
      for (const uid of UIDS) expect(keys(w, uid)).toEqual(["12:01"]);
      for (const uid of UIDS) w.jobs.put(bulky(uid, { generation: 2 }));
      await w.time.advanceTo(at("12:02"));
      expect(sent(w)).toEqual(UIDS.map((uid) => `"${uid.repeat(1_000)} 2"`));
      for (const uid of UIDS) expect(keys(w, uid)).toEqual(["12:01", "12:02"]);
      const lists = w.jobs.lists;
      await w.time.advanceTo(at("12:04"));
      expect(w.jobs.lists).toBe(lists);
    },
  );

  test("what is known under its number already is not stored anew for a name that it lacks", async () => {
    const w = world();
    for (const uid of UIDS) w.jobs.put(bulky(uid));
    start(w, { mostKept: 2_000 });
    await w.time.advanceTo(at("12:01"));
    const lists = w.jobs.lists;
    for (const uid of UIDS) w.ledger.write(uid, { revision: null });
    await w.time.advanceTo(at("12:02"));
    for (const uid of UIDS) expect(keys(w, uid)).toEqual(["12:01", "12:02"]);
    expect(w.jobs.lists).toBe(lists);
  });
});
