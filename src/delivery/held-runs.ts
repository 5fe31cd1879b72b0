import { destinationKey } from "../domain/destination.ts";
import type { Instant } from "../domain/instant.ts";
import type { ClaimedRun } from "../domain/run.ts";

/** How many runs a worker takes on, in all and of one kind. */
export interface DeliveryLimits {
  /** Attempts in flight. */
  concurrency: number;
  perAccount: number;
  perDestination: number;
  /** Claimed runs that wait for a slot. */
  buffer: number;
  /** Runs of one claim. */
  claimBatch: number;
}

export const DELIVERY_LIMITS: DeliveryLimits = {
  concurrency: 512,
  perAccount: 256,
  perDestination: 128,
  buffer: 512,
  claimBatch: 128,
};

export interface HeldRuns {
  add(runs: readonly ClaimedRun[]): void;
  /**
   * Takes the due runs that may start now, oldest first, and counts them as in flight. One account or
   * destination whose receivers hang fills its own share and no more.
   */
  takeReady(now: Instant): ClaimedRun[];
  /** The attempt is over. */
  finished(run: ClaimedRun): void;
  /** Takes everything that has not been taken. */
  takeAll(): ClaimedRun[];
  /** Earliest notBefore after `now` among those waiting. */
  nextDue(now: Instant): Instant | null;
  /** How many more may be claimed; `ahead` limits those that are not due yet. */
  room(now: Instant): { due: number; ahead: number };
  /** Whose runs are not to be claimed: a whole batch of them would not fit. */
  full(): { accounts: string[]; destinations: string[] };
  readonly waiting: number;
  readonly inFlight: number;
}

interface Use {
  inFlight: number;
  waiting: number;
}

export function createHeldRuns(limits: DeliveryLimits): HeldRuns {
  let waiting: ClaimedRun[] = [];
  let inFlight = 0;
  const accounts = new Map<string, Use>();
  const destinations = new Map<string, Use>();

  function uses(run: ClaimedRun): [Use, Use] {
    return [use(accounts, run.account), use(destinations, keyOf(run))];
  }

  function forget(run: ClaimedRun): void {
    drop(accounts, run.account);
    drop(destinations, keyOf(run));
  }

  return {
    add: (runs) => {
      for (const run of runs) for (const counted of uses(run)) counted.waiting += 1;
      waiting.push(...runs);
      waiting.sort((a, b) => a.notBefore - b.notBefore);
    },
    takeReady: (now) => {
      const taken: ClaimedRun[] = [];
      const left: ClaimedRun[] = [];
      for (const run of waiting) {
        const [account, destination] = uses(run);
        if (
          run.notBefore <= now &&
          inFlight < limits.concurrency &&
          account.inFlight < limits.perAccount &&
          destination.inFlight < limits.perDestination
        ) {
          for (const counted of [account, destination]) {
            counted.waiting -= 1;
            counted.inFlight += 1;
          }
          inFlight += 1;
          taken.push(run);
        } else left.push(run);
      }
      waiting = left;
      return taken;
    },
    finished: (run) => {
      inFlight -= 1;
      for (const counted of uses(run)) counted.inFlight -= 1;
      forget(run);
    },
    takeAll: () => {
      const all = waiting;
      waiting = [];
      for (const run of all) {
        for (const counted of uses(run)) counted.waiting -= 1;
        forget(run);
      }
      return all;
    },
    nextDue: (now) => waiting.find((run) => run.notBefore > now)?.notBefore ?? null,
    room: (now) => {
      const due = Math.max(0, limits.concurrency + limits.buffer - inFlight - waiting.length);
      const future = waiting.filter((run) => run.notBefore > now).length;
      // What is not due yet must not keep out what becomes due before it.
      return { due, ahead: Math.max(0, Math.min(due, limits.buffer / 2 - future)) };
    },
    full: () => ({
      accounts: overfull(accounts, limits.perAccount + limits.buffer / 2 - limits.claimBatch),
      destinations: overfull(
        destinations,
        limits.perDestination + limits.buffer / 2 - limits.claimBatch,
      ),
    }),
    get waiting() {
      return waiting.length;
    },
    get inFlight() {
      return inFlight;
    },
  };
}

export function keyOf(run: ClaimedRun): string {
  const known = keys.get(run);
  if (known !== undefined) return known;
  const key = destinationKey(run.account, run.spec.target);
  keys.set(run, key);
  return key;
}

const keys = new WeakMap<ClaimedRun, string>();

function use(map: Map<string, Use>, key: string): Use {
  let counted = map.get(key);
  if (counted === undefined) {
    counted = { inFlight: 0, waiting: 0 };
    map.set(key, counted);
  }
  return counted;
}

function drop(map: Map<string, Use>, key: string): void {
  const counted = map.get(key);
  if (counted?.inFlight === 0 && counted.waiting === 0) map.delete(key);
}

function overfull(map: ReadonlyMap<string, Use>, most: number): string[] {
  const names: string[] = [];
  for (const [key, { inFlight, waiting }] of map) if (inFlight + waiting > most) names.push(key);
  return names;
}
