import { expect, test } from "vitest";
import { deliveryLimits } from "../../../src/delivery/delivery-limits.ts";
import { createHeldRuns } from "../../../src/delivery/held-runs.ts";
import { keyOfParts, MAIL_SERVER } from "../../../src/domain/destination.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { claimedRun } from "../../integration/delivery/claimed-run.ts";

const shares = [
  { what: "the defaults", given: {}, perAccount: 256, perDestination: 160 },
  { what: "a small process", given: { concurrency: 64 }, perAccount: 32, perDestination: 20 },
  { what: "one at a time", given: { concurrency: 1 }, perAccount: 1, perDestination: 1 },
  {
    what: "a large process",
    given: { concurrency: 9_000 },
    perAccount: 4_500,
    perDestination: 160,
  },
  {
    what: "shares that are given",
    given: { concurrency: 8, perAccount: 8, perDestination: 8 },
    perAccount: 8,
    perDestination: 8,
  },
] as const;

for (const { what, given, perAccount, perDestination } of shares)
  test(`${what}: one account, one destination has a part of the slots`, () => {
    expect(deliveryLimits(given)).toMatchObject({ perAccount, perDestination });
  });

const PATIENCE = 25;

function held() {
  return createHeldRuns(
    deliveryLimits({ concurrency: 4, perAccount: 4, perDestination: 1, characters: 100 }),
  );
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
  const room = runs.room(0);
  runs.add([run("a", "token"), run("b", "token")]);
  const [started] = runs.takeReady(0);
  runs.forget("b");
  expect(runs.waiting).toBe(0);
  runs.add([run("c", "token")]);
  expect(runs.takeReady(0)).toEqual([]);
  if (started) runs.finished(started);
  const [next] = runs.takeReady(0);
  expect(next?.id).toBe("c");
  runs.add([run("d", "token")]);
  expect(runs.takeReady(0)).toEqual([]);
  runs.forget("d");
  if (next) runs.finished(next);
  expect(runs.room(0)).toEqual(room);
});

const waiting = (id: string, notBefore: number): ClaimedRun =>
  claimedRun({}, { id, notBefore, destination: `account ${id}` });

test("what is due first starts first, in whatever order it was claimed", () => {
  const runs = held();
  runs.add([waiting("prepared", 2_000)]);
  runs.add([waiting("late", 900), waiting("later", 1_000)]);
  expect(runs.takeReady(1_500).map(({ id }) => id)).toEqual(["late", "later"]);
  expect(runs.nextDue(1_999)).toBe(2_000);
  expect(runs.nextDue(2_000)).toBeNull();
});

test("what is only prepared takes half of the buffer at most", () => {
  const runs = createHeldRuns(deliveryLimits({ concurrency: 4, buffer: 8 }));
  expect(runs.room(0)).toEqual({ due: 6, ahead: true });
  runs.add(Array.from({ length: 4 }, () => claimedRun({}, { notBefore: 1 })));
  expect(runs.room(0)).toEqual({ due: 4, ahead: false });
  expect(runs.room(1)).toEqual({ due: 4, ahead: true });
  // A run takes one place, whether it waits or is in flight.
  expect(runs.takeReady(1)).toHaveLength(1);
  expect(runs.room(1)).toEqual({ due: 4, ahead: true });
});

test("a share that was given as all of the slots is all of them", () => {
  const runs = createHeldRuns(deliveryLimits({ concurrency: 4, perAccount: 4, perDestination: 4 }));
  for (const account of ["a", "b"]) runs.add(Array.from({ length: 3 }, () => due(account)));
  expect(runs.takeReady(0)).toHaveLength(4);
});

test("nothing is kept of accounts and destinations without runs", () => {
  // With these limits every account and destination that is still known counts as full.
  const runs = createHeldRuns(deliveryLimits({ concurrency: 4, buffer: 2, claimBatch: 10 }));
  runs.add(Array.from({ length: 3 }, (_, n) => due(`account ${n}`)));
  const full = runs.full(0, PATIENCE);
  expect([full.accounts.length, full.destinations.length]).toEqual([3, 3]);
  for (const run of runs.takeReady(0).slice(1)) runs.finished(run);
  runs.add([due("forgotten")]);
  runs.takeAll();
  for (const waits of [true, false])
    runs.lockedOut({ account: "a record once waited", jobUid: undefined }, waits);
  expect([runs.full(0, PATIENCE).accounts, runs.full(0, PATIENCE).destinations.length]).toEqual([
    ["account 0"],
    1,
  ]);
});

