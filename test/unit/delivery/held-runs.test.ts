import { expect, test } from "vitest";
import { createHeldRuns, deliveryLimits } from "../../../src/delivery/held-runs.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { claimedRun } from "../../integration/delivery/claimed-run.ts";

function held() {
  return createHeldRuns(deliveryLimits({ concurrency: 4, perAccount: 4, perDestination: 1 }));
}

const run = (id: string, claimToken: string): ClaimedRun => claimedRun({}, { id, claimToken });

test("a run that was taken over and claimed again waits once, by its new claim", () => {
  const runs = held();
  runs.add([run("a", "old"), run("b", "old")]);
  runs.add([run("a", "new")]);
  expect(runs.waiting).toBe(2);
  expect(runs.takeAll().map(({ id, claimToken }) => `${id} ${claimToken}`)).toEqual([
    "b old",
    "a new",
  ]);
});

test("a run whose claim was lost waits no more, and holds nothing up", () => {
  const runs = held();
  runs.add([run("a", "token"), run("b", "token")]);
  const [started] = runs.takeReady(0);
  runs.forget("b");
  expect(runs.waiting).toBe(0);
  runs.add([run("c", "token")]);
  expect(runs.takeReady(0)).toEqual([]);
  if (started) runs.finished(started);
  expect(runs.takeReady(0).map(({ id }) => id)).toEqual(["c"]);
});

const waiting = (id: string, notBefore: number): ClaimedRun =>
  claimedRun({}, { id, notBefore, destination: `account ${id}` });

test("what is due first starts first, in whatever order it was claimed", () => {
  const runs = held();
  runs.add([waiting("prepared", 2_000)]);
  runs.add([waiting("late", 900), waiting("later", 1_000)]);
  expect(runs.takeReady(1_500).map(({ id }) => id)).toEqual(["late", "later"]);
  expect(runs.nextDue(1_500)).toBe(2_000);
});

test("what is only prepared takes half of the buffer at most", () => {
  const runs = createHeldRuns(deliveryLimits({ concurrency: 4, buffer: 8 }));
  expect(runs.room(0)).toEqual({ due: 6, ahead: 4 });
  runs.add(Array.from({ length: 4 }, () => claimedRun({}, { notBefore: 1 })));
  expect(runs.room(0)).toEqual({ due: 4, ahead: 0 });
  expect(runs.room(1)).toEqual({ due: 4, ahead: 4 });
});

test("nothing is kept of accounts and destinations without runs", () => {
  // Whoever is known at all is more than one claim can do with.
  const runs = createHeldRuns(deliveryLimits({ concurrency: 4, buffer: 2, claimBatch: 10 }));
  runs.add(Array.from({ length: 3 }, (_, n) => due(`account ${n}`)));
  const full = runs.full();
  expect([full.accounts.length, full.destinations.length]).toEqual([3, 3]);
  for (const run of runs.takeReady(0).slice(1)) runs.finished(run);
  runs.add([due("forgotten")]);
  runs.takeAll();
  expect([runs.full().accounts, runs.full().destinations.length]).toEqual([["account 0"], 1]);
});

const due = (account: string, payload = "{}"): ClaimedRun => {
  const base = claimedRun({});
  const target = { ...base.spec.target, payload } as typeof base.spec.target;
  return { ...base, account, destination: base.id, spec: { ...base.spec, target } };
};

test("however many accounts hang, the next one finds slots and room", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  let flights = 0;
  for (const account of ["a", "b", "c", "d", "e"]) {
    // As claims bring them: as many as there is room for, until the account is passed over.
    while (!runs.full().accounts.includes(account)) {
      const count = Math.min(limits.claimBatch, runs.room(0).due);
      expect(count).toBeGreaterThan(0);
      runs.add(Array.from({ length: count }, () => due(account)));
      const started = runs.takeReady(0).length;
      flights += started;
    }
    expect(runs.inFlight).toBe(flights);
    expect(limits.concurrency - flights).toBeGreaterThanOrEqual(limits.concurrency / 2 ** 6);
  }
  expect(runs.takeReady(0)).toEqual([]);
});

test("large payloads are claimed a few at a time, and beyond the bound of nobody who holds any", () => {
  const limits = deliveryLimits({ characters: 1_000 });
  const runs = createHeldRuns(limits);
  const room = runs.room(0).due;
  runs.add(Array.from({ length: 5 }, () => due("a", "x".repeat(100))));
  expect(runs.room(0).due).toBeLessThan(room * 0.6);
  expect(runs.full().accounts).toEqual(["a"]);
  runs.add(Array.from({ length: 5 }, () => due("b", "x".repeat(100))));
  expect(runs.room(0).due).toBe(limits.claimBatch / 8);
  runs.add([due("c")]);
  expect(runs.full().accounts).toEqual(["a", "b", "c"]);
  // The further beyond, the fewer.
  runs.add(Array.from({ length: 10 }, () => due("d", "x".repeat(100))));
  expect(runs.room(0).due).toBe(limits.claimBatch / 16);
  // What is in flight is held as well, until it is over.
  for (const run of runs.takeReady(0)) runs.finished(run);
  expect(runs.room(0).due).toBe(room);
});

test("an account whose large payloads hang leaves room for the next one", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  runs.add(Array.from({ length: limits.claimBatch }, () => due("hangs", "x".repeat(256 * 1024))));
  runs.takeReady(0);
  expect(runs.full().accounts).toEqual(["hangs"]);
  expect(runs.room(0).due).toBeGreaterThan(0);
  runs.add([due("next")]);
  expect(runs.takeReady(0).map(({ account }) => account)).toEqual(["next"]);
});

test("no more mails are started than soon have a connection", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  const target = {
    kind: "email",
    to: "a@b.example",
    subject: "",
    body: "",
    isHtml: false,
  } as const;
  const mail = (): ClaimedRun => {
    const base = claimedRun({}, { destination: "account smtp" });
    return { ...base, spec: { ...base.spec, target } };
  };
  runs.add(Array.from({ length: 100 }, mail));
  const started = runs.takeReady(0);
  expect(started).toHaveLength(limits.perMailServer);
  for (const run of started.slice(0, 3)) runs.finished(run);
  expect(runs.takeReady(0)).toHaveLength(3);
});
