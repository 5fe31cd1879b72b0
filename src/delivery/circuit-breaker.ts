/**
 * A breaker costs kilobytes and, by default, two timers: destinations get one when they first fail and lose it when it
 * has been closed and quiet for a window, or half-open and called by nobody for ten minutes; all of them share one timer.
 */
import { partsOfKey } from "../domain/destination.ts";
import type { Instant } from "../domain/instant.ts";
import type { CircuitState } from "../domain/ports/circuits.ts";
import type { Clock, Monotonic, Timer, Timers } from "../domain/ports/clock.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { Breaker, BUCKETS, type Verdict } from "./breaker.ts";

/** Leave to make one attempt. `settle` must be called exactly once, however the attempt ended. */
export interface Permit {
  settle(verdict: Verdict): void;
}

export interface CircuitBreakers {
  /**
   * Synchronous. `open`: nobody may call now; in half-open all but one are told so, until that one has taken `resetMs`
   * and another may try. Whoever is told comes back at `until`, which is another moment for each: see `RETURN_GAP`.
   * `revision`: of what the destination is reached by now. Failures by another one say nothing, and are forgotten.
   */
  admit(
    destination: string,
    revision?: string,
  ): { kind: "admitted"; permit: Permit } | { kind: "open"; until: Instant };
  /** Whose circuit is not closed: who calls them is to be admitted first. */
  readonly unsettled: ReadonlySet<string>;
  /** How many there are; for tests. */
  readonly size: number;
  close(): void;
}

/** Milliseconds to wait for the outcome of somebody else's probe. */
const PROBE_PATIENCE = 2_000;
/**
 * Milliseconds between the moments at which two runs come back to a circuit that is not closed: a backlog
 * of n is spread over n × 2 ms from the moment a call may be let through, so that claiming and giving back
 * what waits behind one circuit costs at most 500 claims a second. The first still comes back at once, a
 * thousand within 2 s; they queue up behind those who were told before, so that the oldest come first.
 */
const RETURN_GAP = 2;
/**
 * Nobody is told to come later than this (milliseconds) after a call may be let through: what is more than
 * 150,000 runs starts again at the front, and the backlog costs a multiple of 500 claims.
 */
const RETURN_SPREAD = 300_000;
/**
 * Milliseconds after which a half-open circuit is forgotten that nobody has called: the jobs are gone, or
 * rare. Longer than the interval of most cron jobs: one that was forgotten between two calls would cost
 * five failures and two status writes for each of the destination's jobs, every time.
 */
const ABANDONED = 600_000;

interface Entry {
  destination: string;
  revision: string | undefined;
  /** Those of the account, itself among them, in the order of last use. */
  siblings: Set<Entry>;
  breaker: Breaker;
  state: CircuitState;
  /** Raised by each transition: a call from before it says nothing about the state since then. */
  epoch: number;
  /** Monotonic, as all moments here: of the last transition. */
  changedAt: number;
  lastFailureAt: number;
  /** Of the last call that was let through half-open. */
  probedAt: number;
  /** When the last run that was put off was told to come back. */
  lastReturn: number;
}

export interface Transition {
  destination: string;
  from: CircuitState;
  state: CircuitState;
}

/**
 * One breaker per destination key. It opens when, within `windowMs`, at least `MINIMUM_CALLS` were made
 * and more than half failed; after `resetMs` one call is let through, whose outcome closes or reopens
 * it. A probe that takes longer than `resetMs` decides no more than the next one, which is let through then: what one
 * slow path of a receiver does must not keep the others waiting.
 */