const due = (account: string, payload = "{}"): ClaimedRun => {
  const base = claimedRun({});
  const target = { ...base.spec.target, payload } as typeof base.spec.target;
  return { ...base, account, destination: base.id, spec: { ...base.spec, target } };
};

const mail = (account: string, body = ""): ClaimedRun => {
  const base = claimedRun({}, { account, destination: `${account} smtp` });
  const target = { kind: "email", to: "a@b.example", subject: "", body, isHtml: false } as const;
  return { ...base, spec: { ...base.spec, target } };
};

test("however many accounts hang, the next one finds slots and room", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  let inFlight = 0;
  for (const [before, account] of ["a", "b", "c", "d", "e"].entries()) {
    // Runs come as by claims: as many as there is room for, until the account is passed over.
    while (!runs.full(0, PATIENCE).accounts.includes(account)) {
      const count = Math.min(limits.claimBatch, runs.room(0).due);
      expect(count).toBeGreaterThan(0);
      runs.add(Array.from({ length: count }, () => due(account)));
      inFlight += runs.takeReady(0).length;
    }
    expect(runs.inFlight).toBe(inFlight);
    // Each account takes half of the slots that are left.
    expect(limits.concurrency - inFlight).toBe(limits.concurrency / 2 ** (before + 1));
  }
  expect(runs.takeReady(0)).toEqual([]);
});

test("an account with a small share has no more, however many slots are free", () => {
  const runs = createHeldRuns(deliveryLimits({ concurrency: 16, perAccount: 2 }));
  runs.add(Array.from({ length: 5 }, () => due("a")));
  const [first] = runs.takeReady(0);
  expect([runs.inFlight, runs.waiting]).toEqual([2, 3]);
  expect(runs.takeReady(0)).toEqual([]);
  if (first) runs.finished(first);
  expect(runs.takeReady(0)).toHaveLength(1);
});

test("a webhook's destination has more slots than a mail server", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  const one = claimedRun({});
  runs.add(Array.from({ length: 200 }, (_, n) => ({ ...one, id: `run ${n}` })));
  expect(runs.takeReady(one.notBefore)).toHaveLength(limits.perDestination);
});

test("what an account has waiting counts as well: it leaves room for the next one", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  runs.add(Array.from({ length: limits.buffer / 2 }, () => due("a")));
  expect(runs.full(0, PATIENCE).accounts).toEqual(["a"]);
});

test("however many accounts' mail servers hang, the next account finds room", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  // Few mails of each have a slot, so that it is never full for want of slots; the others wait.
  for (const account of "abcdefgh") {
    const passedOver = () => {
      const { accounts, destinations } = runs.full(0, PATIENCE);
      return accounts.includes(account) || destinations.includes(`${account} ${MAIL_SERVER}`);
    };
    while (!passedOver()) {
      const count = Math.min(limits.claimBatch, runs.room(0).due);
      expect(count).toBeGreaterThan(0);
      runs.add(Array.from({ length: count }, () => mail(account)));
      runs.takeReady(0);
    }
  }
  expect(runs.room(0).due).toBeGreaterThan(0);
});

test("large payloads are claimed a few at a time, and beyond the bound of nobody who holds any", () => {
  const limits = deliveryLimits({ characters: 1_000 });
  const runs = createHeldRuns(limits);
  const room = runs.room(0).due;
  runs.add(Array.from({ length: 5 }, () => due("a", "x".repeat(100))));
  expect(runs.room(0).due).toBeLessThan(room * 0.6);
  expect(runs.full(0, PATIENCE).accounts).toEqual(["a"]);
  runs.add(Array.from({ length: 5 }, () => due("b", "x".repeat(100))));
  expect(runs.room(0).due).toBe(limits.claimBatch / 8);
  runs.add([due("c")]);
  expect(runs.full(0, PATIENCE).accounts).toEqual(["a", "b", "c"]);
  // The further beyond the limit, the smaller the claims.
  runs.add(Array.from({ length: 10 }, () => mail("d", "x".repeat(100))));
  expect(runs.room(0).due).toBe(limits.claimBatch / 16);
  // Runs in flight are held, too, until they are over.
  for (const run of runs.takeReady(0)) runs.finished(run);
  expect(runs.room(0).due).toBe(room);
});

