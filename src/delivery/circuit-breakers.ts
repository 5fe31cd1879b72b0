/**
 * A breaker costs kilobytes and, by default, two timers. So a destination gets one when it first fails, and loses
 * it when it has been closed without failures for a window, or half-open without calls for ten minutes; all
 * breakers share one timer.
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
   * Synchronous. `open`: the run may not call now and comes back at `until`, a different moment for each run (see
   * `RETURN_GAP`). A half-open circuit admits one call, and another when that one has taken `resetMs` or told nothing.
   * `revision`: of the settings by which the destination is reached. Failures under another revision are forgotten.
   */
  admit(
    destination: string,
    revision?: string,
  ): { kind: "admitted"; permit: Permit } | { kind: "open"; until: Instant };
  /** Destinations whose circuit is not closed: a call to them must be admitted first. */
  readonly notClosed: ReadonlySet<string>;
  /** How many breakers there are; for tests. */
  readonly size: number;
  close(): void;
}

/** Milliseconds to wait for the outcome of somebody else's probe. */
const PROBE_PATIENCE = 2_000;
/**
 * Milliseconds between the moments at which two runs come back to a circuit that is not closed: a backlog
 * of n is spread over n × 2 ms from the moment a call may be let through, so that claiming and giving back
 * what waits behind one circuit costs at most 500 claims a second. The first run still comes back at once, a
 * thousand within 2 s. Each gets a place behind those put off before it, so that the oldest come first.
 */
const RETURN_GAP = 2;
/**
 * Milliseconds over which returning runs are spread at most. After 150,000 runs the places start again at the
 * front, and the backlog costs a multiple of 500 claims a second.
 */
const RETURN_SPREAD = 300_000;
/**
 * Milliseconds after which a half-open circuit that nobody calls is forgotten: its jobs are gone, or rare. Longer
 * than the interval of most cron jobs: to forget a circuit between two calls would cost five failures, and two
 * status writes for each of the destination's jobs, every time.
 */
const ABANDONED = 600_000;

