import { describe, expect, test } from "vitest";
import { timers } from "../../../cmd/system.ts";
import type { Verdict } from "../../../src/delivery/breaker.ts";
import type { FinishedAttempt } from "../../../src/delivery/conclusion.ts";
import { createStarter } from "../../../src/delivery/starter.ts";
import type { Claim } from "../../../src/domain/ports/run-queue.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { claimedRun } from "../../integration/delivery/claimed-run.ts";
import { spec } from "../../integration/postgres/runs-fixture.ts";

const NOW = 1_000_000;

type Options = Parameters<typeof createStarter>[0];

/** Starts one run, `job-1`, and collects what its worker does with it. */
function startOne(
  change: {
    start?: (runs: readonly ClaimedRun[]) => Promise<Set<string>>;
    admit?: Options["breakers"]["admit"];
    signingKeys?: Options["signingKeys"];
    smtpRevision?: Options["smtpRevision"];
    unwanted?: Options["queue"]["unwanted"];
    monotonic?: Options["monotonic"];
    holds?: (claim: Claim) => boolean;
    run?: Partial<ClaimedRun>;
    beside?: ClaimedRun[];
  } = {},
) {
  const run = claimedRun({}, { scheduledAt: NOW - 250, createdAt: NOW - 250, ...change.run });
  const verdicts: Verdict[] = [];
  const released: (number | undefined)[] = [];
  const recorded: FinishedAttempt[] = [];
  const [launched, freed]: [ClaimedRun[], ClaimedRun[]] = [[], []];
  const secrets = new Map<string, readonly string[]>();
  const outages: unknown[] = [];
  const waiting = [...(change.beside ?? []), run];
  let time = 0;
  const starter = createStarter({
    queue: {
      start: change.start ?? (async (runs) => new Set(runs.map(({ id }) => id))),
      locked: async () => new Set(),
      unwanted: change.unwanted ?? (async () => new Map()),
    },
    clock: { now: () => NOW, known: true },
    monotonic: change.monotonic ?? (() => (time += 500)),
    timers,
    log: createLogger({ level: "silent" }),
    held: { takeReady: () => waiting.splice(0) },
    leases: { holds: change.holds ?? (() => true) },
    recorder: {
      release: (_run, notBefore) => released.push(notBefore),
      releaseHeld: () => undefined,
    },
    breakers: {
      admit:
        change.admit ??
        (() => ({ kind: "admitted", permit: { settle: (verdict) => verdicts.push(verdict) } })),
    },
    runner: {
      launch: (ready) => {
        launched.push(ready.run);
        secrets.set(ready.run.id, ready.signingSecrets);
      },
      record: (attempted) => recorded.push(attempted),
    },
    signingKeys: change.signingKeys ?? (async () => ["secret"]),
    smtpRevision: change.smtpRevision ?? (async () => "revision"),
    onFinished: (of) => freed.push(of),
    onOutage: (error) => outages.push(error),
  });
  return {
    run,
    starter,
    launched,
    /** By run: the secrets with which it is signed. */
    secrets,
    recorded,
    verdicts,
    released,
    outages,
    /** Whether its slot is free. */
    free: () => freed.length === 1,
  };
}

const mailRun = (): Partial<ClaimedRun> => ({
  destination: "account smtp",
  spec: spec({
    target: { kind: "email", to: "a@b.example", subject: "S", body: "B", isHtml: false },
  }),
});
const going = () => new AbortController().signal;

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

test("a webhook is signed also where its account's mails start with it, and these are not", async () => {
  const mail = claimedRun({}, { ...mailRun(), scheduledAt: NOW - 250, createdAt: NOW - 250 });
  const { run, starter, secrets } = startOne({ beside: [mail] });
  expect(run.account).toBe(mail.account);
  expect(await starter.startReady(NOW, going())).toBe(2);
  expect(secrets).toEqual(
    new Map([
      [mail.id, []],
      [run.id, ["secret"]],
    ]),
  );
});

