import { isMailServer, partsOfKey } from "../domain/destination.ts";
import type { Instant } from "../domain/instant.ts";
import type { ClaimedRun } from "../domain/run.ts";
import type { DeliveryLimits } from "./delivery-limits.ts";
import { Holder } from "./holder.ts";
import { LockedRecords, type LockedOut } from "./locked-records.ts";

/** The runs that this worker has claimed and not finished: waiting for a slot, or in flight. */
export interface HeldRuns {
  /**
   * Runs that their claim has started are in flight, the others wait. A run that already waits here, by an older claim
   * that was lost, is replaced.
   */
  add(runs: readonly ClaimedRun[]): void;
  /** The claim was lost: the run does not wait here any more. */
  forget(id: string): void;
  /**
   * Takes the due runs that may start now, oldest first, and counts them as in flight. One account or
   * destination whose receivers hang fills its own share and no more. No account may have more slots than are left
   * free, so that however many accounts' receivers hang, there are slots for the next account.
   */
  takeReady(now: Instant): ClaimedRun[];
  /**
   * The attempt is over. True when an account or destination that claims passed over is worth a claim again: one that
   * had no slots has half of them, and none of its runs here waits for them; or one that held too much holds half of
   * that.
   */
  finished(run: ClaimedRun): boolean;
  /** Takes every run that still waits. */
  takeAll(): ClaimedRun[];
  /**
   * A record of the job, or of the account alone, begins to wait for somebody's lock, or does not wait any more. Until
   * then claims exclude the job, and an account with as many such jobs or records as it may have slots.
   */
  lockedOut(of: LockedOut, waits: boolean): void;
  /**
   * How many runs a claim may start: so many find a slot, whichever account or destination outside `full` they
   * call.
   */
  startable(full: ClaimExclusions): number;
  /** A claim was made at `now` that excluded only `full`. */
  claimed(full: ClaimExclusions, now: Instant): void;
  /** Earliest notBefore after `now` among those waiting. */
  nextDue(now: Instant): Instant | null;
  /**
   * Of each destination outside `except`, a webhook that becomes due after `after` and until `until`, and how many of
   * them find a slot if nothing else ends until then.
   */
  soon(
    after: Instant,
    until: Instant,
    except: ReadonlySet<string>,
  ): Iterable<{ run: ClaimedRun; calls: number }>;
  /**
   * How many more due runs may be claimed; `ahead`: also runs that are not due yet. However many characters are held,
   * there is room for a few runs, because the accounts that hold many of them are `full`.
   */
  room(now: Instant): { due: number; ahead: boolean };
  /**
   * Whom the next claim is to exclude: a whole batch of theirs would not fit, somebody's lock holds up their records,
   * they have no slot, or so few that they would make the claim small. The last holds only for `patience`
   * (milliseconds) after a claim that included them. Remembers who is full and for what, for `finished`.
   */
  full(now: Instant, patience: number): ClaimExclusions;
  readonly waiting: number;
  readonly inFlight: number;
}

/** Accounts, `destinationKey`s, and uids of jobs. */
export interface ClaimExclusions {
  accounts: readonly string[];
  destinations: readonly string[];
  jobs: readonly string[];
}

/** With the holders that count it: `dropIfUnused` keeps them in the maps for as long as the run waits. */
interface Waiting {
  run: ClaimedRun;
  account: Holder;
  destination: Holder;
}