test("a job whose records wait for a lock is passed over, and an account with a whole share of such jobs", () => {
  const runs = createHeldRuns(deliveryLimits({ concurrency: 8, lockedOutPerAccount: 2 }));
  const full = () => {
    const { accounts, jobs } = runs.full(0, PATIENCE);
    return { accounts, jobs };
  };
  // However many records of a job wait, its account has one such job.
  for (const jobUid of ["one", "one"]) runs.lockedOut({ account: "a", jobUid }, true);
  expect(full()).toEqual({ accounts: [], jobs: ["one"] });
  runs.lockedOut({ account: "a", jobUid: "two" }, true);
  runs.lockedOut({ account: "b", jobUid: undefined }, true);
  expect(full()).toEqual({ accounts: ["a"], jobs: ["one", "two"] });
  runs.lockedOut({ account: "a", jobUid: "one" }, false);
  expect(full()).toEqual({ accounts: ["a"], jobs: ["one", "two"] });
  runs.lockedOut({ account: "a", jobUid: "one" }, false);
  expect(full()).toEqual({ accounts: [], jobs: ["two"] });
  // Mails of the account's jobs that cannot be logged count as well.
  runs.lockedOut({ account: "b", jobUid: undefined }, true);
  expect(full()).toEqual({ accounts: ["b"], jobs: ["two"] });
});

test("records of one job under two accounts are counted once, and not for ever", () => {
  const runs = createHeldRuns(deliveryLimits({ lockedOutPerAccount: 1 }));
  const [before, after] = ["before", "after"].map((account) => ({ account, jobUid: "job" }));
  if (before === undefined || after === undefined) throw new Error("no records");
  // Its namespace has got another account while a run was in flight; the first one's record is made, or written, first
  // or last.
  for (const [first, second, written, last] of [
    [before, after, before, after],
    [before, after, after, before],
    [after, before, after, before],
    [after, before, before, after],
  ] as const) {
    runs.lockedOut(first, true);
    runs.lockedOut(second, true);
    expect(runs.full(0, PATIENCE)).toMatchObject({ accounts: [first.account], jobs: ["job"] });
    runs.lockedOut(written, false);
    expect(runs.full(0, PATIENCE)).toMatchObject({ accounts: [first.account], jobs: ["job"] });
    runs.lockedOut(last, false);
    expect(runs.full(0, PATIENCE)).toMatchObject({ accounts: [], jobs: [] });
  }
});

for (const concurrency of [1, 2, 512, 10_000])
  test(`with ${concurrency} at a time, a locked job stops no other of its account, and two accounts' locks nobody else`, () => {
    const limits = deliveryLimits({ concurrency });
    const runs = createHeldRuns(limits);
    runs.lockedOut({ account: "a", jobUid: "locked" }, true);
    expect(runs.full(0, PATIENCE)).toMatchObject({ accounts: [], jobs: ["locked"] });
    let records = 1;
    for (const account of ["a", "b"]) {
      for (let job = 0; !runs.full(0, PATIENCE).accounts.includes(account); job += 1) {
        runs.lockedOut({ account, jobUid: `${account} ${job}` }, true);
        records += 1;
      }
      // All that it had in flight then waits too.
      records += Math.min(limits.perAccount, concurrency / 4);
    }
    expect(records).toBeLessThan(limits.lockedOut);
  });

test("an account whose large payloads hang leaves room for the next one", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  runs.add(Array.from({ length: limits.claimBatch }, () => due("hangs", "x".repeat(256 * 1024))));
  runs.takeReady(0);
  expect(runs.full(0, PATIENCE).accounts).toEqual(["hangs"]);
  expect(runs.room(0).due).toBeGreaterThan(0);
  runs.add([due("next")]);
  expect(runs.takeReady(0).map(({ account }) => account)).toEqual(["next"]);
});

