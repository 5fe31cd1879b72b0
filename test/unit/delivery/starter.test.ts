import { describe, expect, test } from "vitest";
import { timers } from "../../../cmd/system.ts";
import type { AttemptOutcome } from "../../../src/delivery/attempt.ts";
import type { Verdict } from "../../../src/delivery/breaker.ts";
import { createFlights } from "../../../src/delivery/flights.ts";
import { createStarter } from "../../../src/delivery/starter.ts";
import type { Claim, Closing } from "../../../src/domain/ports/run-queue.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { settle } from "../controller/controller-world.ts";
import { claimedRun } from "../../integration/delivery/claimed-run.ts";
import { spec } from "../../integration/postgres/runs-fixture.ts";

const NOW = 1_000_000;

type Options = Parameters<typeof createStarter>[0] & Parameters<typeof createFlights>[0];

/** One run, `job-1`, and what its worker does with it. */
function startOne(
  change: {
    attempt?: (input: Parameters<Options["attempt"]>[0]) => Promise<AttemptOutcome>;
    start?: (runs: readonly ClaimedRun[]) => Promise<Set<string>>;
    admit?: Options["breakers"]["admit"];
    signingKeys?: Options["signingKeys"];
    smtpRevision?: Options["smtpRevision"];
    unwanted?: Options["queue"]["unwanted"];
    monotonic?: Options["monotonic"];
    holds?: (claim: Claim) => boolean;
    run?: Partial<ClaimedRun>;
  } = {},
) {
  const run = claimedRun({}, { scheduledAt: NOW - 250, createdAt: NOW - 250, ...change.run });
  const verdicts: Verdict[] = [];
  const released: (number | undefined)[] = [];
  const closed: Closing[] = [];
  const [forgotten, freed]: [Claim[], ClaimedRun[]] = [[], []];
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  const outages: unknown[] = [];
  const waiting = [run];
  let time = 0;
  const common = {
    clock: { now: () => NOW, known: true },
    random: () => 0,
    monotonic: change.monotonic ?? (() => (time += 500)),
    timers,
    metrics,
    log: createLogger({ level: "silent" }),
    leases: {
      holds: change.holds ?? (() => true),
      remove: (claim: Claim) => forgotten.push(claim),
    },
    records: {
      close: (closing: Closing) => closed.push(closing),
      release: (_run: ClaimedRun, notBefore?: number) => released.push(notBefore),
      releaseHeld: () => undefined,
    },
    onFinished: (of: ClaimedRun) => freed.push(of),
  };
  const flights = createFlights({
    ...common,
    attempt: change.attempt ?? (async () => ({ kind: "delivered", httpStatus: 200 })),
  });
  const starter = createStarter({
    ...common,
    queue: {
      start: change.start ?? (async (runs) => new Set(runs.map(({ id }) => id))),
      locked: async () => new Set(),
      unwanted: change.unwanted ?? (async () => new Map()),
    },
    held: { takeReady: () => waiting.splice(0) },
    breakers: {
      admit:
        change.admit ??
        (() => ({ kind: "admitted", permit: { settle: (verdict) => verdicts.push(verdict) } })),
    },
    flights,
    signingKeys: change.signingKeys ?? (async () => ["secret"]),
    smtpRevision: change.smtpRevision ?? (async () => "revision"),
    onOutage: (error) => outages.push(error),
  });
  const metric = async (name: string) => {
    const { text } = await metrics.render();
    return text.split("\n").filter((line) => line.startsWith(`carillon_${name}`));
  };
  return {
    run,
    starter,
    flights,
    /** All attempts are over. */
    idle: () => starter.idle().then(flights.idle),
    metric,
    verdicts,
    released,
    closed,
    forgotten,
    outages,
    /** Its slot, and whoever waits for one has been told. */
    free: () => freed.length === 1,
  };
}

const FAILED: AttemptOutcome = {
  kind: "retryable",
  httpStatus: 503,
  error: "busy",
  retryAfterMs: null,
};
const mailRun = (): Partial<ClaimedRun> => ({
  destination: "account smtp",
  spec: spec({
    target: { kind: "email", to: "a@b.example", subject: "S", body: "B", isHtml: false },
  }),
});
const going = () => new AbortController().signal;

/** Until the signal, as one that hangs. */
const hanging: Options["attempt"] = ({ signal }) =>
  new Promise((resolve) => {
    signal.addEventListener("abort", () => {
      resolve(FAILED);
    });
  });

test("a mail is admitted by the revision of its account's SMTP settings, a webhook by its destination alone", async () => {
  const asked: unknown[][] = [];
  const admit: Options["breakers"]["admit"] = (...whom) => {
    asked.push(whom.slice(1));
    return { kind: "open", until: NOW };
  };
  await startOne({ admit }).starter.startReady(NOW, going());
  await startOne({ admit, run: mailRun() }).starter.startReady(NOW, going());
  expect(asked).toEqual([[undefined], ["revision"]]);
});