export function createHeldRuns(limits: DeliveryLimits): HeldRuns {
  /** Sorted by notBefore. */
  let waiting: Waiting[] = [];
  let inFlight = 0;
  let characters = 0;
  const accounts = new Map<string, Holder>();
  const destinations = new Map<string, Holder>();
  const lockedRecords = new LockedRecords({ mostOfAccount: limits.lockedOutPerAccount });

  function holderOf(map: Map<string, Holder>, key: string): Holder {
    let holder = map.get(key);
    if (holder === undefined) map.set(key, (holder = new Holder(limits.perDestination / 2)));
    return holder;
  }

  function holdersOf(run: ClaimedRun): [Holder, Holder] {
    return [holderOf(accounts, run.account), holderOf(destinations, run.destination)];
  }

  function dropUnused(run: ClaimedRun): void {
    dropIfUnused(accounts, run.account);
    dropIfUnused(destinations, run.destination);
  }

  /** Takes out those that match. What is left stays in its order. */
  function takeOut(matches: (run: ClaimedRun) => boolean): ClaimedRun[] {
    const out = waiting.filter(({ run }) => matches(run));
    if (out.length > 0) waiting = waiting.filter(({ run }) => !matches(run));
    return out.map(({ run, account, destination }) => {
      account.waiting -= 1;
      destination.waiting -= 1;
      destination.unqueued();
      holdCharacters(-sizeOf(run), [account, destination]);
      dropUnused(run);
      return run;
    });
  }

  function holdCharacters(change: number, by: readonly Holder[]): void {
    characters += change;
    for (const holder of by) holder.characters += change;
  }

  /** How many more runs of an account may start; of a new account when undefined. */
  function slotsOf(account: Holder | undefined): number {
    const theirs = account?.inFlight ?? 0;
    const left = limits.concurrency - inFlight;
    // The limits may let one account use every slot. Otherwise none may hold more slots than are left free. Each start
    // takes one of the free slots and adds it to the account's: hence the half.
    return limits.perAccount < limits.concurrency
      ? Math.min(limits.perAccount - theirs, Math.ceil((left - theirs) / 2))
      : left;
  }

  function slotsTo(destination: Holder | undefined): number {
    return limits.perDestination - (destination?.inFlight ?? 0);
  }

  /** How many runs to the run's destination may be in flight. */
  function mostTo({ spec: { target } }: ClaimedRun): number {
    const { perDestination, perMailServer } = limits;
    return target.kind === "email" ? Math.min(perDestination, perMailServer) : perDestination;
  }

  /** Free places for runs. One claim, or one account, gets at most half of them; the same goes for characters. */
  function free(): number {
    return Math.max(0, limits.concurrency + limits.buffer - inFlight - waiting.length);
  }

  /** The part of the allowed characters that is held; may exceed 1. */
  const share = (): number => characters / limits.characters;

  /** How many runs may be claimed at least, while there are places. */
  const fewRuns = (): number => (limits.claimBatch / 8) * Math.min(1, 1 / share());

  return {
    add: (runs) => {
      if (runs.length === 0) return;
      const ids = new Set(runs.map(({ id }) => id));
      takeOut((run) => ids.has(run.id));
      for (const run of runs) {
        const [account, destination] = holdersOf(run);
        const state = run.started ? "inFlight" : "waiting";
        account[state] += 1;
        destination[state] += 1;
        holdCharacters(sizeOf(run), [account, destination]);
        if (run.started) inFlight += 1;
        else waiting.push({ run, account, destination });
      }
      waiting.sort((a, b) => a.run.notBefore - b.run.notBefore);
    },
    forget: (id) => {
      takeOut((run) => run.id === id);
    },
    takeReady: (now) => {
      const taken: ClaimedRun[] = [];
      const left: Waiting[] = [];
      let index = 0;
      for (; index < waiting.length && inFlight < limits.concurrency; index += 1) {
        const entry = waiting[index];
        if (entry === undefined || entry.run.notBefore > now) break;
        const { run, account, destination } = entry;
        if (slotsOf(account) > 0 && destination.inFlight < mostTo(run)) {
          account.waiting -= 1;
          account.inFlight += 1;
          destination.waiting -= 1;
          destination.inFlight += 1;
          destination.unqueued();
          inFlight += 1;
          taken.push(run);
        } else left.push(entry);
      }
      if (taken.length > 0) waiting = left.concat(waiting.slice(index));
      return taken;
    },
    finished: (run) => {
      inFlight -= 1;
      const [account, destination] = holdersOf(run);
      for (const holder of [account, destination]) holder.inFlight -= 1;
      holdCharacters(-sizeOf(run), [account, destination]);
      // Both are asked: each of them forgets that it was full.
      const recovered = [
        account.recovers(slotsOf(account)),
        destination.recovers(slotsTo(destination)),
      ];
      dropUnused(run);
      return recovered.includes(true);
    },
    takeAll: () => takeOut(() => true),
    lockedOut: (of, waits) => {
      lockedRecords.change(of, waits);
    },
    startable: (full) => {
      let least = Math.min(slotsOf(undefined), slotsTo(undefined));
      const passedOver = new Set(full.accounts.concat(full.destinations));
      for (const [key, account] of accounts)
        if (!passedOver.has(key)) least = Math.min(least, slotsOf(account));
      for (const [key, destination] of destinations)
        if (!passedOver.has(key) && !passedOver.has(partsOfKey(key).account) && !isMailServer(key))
          least = Math.min(least, slotsTo(destination));
      return Math.max(0, least);
    },
    claimed: (full, now) => {
      const passedOver = new Set(full.accounts.concat(full.destinations));
      for (const map of [accounts, destinations])
        for (const [key, holder] of map) if (!passedOver.has(key)) holder.included(now);
    },
    nextDue: (now) => waiting.find(({ run }) => run.notBefore > now)?.run.notBefore ?? null,
    soon: (after, until, except) => {
      const receivers = new Map<string, { run: ClaimedRun; calls: number }>();
      const ofAccount = new Map<string, number>();
      let inAll = 0;
      for (const { run, account, destination } of waiting) {
        if (run.notBefore > until || inAll >= limits.concurrency - inFlight) break;
        if (run.notBefore <= after || run.spec.target.kind !== "webhook") continue;
        if (except.has(run.destination)) continue;
        const receiver = receivers.get(run.destination) ?? { run, calls: 0 };
        const theirs = ofAccount.get(run.account) ?? 0;
        if (receiver.calls >= slotsTo(destination) || theirs >= slotsOf(account)) continue;
        receiver.calls += 1;
        receivers.set(run.destination, receiver);
        ofAccount.set(run.account, theirs + 1);
        inAll += 1;
      }
      return receivers.values();
    },
    room: (now) => {
      const due = Math.ceil(
        Math.min(free() / 2, Math.max(fewRuns(), (free() / 2) * (1 - share()))),
      );
      const future = waiting.length - 1 - waiting.findLastIndex(({ run }) => run.notBefore <= now);
      // Runs that are not due yet must not take the places of those that become due before them.
      return { due, ahead: future < limits.buffer / 2 };
    },
    full: (now, patience) => {
      const since = now - patience;
      // A whole claim more must fit.
      const spare = limits.buffer / 2 - limits.claimBatch;
      const mostPlaces = Math.min(limits.perAccount + spare, free() / 2);
      const mostCharacters = Math.max(0, limits.characters - characters) / 2;
      const queued = new Map<Holder, number>();
      for (const { run, destination } of waiting) {
        if (run.notBefore > now) break;
        queued.set(destination, (queued.get(destination) ?? 0) + 1);
      }
      const theirs = namesOf(
        accounts,
        (holder) =>
          holder.crowded(slotsOf(holder), since) || holder.packed(mostPlaces, mostCharacters),
      );
      return {
        accounts: [...new Set(theirs.concat(lockedRecords.accounts()))],
        destinations: namesOf(
          destinations,
          (holder, key) =>
            (!isMailServer(key) && holder.crowded(slotsTo(holder), since, queued.get(holder))) ||
            holder.packed(limits.perDestination + spare, Infinity),
        ),
        jobs: lockedRecords.jobs(),
      };
    },
    get waiting() {
      return waiting.length;
    },
    get inFlight() {
      return inFlight;
    },
  };
}

function sizeOf({ spec: { target } }: ClaimedRun): number {
  return target.kind === "webhook" ? target.payload.length : target.body.length;
}

function dropIfUnused(map: Map<string, Holder>, key: string): void {
  const holder = map.get(key);
  if (holder?.inFlight === 0 && holder.waiting === 0) map.delete(key);
}

function namesOf(
  map: ReadonlyMap<string, Holder>,
  which: (holder: Holder, key: string) => boolean,
): string[] {
  const names: string[] = [];
  for (const [key, holder] of map) if (which(holder, key)) names.push(key);
  return names;
}