test("no more mails are started than soon have a connection", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  runs.add(Array.from({ length: 100 }, () => mail("a")));
  const started = runs.takeReady(0);
  expect(started).toHaveLength(limits.perMailServer);
  for (const run of started.slice(0, 3)) runs.finished(run);
  expect(runs.takeReady(0)).toHaveLength(3);
  const small = createHeldRuns(deliveryLimits({ concurrency: 8 }));
  small.add(Array.from({ length: 8 }, () => mail("a")));
  expect(small.takeReady(0)).toHaveLength(deliveryLimits({ concurrency: 8 }).perDestination);
});

const started = (account: string, destination = `${account} http://one`): ClaimedRun =>
  claimedRun({}, { account, destination, started: true });

const many = <T>(length: number, of: () => T): T[] => Array.from({ length }, of);

test("what its claim has started is in flight, and does not wait", () => {
  const runs = createHeldRuns(deliveryLimits());
  const [one, other] = [started("a"), due("b")];
  runs.add([one, other]);
  expect([runs.inFlight, runs.waiting]).toEqual([1, 1]);
  expect(runs.takeReady(0)).toEqual([other]);
  runs.finished(one);
  runs.finished(other);
  expect([runs.inFlight, runs.waiting]).toEqual([0, 0]);
});

test("a claim starts no more than find a slot, whomever they call", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  const startable = () => runs.startable(runs.full(0, PATIENCE));
  expect(startable()).toBe(limits.perDestination);
  runs.add(many(60, () => started("a")));
  expect(startable()).toBe(limits.perDestination - 60);
  // The destination has no slot left and is passed over; its account may have more runs of other destinations.
  runs.add(many(100, () => started("a")));
  expect(runs.full(0, PATIENCE)).toEqual({
    accounts: [],
    destinations: ["a http://one"],
    jobs: [],
  });
  expect(startable()).toBe(limits.perAccount - 160);
  runs.add(many(96, () => started("a", "a http://two")));
  expect(runs.full(0, PATIENCE).accounts).toEqual(["a"]);
  // An unknown account may have half of what is left.
  expect(startable()).toBe((limits.concurrency - 256) / 2);
});

test("however small, what is left is given out by halves, and in the end there is nothing to start", () => {
  const limits = deliveryLimits({ concurrency: 8, perAccount: 4, perDestination: 4 });
  const runs = createHeldRuns(limits);
  const given: number[] = [];
  for (;;) {
    const slots = runs.startable(runs.full(0, PATIENCE));
    if (slots === 0) break;
    given.push(slots);
    runs.add(many(slots, () => started(`account ${given.length}`)));
  }
  expect(given).toEqual([4, 2, 1, 1]);
  expect(runs.inFlight).toBe(8);
});

test("who has few slots is passed over for a moment after each claim, so that the others' are not small", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  runs.add(many(limits.perDestination - 3, () => started("a")));
  const nobody = runs.full(1_000, PATIENCE);
  expect(nobody.destinations).toEqual([]);
  expect(runs.startable(nobody)).toBe(3);
  runs.claimed(nobody, 1_000);
  const full = runs.full(1_000 + PATIENCE - 1, PATIENCE);
  expect(full.destinations).toEqual(["a http://one"]);
  expect(runs.startable(full)).toBe(limits.perAccount - (limits.perDestination - 3));
  // A claim that passes it over does not prolong its wait.
  runs.claimed(full, 1_000 + PATIENCE - 1);
  expect(runs.full(1_000 + PATIENCE, PATIENCE).destinations).toEqual([]);
});

test("while something due waits for a slot, no claim takes it away", () => {
  const runs = createHeldRuns(deliveryLimits());
  const destination = "a http://one";
  runs.add([claimedRun({}, { account: "a", destination, notBefore: 500 })]);
  expect(runs.full(499, PATIENCE).destinations).toEqual([]);
  expect(runs.full(500, PATIENCE).destinations).toEqual([destination]);
  runs.takeReady(500);
  expect(runs.full(500, PATIENCE).destinations).toEqual([]);
});