interface Entry {
  destination: string;
  revision: string | undefined;
  /** All entries of the account, this one included, in the order of last use. */
  siblings: Set<Entry>;
  breaker: Breaker;
  state: CircuitState;
  /** Raised by each transition: a call that began before one says nothing about the state after it. */
  epoch: number;
  /** Of the last transition. All moments here are monotonic. */
  changedAt: number;
  lastFailureAt: number;
  /** Calls under way that the half-open circuit has let through. */
  probes: number;
  /** When a half-open circuit last let a call through. */
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
 * it. When that probe has taken `resetMs`, another one is let through, and the first outcome decides: one slow path of
 * a receiver must not keep the others waiting. So is the next when a probe told nothing: a backlog of runs that call
 * nobody, for instance for want of a Secret, would otherwise keep a circuit open for `resetMs` each.
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
  /** Most of one account: one that keeps calling new hosts that fail must not leave the others without breakers. */
  maxPerAccount?: number;
}): CircuitBreakers {
  const { clock, monotonic, timers, metrics, onTransition } = options;
  const { windowMs = 30_000, resetMs = 30_000, max = 8_000 } = options;
  const { maxPerAccount = Math.ceil(max / 4) } = options;
  /** In the order of last use. */
  const entries = new Map<string, Entry>();
  const accounts = new Map<string, Set<Entry>>();
  const notClosed = new Set<string>();
  /** Accounts for which no breaker could give way since the last rotation; "": none of anybody's could. */
  const noneGivesWay = new Set<string>();
  let tick: Timer | undefined;
  let closed = false;

  function admit(...callee: Callee): ReturnType<CircuitBreakers["admit"]> {
    const [destination, revision] = callee;
    const known = entries.get(destination);
    if (known !== undefined && known.revision !== revision) forget(known);
    const entry = entries.get(destination);
    if (entry === undefined) return { kind: "admitted", permit: unknownCall(callee) };
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
    if (entry.state === "half_open") {
      entry.probes += 1;
      entry.probedAt = monotonic();
    }
    return { kind: "admitted", permit: permit(entry) };
  }

  /** Half-open, and no probe is under way, or the last one takes too long. */
  function mayProbe(entry: Entry): boolean {
    return awaitsProbe(entry) || monotonic() - entry.probedAt >= resetMs;
  }

  /** A call to a destination without a breaker: most never fail, and cost nothing. */
  function unknownCall(callee: Callee): Permit {
    return {
      settle: (verdict) => {
        report(callee, verdict);
      },
    };
  }

  /** The outcome of a call that was announced to no breaker, or to one that has been dropped since. */
  function report(callee: Callee, verdict: Verdict): void {
    if (closed || verdict === "neutral") return;
    const [destination, revision] = callee;
    const entry = entries.get(destination);
    if (entry === undefined) {
      if (verdict === "failure") create(callee);
    } else if (entry.epoch === 0 && entry.revision === revision) permit(entry).settle(verdict);
  }

  function permit(entry: Entry): Permit {
    const { epoch } = entry;
    const call = entry.breaker.begin(entry.state === "half_open");
    return {
      settle: (verdict) => {
        // A call from before the last transition must not pass for the probe, nor open the circuit again. For
        // opossum it stays a call without an end, in a window that has passed.
        if (entry.epoch !== epoch) return;
        if (entries.get(entry.destination) !== entry) {
          report([entry.destination, entry.revision], verdict);
          return;
        }
        if (verdict === "failure") entry.lastFailureAt = monotonic();
        if (verdict === "neutral" && entry.state === "half_open") entry.probes -= 1;
        call[verdict]();
      },
    };
  }

  function create([destination, revision]: Callee): void {
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
          transition(entry, state);
        },
      }),
      state: "closed",
      epoch: 0,
      changedAt: monotonic(),
      lastFailureAt: monotonic(),
      probes: 0,
      probedAt: -Infinity,
      lastReturn: -Infinity,
    };
    entries.set(destination, entry);
    accounts.set(account, siblings.add(entry));
    // The failure for which the breaker is made.
    permit(entry).settle("failure");
    tick ??= timers.after(windowMs / BUCKETS, rotate);
  }

  function transition(entry: Entry, state: CircuitState): void {
    metrics.circuitTransitions.inc({ state });
    count(entry.state, -1);
    count(state, 1);
    const from = entry.state;
    if (state === "closed") notClosed.delete(entry.destination);
    else notClosed.add(entry.destination);
    entry.state = state;
    entry.epoch += 1;
    entry.changedAt = monotonic();
    entry.probes = 0;
    onTransition({ destination: entry.destination, from, state });
  }

  /** One timer for all windows; it stops when there is no breaker left. */
  function rotate(): void {
    const now = monotonic();
    noneGivesWay.clear();
    for (const entry of entries.values()) {
      if (entry.state === "closed" && entry.lastFailureAt < now - windowMs) drop(entry);
      else if (awaitsProbe(entry) && waitsSince(entry) < now - ABANDONED) forget(entry);
      else entry.breaker.rotate();
    }
    tick = entries.size === 0 ? undefined : timers.after(windowMs / BUCKETS, rotate);
  }

  /** Makes room for one more breaker of the account; false when none can give way. */
  function makeRoom(account: string): boolean {
    const own = accounts.get(account);
    const full = own !== undefined && own.size >= maxPerAccount;
    if (!full && entries.size < max) return true;
    const whose = full ? account : "";
    // A search reads all entries, and the last one was in vain: not again for each failure, only after the next
    // rotation.
    if (noneGivesWay.has(whose)) return false;
    let abandoned: Entry | undefined;
    for (const entry of full ? own : entries.values()) {
      if (entry.state === "closed") {
        drop(entry);
        return true;
      }
      if (awaitsProbe(entry) && (!abandoned || waitsSince(entry) < waitsSince(abandoned)))
        abandoned = entry;
    }
    if (abandoned) forget(abandoned);
    else noneGivesWay.add(whose);
    return abandoned !== undefined;
  }

  /** Drops a breaker that may not be closed: reported as closed, because no call will ever do that. */
  function forget(entry: Entry): void {
    if (entry.state !== "closed") transition(entry, "closed");
    drop(entry);
  }

  function drop(entry: Entry): void {
    entries.delete(entry.destination);
    entry.siblings.delete(entry);
    if (entry.siblings.size === 0) accounts.delete(partsOfKey(entry.destination).account);
    entry.breaker.shutdown();
  }

  function count(state: CircuitState, change: 1 | -1): void {
    if (state !== "closed") metrics.circuits.inc({ state }, change);
  }

  return {
    admit,
    notClosed,
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

/** A destination, and the revision by which it is reached. */
type Callee = Parameters<CircuitBreakers["admit"]>;

/** Half-open, and no probe is under way. */
function awaitsProbe({ state, probes }: Entry): boolean {
  return state === "half_open" && probes === 0;
}

/** Since when a half-open circuit has let no call through. */
function waitsSince({ changedAt, probedAt }: Entry): number {
  return Math.max(changedAt, probedAt);
}

/** When the next run that is put off comes back, at `from` or later. */
function placeAmongReturning(entry: Entry, from: number): number {
  const next = entry.lastReturn + RETURN_GAP;
  entry.lastReturn = next < from || next > from + RETURN_SPREAD ? from : next;
  return entry.lastReturn;
}