export function createCircuitBreakers(options: {
  clock: Clock;
  monotonic: Monotonic;
  timers: Timers;
  metrics: Metrics;
  /** Called for each change of state; must not throw. */
  onTransition: (transition: Transition) => void;
  windowMs?: number;
  resetMs?: number;
  /**
   * Breakers kept at most. The longest unused closed one gives way, or else the half-open one that has
   * waited longest for a call; open ones never do, nor those with a probe under way.
   */
  max?: number;
  /** Of one account: who calls ever new hosts that fail must not leave the others without breakers. */
  maxPerAccount?: number;
}): CircuitBreakers {
  const { clock, monotonic, timers, metrics, onTransition } = options;
  const { windowMs = 30_000, resetMs = 30_000, max = 8_000 } = options;
  const { maxPerAccount = Math.ceil(max / 4) } = options;
  /** In the order of last use. */
  const entries = new Map<string, Entry>();
  const accounts = new Map<string, Set<Entry>>();
  const unsettled = new Set<string>();
  /** Whose search for one that gives way was in vain since the last rotation; "" is everybody's. */
  const crowded = new Set<string>();
  let tick: Timer | undefined;
  let closed = false;

  function admit(...whom: Whom): ReturnType<CircuitBreakers["admit"]> {
    const [destination, revision] = whom;
    const known = entries.get(destination);
    if (known !== undefined && known.revision !== revision) forget(known);
    const entry = entries.get(destination);
    if (entry === undefined) return { kind: "admitted", permit: unknownCall(whom) };
    if (entry.state === "open" || (entry.state === "half_open" && !mayProbe(entry))) {
      metrics.circuitRejections.inc();
      const now = monotonic();
      const from = entry.state === "open" ? entry.changedAt + resetMs : now + PROBE_PATIENCE;
      const wait = placeAmongReturning(entry, Math.max(now, from)) - now;
      return { kind: "open", until: clock.now() + Math.ceil(wait) };
    }
    entries.delete(destination);
    entries.set(destination, entry);
    entry.siblings.delete(entry);
    entry.siblings.add(entry);
    if (entry.state === "half_open") entry.probedAt = monotonic();
    return { kind: "admitted", permit: permit(entry) };
  }

  /** Half-open, and nobody has come yet to try, or who did takes long. */
  function mayProbe(entry: Entry): boolean {
    return awaitsProbe(entry) || monotonic() - entry.probedAt >= resetMs;
  }

  /** Most destinations never fail: they cost nothing. */
  function unknownCall(whom: Whom): Permit {
    return {
      settle: (verdict) => {
        report(whom, verdict);
      },
    };
  }

  /** The outcome of a call that was announced to no breaker, or to one that has been dropped since. */
  function report(whom: Whom, verdict: Verdict): void {
    if (closed || verdict === "neutral") return;
    const [destination, revision] = whom;
    const entry = entries.get(destination);
    if (entry === undefined) {
      if (verdict === "failure") create(whom);
    } else if (entry.epoch === 0 && entry.revision === revision) permit(entry).settle(verdict);
  }

  function permit(entry: Entry): Permit {
    const { epoch } = entry;
    const call = entry.breaker.begin(entry.state === "half_open");
    return {
      settle: (verdict) => {
        // A straggler from before the circuit opened must not pass for the probe, nor open it again
        // afterwards. For opossum it stays a call that has not ended, of a window that has passed.
        if (entry.epoch !== epoch) return;
        if (entries.get(entry.destination) !== entry) {
          report([entry.destination, entry.revision], verdict);
          return;
        }
        if (verdict === "failure") entry.lastFailureAt = monotonic();
        call[verdict]();
      },
    };
  }

  function create([destination, revision]: Whom): void {
    const { account } = partsOfKey(destination);
    if (!makeRoom(account)) {
      metrics.circuitsRefused.inc();
      return;
    }
    const siblings = accounts.get(account) ?? new Set();
    const entry: Entry = {
      destination,
      revision,
      siblings,
      breaker: new Breaker({
        windowMs,
        resetMs,
        onState: (state) => {
          changed(entry, state);
        },
      }),
      state: "closed",
      epoch: 0,
      changedAt: monotonic(),
      lastFailureAt: monotonic(),
      probedAt: -Infinity,
      lastReturn: -Infinity,
    };
    entries.set(destination, entry);
    accounts.set(account, siblings.add(entry));
    // The failure that it is made for.
    permit(entry).settle("failure");
    tick ??= timers.after(windowMs / BUCKETS, rotate);
  }

  function changed(entry: Entry, state: CircuitState): void {
    metrics.circuitTransitions.inc({ state });
    count(entry.state, -1);
    count(state, 1);
    const from = entry.state;
    if (state === "closed") unsettled.delete(entry.destination);
    else unsettled.add(entry.destination);
    entry.state = state;
    entry.epoch += 1;
    entry.changedAt = monotonic();
    onTransition({ destination: entry.destination, from, state });
  }

  /** One timer for all windows; it stops when there is no breaker left. */
  function rotate(): void {
    const now = monotonic();
    crowded.clear();
    for (const entry of entries.values()) {
      if (entry.state === "closed" && entry.lastFailureAt < now - windowMs) drop(entry);
      else if (awaitsProbe(entry) && entry.changedAt < now - ABANDONED) forget(entry);
      else entry.breaker.rotate();
    }
    tick = entries.size === 0 ? undefined : timers.after(windowMs / BUCKETS, rotate);
  }

  /** For one more breaker of the account; false when nobody gives way. */
  function makeRoom(account: string): boolean {
    const own = accounts.get(account);
    const full = own !== undefined && own.size >= maxPerAccount;
    if (!full && entries.size < max) return true;
    const whose = full ? account : "";
    // Reading all of them again for each failure would be for nothing.
    if (crowded.has(whose)) return false;
    let abandoned: Entry | undefined;
    for (const entry of full ? own : entries.values()) {
      if (entry.state === "closed") {
        drop(entry);
        return true;
      }
      if (awaitsProbe(entry) && entry.changedAt < (abandoned?.changedAt ?? Infinity))
        abandoned = entry;
    }
    if (abandoned) forget(abandoned);
    else crowded.add(whose);
    return abandoned !== undefined;
  }

  /** What was published of it is taken back: nobody will ever say that it closed. */
  function forget(entry: Entry): void {
    if (entry.state !== "closed") changed(entry, "closed");
    drop(entry);
  }

  function drop(entry: Entry): void {
    entries.delete(entry.destination);
    unsettled.delete(entry.destination);
    entry.siblings.delete(entry);
    if (entry.siblings.size === 0) accounts.delete(partsOfKey(entry.destination).account);
    entry.breaker.shutdown();
  }

  function count(state: CircuitState, change: 1 | -1): void {
    if (state !== "closed") metrics.circuits.inc({ state }, change);
  }

  return {
    admit,
    unsettled,
    get size() {
      return entries.size;
    },
    close: () => {
      closed = true;
      tick?.cancel();
      tick = undefined;
      for (const entry of entries.values()) drop(entry);
    },
  };
}

type Whom = Parameters<CircuitBreakers["admit"]>;

/** Half-open, and nobody has come yet to try. */
function awaitsProbe({ state, breaker }: Entry): boolean {
  return state === "half_open" && breaker.awaitsProbe;
}

/** When the next run that is put off comes back: not before `from`. */
function placeAmongReturning(entry: Entry, from: number): number {
  const next = entry.lastReturn + RETURN_GAP;
  entry.lastReturn = next < from || next > from + RETURN_SPREAD ? from : next;
  return entry.lastReturn;
}