test("free slots are no news while something due waits for them, but once that has been taken", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  const busy = many(limits.perDestination, () => started("a"));
  runs.add(busy);
  const destination = "a http://one";
  runs.add([
    claimedRun({}, { account: "a", destination }),
    claimedRun({}, { account: "a", destination, notBefore: 1 }),
  ]);
  expect(runs.takeReady(0)).toEqual([]);
  expect(runs.full(0, PATIENCE).destinations).toEqual([destination]);
  const end = () => busy.splice(0, 1).some((run) => runs.finished(run));
  // The start that is under way keeps the waiting run from being taken: a claim would pass the destination over again.
  expect(many(limits.perDestination / 2 + 20, end)).not.toContain(true);
  expect(runs.full(0, PATIENCE).destinations).toEqual([destination]);
  expect(runs.takeReady(0)).toHaveLength(1);
  expect(many(3, end)).toEqual([true, false, false]);
});

test("nothing waits any more, either, when the claim of what waited was lost", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  const busy = many(limits.perDestination, () => started("a"));
  const waiting = claimedRun({}, { account: "a", destination: "a http://one" });
  runs.add([...busy, waiting]);
  expect(runs.full(0, PATIENCE).destinations).toEqual(["a http://one"]);
  for (const run of busy.splice(0, limits.perDestination - 1))
    expect(runs.finished(run)).toBe(false);
  runs.forget(waiting.id);
  expect(busy.map((run) => runs.finished(run))).toEqual([true]);
});

test("mails wait for connections: theirs are no slots that a claim could fill", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  runs.add(many(100, () => mail("a")));
  runs.takeReady(0);
  const full = runs.full(0, PATIENCE);
  expect(full.destinations).toEqual([]);
  expect(runs.startable(full)).toBe(limits.perDestination);
});

test("who was full says so once when half of its slots are free again, and who was not never", () => {
  const limits = deliveryLimits();
  const runs = createHeldRuns(limits);
  const busy = many(limits.perDestination, () => started("a"));
  runs.add(busy);
  const end = () => busy.splice(0, 1).some((run) => runs.finished(run));
  // `full` has not been asked yet.
  expect(many(10, end)).not.toContain(true);
  const others = many(10, () => started("a"));
  runs.add(others);
  busy.push(...others);
  expect(runs.full(0, PATIENCE).destinations).toEqual(["a http://one"]);
  expect(many(limits.perDestination / 2 - 1, end)).not.toContain(true);
  expect(end()).toBe(true);
  expect(many(20, end)).not.toContain(true);
});

test.each([
  { what: "runs", count: 800, payload: 2 },
  { what: "characters", count: 300, payload: 64 * 1_024 },
])(
  "who held too many $what for another claim says so once when half of that is left",
  ({ count, payload }) => {
    const runs = createHeldRuns(deliveryLimits());
    const of = { account: "a", destination: "a http://one", notBefore: 1 };
    runs.add(many(count, () => claimedRun({ payload: "x".repeat(payload) }, of)));
    // Before they are due, none waits for a slot.
    expect(runs.full(0, PATIENCE).accounts).toEqual(["a"]);
    const said: number[] = [];
    while (runs.inFlight + runs.waiting > 0)
      for (const run of runs.takeReady(1))
        if (runs.finished(run)) said.push(runs.inFlight + runs.waiting);
    expect(said).toEqual([count / 2]);
  },
);

test("where few slots are left over, half of them are enough", () => {
  const runs = createHeldRuns(deliveryLimits({ concurrency: 8, perAccount: 4, perDestination: 4 }));
  runs.add(many(4, () => started("hangs")));
  const [one, other] = [started("a"), started("a")];
  runs.add([one, other]);
  expect(runs.full(0, PATIENCE).accounts).toEqual(["hangs", "a"]);
  expect(runs.finished(one)).toBe(true);
  expect(runs.startable(runs.full(0, PATIENCE))).toBe(1);
  expect(runs.finished(other)).toBe(false);
});

test("whoever is full for more than one reason is heard of again when it has slots", () => {
  const runs = createHeldRuns(deliveryLimits({ concurrency: 2, perAccount: 1, characters: 100 }));
  const destination = keyOfParts({ account: "a", destination: MAIL_SERVER });
  const large = claimedRun(
    { payload: "x".repeat(80) },
    { account: "a", destination, started: true },
  );
  runs.add([large]);
  expect(runs.full(0, PATIENCE).accounts).toEqual(["a"]);
  expect(runs.finished(large)).toBe(true);
});
