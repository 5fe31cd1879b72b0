import { expect, test } from "vitest";
import { monotonic, timers } from "../../../cmd/system.ts";
import { createOutcomeRecorder } from "../../../src/delivery/outcome-recorder.ts";
import type { EmailLogEntry, NewEmailLogEntry } from "../../../src/domain/mail.ts";
import { ContentRefused } from "../../../src/domain/ports/content-refused.ts";
import {
  DependencyUnavailable,
  LockHeld,
} from "../../../src/domain/ports/dependency-unavailable.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { until } from "../../until.ts";
import { collectGarbage } from "../../collect-garbage.ts";
import { claimedRun } from "../../integration/delivery/claimed-run.ts";

type Options = Parameters<typeof createOutcomeRecorder>[0];

function records(
  change: Partial<
    Pick<Options, "queue" | "emailLog" | "leases" | "onLockedOut" | "onOutage" | "onWaiting">
  > = {},
): ReturnType<typeof createOutcomeRecorder> {
  return createOutcomeRecorder({
    queue: {
      close: async () => new Set(),
      locked: async () => new Set(),
      release: async () => undefined,
    },
    emailLog: {
      append: () => Promise.reject(new Error("no mails")),
      locked: async () => new Set(),
    },
    leases: { remove: () => undefined },
    timers,
    monotonic,
    log: createLogger({ level: "silent" }),
    onOutage: () => undefined,
    onLockedOut: () => undefined,
    onWaiting: () => undefined,
    ...change,
  });
}

function mails(append: (of: NewEmailLogEntry) => Promise<void>) {
  const outages: unknown[] = [];
  const { emails } = records({
    emailLog: {
      locked: async () => new Set(),
      append: async (of) => {
        await append(of);
        return { ...of, id: of.to, sentAt: 0 } satisfies EmailLogEntry & NewEmailLogEntry;
      },
    },
    onOutage: (error) => outages.push(error),
  });
  for (const to of ["a", "b", "c"])
    emails.add({ account: "a", kind: "job", to, subject: "s", status: "sent", errorMessage: null });
  return { emails, outages };
}

test("mails are logged together", async () => {
  const all = Promise.withResolvers<void>();
  const asked: string[] = [];
  const { emails } = mails(async ({ to }) => {
    asked.push(to);
    if (asked.length === 3) all.resolve();
    // If each was written alone, the first write would never end.
    await all.promise;
  });
  await emails.idle();
  expect(asked).toEqual(["a", "b", "c"]);
});

test("mails are logged when the database is back, whatever it has of them", async () => {
  const asked: string[] = [];
  const { emails, outages } = mails(async ({ to }) => {
    asked.push(to);
    if (to === "b" && outages.length === 0) throw new DependencyUnavailable("postgres");
  });
  await emails.idle();
  expect(asked.slice(0, 3)).toEqual(["a", "b", "c"]);
  expect(new Set(asked.slice(3))).toEqual(new Set(["a", "b", "c"]));
  expect(outages).toHaveLength(1);
});

test("a lock on the log is no outage: looking for dead workers' runs does not wait for its release", async () => {
  let asked = 0;
  const { emails, outages } = mails(async () => {
    asked += 1;
    if (asked <= 3) throw new LockHeld("postgres");
  });
  await emails.idle();
  expect(asked).toBeGreaterThanOrEqual(6);
  expect(outages).toEqual([]);
});

test("a lock on one account's part of it holds up the mails of no other", async () => {
  let held = true;
  const logged = new Set<string>();
  const { emails } = records({
    emailLog: {
      locked: async (of) => new Set(held ? of.map(({ account }) => account).filter(isHeld) : []),
      append: async (of) => {
        if (held && isHeld(of.account)) throw new LockHeld("postgres");
        logged.add(of.account);
        return { ...of, id: "log", sentAt: 0 };
      },
    },
  });
  const add = (account: string) => {
    emails.add({ account, kind: "job", to: "a", subject: "s", status: "sent", errorMessage: null });
  };
  for (const account of ["held", "other", "third"]) add(account);
  await until("only that of the held account is left", () => emails.pending === 1);
  expect(logged).toEqual(new Set(["other", "third"]));
  held = false;
  await emails.idle();
  expect(logged).toContain("held");
});

const isHeld = (account: string): boolean => account === "held";

test("one that is refused for its own sake does not keep the others out", async () => {
  const logged = new Set<string>();
  const { emails, outages } = mails(async ({ to }) => {
    if (to === "b") throw new ContentRefused("invalid byte sequence");
    logged.add(to);
  });
  await emails.idle();
  expect(logged).toEqual(new Set(["a", "c"]));
  expect(outages).toEqual([]);
});

test("it is told from when on runs wait that were put off, when that is recorded", async () => {
  const told: number[] = [];
  const put = records({ onWaiting: (since) => told.push(since) });
  put.release(claimedRun({}), 3_000);
  put.release(claimedRun({}), 1_900);
  // PostgreSQL itself announces these.
  put.release(claimedRun({}));
  expect(told).toEqual([]);
  await put.idle();
  expect(told).toEqual([2_000]);
});

test.each([
  { what: "written", write: async () => new Set<string>() },
  {
    what: "refused for its own sake",
    write: () => Promise.reject(new ContentRefused("invalid byte sequence")),
  },
])(
  "the lease of a run whose record is $what is not renewed any more: others close the refused one",
  async ({ write }) => {
    const forgotten: string[] = [];
    const ended = records({
      queue: {
        close: write,
        locked: async () => new Set(),
        release: async () => void (await write()),
      },
      leases: { remove: ({ id }) => forgotten.push(id) },
    });
    const [closed, released] = [
      claimedRun({}, { id: "closed" }),
      claimedRun({}, { id: "released" }),
    ];
    const execution = { httpStatus: 204, durationMs: 1, errorMessage: null, executedAt: 0 };
    ended.close({ run: closed, execution: { ...execution, status: "success" }, next: "finished" });
    ended.release(released);
    expect(forgotten).toEqual([]);
    await ended.idle();
    expect(forgotten.toSorted()).toEqual(["closed", "released"]);
  },
);

test("what waits to be recorded keeps no payload: thousands of the largest would take all memory", async () => {
  const away = Promise.withResolvers<never>();
  const waiting = records({
    queue: {
      close: () => away.promise,
      locked: async () => new Set(),
      release: () => away.promise,
    },
  });
  const targets: WeakRef<object>[] = [];
  const run = () => {
    const made = claimedRun({});
    targets.push(new WeakRef(made.spec.target));
    return made;
  };
  const execution = { httpStatus: 204, durationMs: 1, errorMessage: null, executedAt: 0 };
  const record = (): void => {
    waiting.close({
      run: run(),
      execution: { ...execution, status: "success" },
      next: "finished",
    });
    waiting.release(run());
    waiting.releaseHeld(run());
  };
  record();
  await until("the payloads are let go", () => {
    collectGarbage();
    return targets.every((target) => target.deref() === undefined);
  });
  expect(waiting.pending + waiting.lockedOut).toBe(3);
});