describe("handed back without an attempt, with its leave and its slot", () => {
  const ended = new AbortController();
  ended.abort();

  test.each<{ title: string; change: Parameters<typeof startOne>[0]; signal?: AbortSignal }>([
    { title: "not started", change: { start: async () => new Set() } },
    { title: "started while the worker ends", change: {}, signal: ended.signal },
    { title: "with a lease that has run out", change: { holds: () => false } },
  ])("$title", async ({ change, signal = going() }) => {
    const { starter, launched, released, verdicts, free } = startOne(change);
    expect(await starter.startReady(NOW, signal)).toBe(1);
    expect(launched).toEqual([]);
    expect(released).toEqual([undefined]);
    expect(verdicts).toEqual(["neutral"]);
    expect(free()).toBe(true);
  });

  test("a start that nobody answered for, which is told", async () => {
    const away = new Error("away");
    const { starter, released, verdicts, free } = startOne({
      start: () => Promise.reject(away),
    });
    await expect(starter.startReady(NOW, going())).rejects.toBe(away);
    expect(released).toEqual([undefined]);
    expect(verdicts).toEqual(["neutral"]);
    expect(free()).toBe(true);
  });

  test("without secrets to sign with, for a second", async () => {
    const { starter, released, free } = startOne({
      signingKeys: () => Promise.reject(new Error("away")),
    });
    expect(await starter.startReady(NOW, going())).toBe(1);
    expect(released).toEqual([NOW + 1_000]);
    expect(free()).toBe(true);
  });

  test("a mail without its account's SMTP settings, for a second", async () => {
    const { starter, released, free } = startOne({
      run: mailRun(),
      smtpRevision: () => Promise.reject(new Error("away")),
    });
    expect(await starter.startReady(NOW, going())).toBe(1);
    expect(released).toEqual([NOW + 1_000]);
    expect(free()).toBe(true);
  });

  test("behind an open circuit, until the breaker says", async () => {
    const { starter, recorded, free } = startOne({
      admit: () => ({ kind: "open", until: NOW + 7_000 }),
    });
    expect(await starter.startReady(NOW, going())).toBe(1);
    expect(recorded).toMatchObject([{ outcome: { kind: "postponed", until: NOW + 7_000 } }]);
    expect(free()).toBe(true);
  });
});

/** The signing secrets come when the test says so. */
function slow(change: Parameters<typeof startOne>[0] = {}) {
  const secrets = Promise.withResolvers<readonly string[]>();
  const started = startOne({ signingKeys: () => secrets.promise, ...change });
  return { ...started, come: () => secrets.resolve(["secret"]) };
}

describe("secrets that take long to be read", () => {
  test("are waited for by nobody else; the run starts when they have come", async () => {
    const { starter, run, launched, come } = slow();
    expect(await starter.startReady(NOW, going())).toBe(1);
    expect(launched).toEqual([]);
    come();
    await starter.idle();
    expect(launched).toEqual([run]);
  });

  test("of a run that is started already, whose account is deleted and has none: it is handed back", async () => {
    const { starter, run, launched, released, verdicts, free } = startOne({
      signingKeys: async () => [],
    });
    starter.launchStarted([run], 0, going());
    await starter.idle();
    expect(launched).toEqual([]);
    expect(released).toEqual([undefined]);
    expect(verdicts).toEqual(["neutral"]);
    expect(free()).toBe(true);
  });

  test("of a run that is started already: it is sent if it is wanted still", async () => {
    const { starter, run, launched, come } = slow();
    starter.launchStarted([run], 0, going());
    come();
    await starter.idle();
    expect(launched).toEqual([run]);
  });

  test("and is given back if it is not", async () => {
    const { starter, run, launched, released, verdicts, free, come } = slow({
      unwanted: async (ids) => new Map(ids.map((id) => [id, "deleted"])),
    });
    starter.launchStarted([run], 0, going());
    come();
    await starter.idle();
    expect(launched).toEqual([]);
    expect(released).toEqual([undefined]);
    expect(verdicts).toEqual(["neutral"]);
    expect(free()).toBe(true);
  });

  test("or if nobody can tell", async () => {
    const away = new Error("away");
    const { starter, run, launched, released, outages, free, come } = slow({
      unwanted: () => Promise.reject(away),
    });
    starter.launchStarted([run], 0, going());
    come();
    await starter.idle();
    expect(launched).toEqual([]);
    expect(released).toEqual([undefined]);
    expect(outages).toEqual([away]);
    expect(free()).toBe(true);
  });
});

const unwanted: Options["queue"]["unwanted"] = async (ids) =>
  new Map(ids.map((id) => [id, "deleted"]));

describe("a start whose answer comes late", () => {
  test("is not sent if its job has been deleted meanwhile", async () => {
    const { starter, released, verdicts, free } = startOne({ unwanted });
    await starter.startReady(NOW, going());
    await starter.idle();
    expect(released).toEqual([undefined]);
    expect(verdicts).toEqual(["neutral"]);
    expect(free()).toBe(true);
  });

  test("made by the claim itself: it is not sent either", async () => {
    const { starter, run, released, free } = startOne({
      unwanted,
      monotonic: () => 2_000,
    });
    starter.launchStarted([run], 1_000, going());
    await starter.idle();
    expect(released).toEqual([undefined]);
    expect(free()).toBe(true);
  });

  test("of one that comes soon nobody is asked", async () => {
    let asked = 0;
    const { starter, run, launched } = startOne({
      unwanted: async () => {
        asked += 1;
        return new Map();
      },
      monotonic: () => 1_050,
    });
    starter.launchStarted([run], 1_000, going());
    await starter.idle();
    expect(launched).toEqual([run]);
    expect(asked).toBe(0);
  });
});