test("an attempt that was made is recorded and measured, and its slot is free", async () => {
  const { starter, flights, idle, closed, verdicts, released, free, metric } = startOne();
  expect(await starter.startReady(NOW, going())).toBe(1);
  await idle();
  expect(closed).toMatchObject([{ next: "finished", execution: { durationMs: 500 } }]);
  expect(verdicts).toEqual(["success"]);
  expect(released).toEqual([]);
  expect(free()).toBe(true);
  expect(flights.ids()).toEqual([]);
  expect(await metric("runs_in_flight")).toEqual(["carillon_runs_in_flight 0"]);
  expect(await metric("runs_total")).toEqual([
    'carillon_runs_total{type="webhook",outcome="delivered"} 1',
  ]);
  expect(await metric("run_lateness_seconds_sum")).toEqual([
    'carillon_run_lateness_seconds_sum{type="webhook"} 0.25',
  ]);
  expect(await metric("run_delivery_duration_seconds_sum")).toEqual([
    'carillon_run_delivery_duration_seconds_sum{type="webhook"} 0.5',
  ]);
});

test("lateness is of the first attempt", async () => {
  const { starter, idle, metric } = startOne({ run: { attempt: 2 } });
  await starter.startReady(NOW, going());
  await idle();
  expect(await metric("run_lateness_seconds_sum")).toEqual([]);
});

test("nor of what an open circuit has put off, which says nothing about the workers", async () => {
  const { starter, idle, metric } = startOne({ run: { notBefore: NOW - 100 } });
  await starter.startReady(NOW, going());
  await idle();
  expect(await metric("run_lateness_seconds_sum")).toEqual([]);
});

test("an attempt that breaks off without a word gives its leave and its slot back", async () => {
  const { starter, idle, verdicts, free } = startOne({
    attempt: () => Promise.reject(new Error("ours")),
  });
  await starter.startReady(NOW, going());
  await idle();
  expect(verdicts).toEqual(["neutral"]);
  expect(free()).toBe(true);
});

test("an attempt is ended for the first reason, and says nothing of its destination", async () => {
  const { starter, flights, idle, run, closed, verdicts, metric } = startOne({ attempt: hanging });
  await starter.startReady(NOW, going());
  expect(await metric("runs_in_flight")).toEqual(["carillon_runs_in_flight 1"]);
  expect(flights.ids()).toEqual([run.id]);
  expect(flights.abort("another", "deleted")).toBe(false);
  expect(flights.abort(run.id, "replaced")).toBe(true);
  flights.abortAll("interrupted");
  await idle();
  expect(closed).toMatchObject([{ execution: { errorMessage: "replaced: outcome unknown" } }]);
  expect(verdicts).toEqual(["neutral"]);
});

test("a claim that was lost meanwhile is forgotten, and nothing recorded", async () => {
  const { starter, flights, idle, run, closed, released, forgotten, free } = startOne({
    attempt: hanging,
  });
  await starter.startReady(NOW, going());
  flights.abort(run.id, "lost");
  await idle();
  expect(forgotten).toEqual([run]);
  expect([closed, released]).toEqual([[], []]);
  expect(free()).toBe(true);
});

test("an attempt may send as long as its claim holds", async () => {
  let holds = true;
  const { starter, idle, released } = startOne({
    holds: () => holds,
    attempt: async ({ maySend }) => {
      expect(maySend()).toBe(true);
      holds = false;
      expect(maySend()).toBe(false);
      return { kind: "not_sent" };
    },
  });
  await starter.startReady(NOW, going());
  await idle();
  expect(released).toEqual([NOW + 1_000]);
});

const never: Options["attempt"] = () => Promise.reject(new Error("attempted"));

describe("handed back without an attempt, with its leave and its slot", () => {
  const ended = new AbortController();
  ended.abort();

  test.each<{ title: string; change: Parameters<typeof startOne>[0]; signal?: AbortSignal }>([
    { title: "not started", change: { start: async () => new Set() } },
    { title: "started while the worker ends", change: {}, signal: ended.signal },
    { title: "with a lease that has run out", change: { holds: () => false } },
  ])("$title", async ({ change, signal = going() }) => {
    const { starter, flights, released, verdicts, free, closed } = startOne({
      ...change,
      attempt: never,
    });
    expect(await starter.startReady(NOW, signal)).toBe(1);
    expect(flights.ids()).toEqual([]);
    expect(released).toEqual([undefined]);
    expect(verdicts).toEqual(["neutral"]);
    expect(free()).toBe(true);
    expect(closed).toEqual([]);
  });

  test("a start that nobody answered for, which is told", async () => {
    const away = new Error("away");
    const { starter, released, verdicts, free } = startOne({
      attempt: never,
      start: () => Promise.reject(away),
    });
    await expect(starter.startReady(NOW, going())).rejects.toBe(away);
    expect(released).toEqual([undefined]);
    expect(verdicts).toEqual(["neutral"]);
    expect(free()).toBe(true);
  });

  test("without secrets to sign with, for a second", async () => {
    const { starter, released, free } = startOne({
      attempt: never,
      signingKeys: () => Promise.reject(new Error("away")),
    });
    expect(await starter.startReady(NOW, going())).toBe(1);
    expect(released).toEqual([NOW + 1_000]);
    expect(free()).toBe(true);
  });

  test("a mail without its account's SMTP settings, for a second", async () => {
    const { starter, released, free } = startOne({
      run: mailRun(),
      attempt: never,
      smtpRevision: () => Promise.reject(new Error("away")),
    });
    expect(await starter.startReady(NOW, going())).toBe(1);
    expect(released).toEqual([NOW + 1_000]);
    expect(free()).toBe(true);
  });

  test("behind an open circuit, until the breaker says", async () => {
    const { starter, released, free } = startOne({
      attempt: never,
      admit: () => ({ kind: "open", until: NOW + 7_000 }),
    });
    expect(await starter.startReady(NOW, going())).toBe(1);
    expect(released).toEqual([NOW + 7_000]);
    expect(free()).toBe(true);
  });
});

/** Secrets come when they are told to. */
function slow(change: Parameters<typeof startOne>[0] = {}) {
  const secrets = Promise.withResolvers<readonly string[]>();
  const calls: string[] = [];
  const started = startOne({
    signingKeys: () => secrets.promise,
    attempt: async ({ run }) => {
      calls.push(run.id);
      return { kind: "delivered", httpStatus: 200 };
    },
    ...change,
  });
  return { ...started, calls, come: () => secrets.resolve(["secret"]) };
}

describe("secrets that take long to be read", () => {
  test("are waited for by nobody else; the run starts when they have come", async () => {
    const { starter, idle, run, calls, closed, come } = slow();
    expect(await starter.startReady(NOW, going())).toBe(1);
    expect(calls).toEqual([]);
    come();
    await idle();
    expect(calls).toEqual([run.id]);
    expect(closed).toHaveLength(1);
  });

  test("of a run that is started already: it is sent if it is wanted still", async () => {
    const { starter, idle, run, calls, come } = slow();
    starter.launchStarted([run], 0, going());
    come();
    await idle();
    expect(calls).toEqual([run.id]);
  });

  test("and is given back if it is not", async () => {
    const { starter, idle, run, calls, released, verdicts, free, come } = slow({
      unwanted: async (ids) => new Map(ids.map((id) => [id, "deleted"])),
    });
    starter.launchStarted([run], 0, going());
    come();
    await idle();
    expect(calls).toEqual([]);
    expect(released).toEqual([undefined]);
    expect(verdicts).toEqual(["neutral"]);
    expect(free()).toBe(true);
  });

  test("or if nobody can tell", async () => {
    const away = new Error("away");
    const { starter, idle, run, calls, released, outages, free, come } = slow({
      unwanted: () => Promise.reject(away),
    });
    starter.launchStarted([run], 0, going());
    come();
    await idle();
    expect(calls).toEqual([]);
    expect(released).toEqual([undefined]);
    expect(outages).toEqual([away]);
    expect(free()).toBe(true);
  });
});

const unwanted: Options["queue"]["unwanted"] = async (ids) =>
  new Map(ids.map((id) => [id, "deleted"]));

describe("a start whose answer comes late", () => {
  test("is not sent if its job has been deleted meanwhile", async () => {
    const { starter, idle, released, verdicts, free } = startOne({ unwanted, attempt: never });
    await starter.startReady(NOW, going());
    await idle();
    expect(released).toEqual([undefined]);
    expect(verdicts).toEqual(["neutral"]);
    expect(free()).toBe(true);
  });

  test("nor is what its claim has started", async () => {
    const { starter, idle, run, released, free } = startOne({
      unwanted,
      attempt: never,
      monotonic: () => 2_000,
    });
    starter.launchStarted([run], 1_000, going());
    await idle();
    expect(released).toEqual([undefined]);
    expect(free()).toBe(true);
  });

  test("of one that comes soon nobody is asked", async () => {
    let asked = 0;
    const { starter, idle, run, closed } = startOne({
      unwanted: async () => {
        asked += 1;
        return new Map();
      },
      monotonic: () => 1_050,
    });
    starter.launchStarted([run], 1_000, going());
    await idle();
    expect(closed).toHaveLength(1);
    expect(asked).toBe(0);
  });
});

test("of a run that was lost and won back unnoticed, the lost attempt ends and the new one is known", async () => {
  const { starter, flights, idle, run, closed, forgotten } = startOne({ attempt: hanging });
  const again = { ...run, claimToken: "again", attempt: 2 };
  starter.launchStarted([run], 0, going());
  await settle();
  starter.launchStarted([again], 0, going());
  await settle();
  expect(forgotten).toEqual([run]);
  expect(flights.ids()).toEqual([run.id]);
  expect(flights.abort(run.id, "interrupted")).toBe(true);
  await idle();
  expect(closed).toMatchObject([{ run: again }]);
});
