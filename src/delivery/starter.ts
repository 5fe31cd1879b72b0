import { SECOND, type Instant } from "../domain/instant.ts";
import type { Clock, Monotonic, Timers } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-down.ts";
import type { RunQueue } from "../domain/ports/run-queue.ts";
import type { ClaimedRun } from "../domain/run.ts";
import type { Logger } from "../telemetry/logger.ts";
import { createSwarmWarning } from "../telemetry/swarm-warning.ts";
import { within } from "../waiting/within.ts";
import type { CircuitBreakers } from "./circuit-breaker.ts";
import type { Flights, Ready } from "./flights.ts";
import type { HeldRuns } from "./held-runs.ts";
import type { LeaseKeeper } from "./lease-keeper.ts";
import type { Records } from "./records.ts";

export interface Starter {
  /**
   * Starts what is due at `now` and has a slot; resolves with how many runs it took from the buffer. Those whose account's
   * signing secrets take long are started when these have come.
   */
  startReady(now: Instant, signal: AbortSignal): Promise<number>;
  /**
   * Sends what its claim has started, and the held runs count as in flight, when the signing secrets are there. `asked`:
   * monotonic time before the claim was sent.
   */
  launchStarted(runs: readonly ClaimedRun[], asked: number, signal: AbortSignal): void;
  /** Resolves when all that was taken has been launched or given back. */
  idle(): Promise<void>;
}

/** What is read of an account before its webhooks, or its mails, are sent. */
interface Sender {
  signingSecrets: readonly string[];
  smtpRevision?: string | undefined;
}

/** Milliseconds that what an account sends with may take to be read; then no other account's runs wait for it. */
const PATIENCE = 100;
/**
 * Milliseconds that may lie between asking for a start and sending. What takes longer is looked at again before it is
 * sent: who has deleted its job meanwhile has had the answer that nothing of it starts any more.
 */
const LATE = 100;
const UNREADABLE = {
  webhook: "signing secrets cannot be read for now",
  email: "SMTP settings cannot be read for now",
};

/** From a claimed run to one that may be sent: what its sender sends with, breaker, `started`, lease. */
export function createStarter(options: {
  queue: Pick<RunQueue, "locked" | "start" | "unwanted">;
  clock: Clock;
  monotonic: Monotonic;
  timers: Timers;
  log: Logger;
  held: Pick<HeldRuns, "takeReady">;
  leases: Pick<LeaseKeeper, "holds">;
  records: Pick<Records, "release" | "releaseHeld">;
  breakers: Pick<CircuitBreakers, "admit">;
  flights: Pick<Flights, "launch" | "record">;
  signingKeys: (account: string) => Promise<readonly string[]>;
  /** Of the account's SMTP settings, as they are now: a circuit is theirs. */
  smtpRevision: (account: string) => Promise<string | undefined>;
  /** The slot is free again, of a run that was not launched. */
  onFinished: (run: ClaimedRun) => void;
  /** Something that nobody waits for failed; its runs are given back. */
  onOutage: (error: unknown) => void;
}): Starter {
  const { queue, clock, monotonic, log, held, leases, records, breakers, flights, onFinished } =
    options;
  const warnings = {
    webhook: createSwarmWarning({ log, monotonic, message: UNREADABLE.webhook }),
    email: createSwarmWarning({ log, monotonic, message: UNREADABLE.email }),
  };
  /** What starts apart, because of what its sender sends with. */
  const starting = new Set<Promise<void>>();

  async function startReady(now: Instant, signal: AbortSignal): Promise<number> {
    const taken = held.takeReady(now);
    if (taken.length === 0) return 0;
    // Those whose secrets come soon are started together, the others each account's when its have come.
    const soon: Ready[] = [];
    let waits = true;
    const asked = bySender(taken).map(async (theirs) => {
      const ready = await prepare(theirs);
      if (waits) soon.push(...ready);
      else await start(ready, signal);
    });
    for (const each of asked) apart(each);
    await within(PATIENCE, Promise.all(asked), options.timers);
    waits = false;
    await start(soon, signal);
    return taken.length;
  }

  function apart(work: Promise<void>): void {
    const done = work.catch(options.onOutage).finally(() => {
      starting.delete(done);
    });
    starting.add(done);
  }

  async function start(ready: readonly Ready[], signal: AbortSignal): Promise<void> {
    const asked = monotonic();
    // The commit may have come through: giving back undoes such a start.
    const started = await orGiveBack(ready, () => queue.start(ready.map(({ run }) => run)));
    apart(giveBackRefused(ready.filter(({ run }) => !started.has(run.id))));
    await launchWanted(
      ready.filter(({ run }) => started.has(run.id)),
      asked,
      signal,
    );
  }

  function launchStarted(runs: readonly ClaimedRun[], asked: number, signal: AbortSignal): void {
    for (const theirs of bySender(runs))
      apart(prepare(theirs).then((ready) => launchWanted(ready, asked, signal)));
  }

  /** Of what has been started since `asked`: what is given back is claimed again, which records why it does not run. */
  async function launchWanted(
    ready: readonly Ready[],
    asked: number,
    signal: AbortSignal,
  ): Promise<void> {
    const unwanted =
      monotonic() - asked > LATE
        ? await orGiveBack(ready, () => queue.unwanted(ready.map(({ run }) => run.id)))
        : undefined;
    for (const each of ready) {
      // Wanted by nobody any more, or with a lease that ran out meanwhile, as after an outage: giving back compares the
      // token, and touches nothing of anybody else's.
      if (unwanted?.has(each.run.id) || signal.aborted || !leases.holds(each.run)) giveBack(each);
      else flights.launch(each);
    }
  }

  /** Nothing has been sent. */
  async function orGiveBack<T>(ready: readonly Ready[], work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      for (const each of ready) giveBack(each);
      throw error;
    }
  }

  /**
   * What nobody wants any more is gone, unless somebody holds its job's cursor. Given back before that is released it would
   * be claimed, and refused, again and again.
   */
  async function giveBackRefused(refused: readonly Ready[]): Promise<void> {
    // By PostgreSQL's clock what is due now may be due in a moment: that is not to wait for anybody.
    const due = refused.flatMap(({ run }) => (run.notBefore < clock.now() - SECOND ? [run] : []));
    const locked =
      due.length > 0 ? await orGiveBack(refused, () => queue.locked(due)) : new Set<string>();
    for (const each of refused) {
      const { run } = each;
      giveBack(each, locked.has(run.id) ? () => records.releaseHeld(run) : undefined);
    }
  }

  function giveBack({ run, permit }: Ready, release = () => records.release(run)): void {
    permit.settle("neutral");
    release();
    onFinished(run);
  }

  /**
   * What could keep an attempt of one sender's from being made. It is found out before `started` is committed, or what the
   * claim has started is given back.
   */
  async function prepare(runs: readonly ClaimedRun[]): Promise<Ready[]> {
    const sender = await senderOf(runs[0]);
    return runs.flatMap((run) => {
      if (sender === undefined) {
        records.release(run, clock.now() + SECOND);
        onFinished(run);
        return [];
      }
      const { signingSecrets, smtpRevision } = sender;
      const admission = breakers.admit(run.destination, smtpRevision);
      if (admission.kind === "admitted") return [{ run, permit: admission.permit, signingSecrets }];
      flights.record({
        run,
        outcome: { kind: "postponed", until: admission.until },
        aborted: null,
        executedAt: clock.now(),
        durationMs: 0,
      });
      onFinished(run);
      return [];
    });
  }

  /** Undefined when that cannot be read for now. */
  async function senderOf(run: ClaimedRun | undefined): Promise<Sender | undefined> {
    if (run === undefined) return undefined;
    const { account } = run;
    const { kind } = run.spec.target;
    try {
      return kind === "webhook"
        ? { signingSecrets: await options.signingKeys(account) }
        : { signingSecrets: [], smtpRevision: await options.smtpRevision(account) };
    } catch (error) {
      if (error instanceof DependencyUnavailable) warnings[kind](error, { account });
      else log.warn({ err: error, account }, UNREADABLE[kind]);
      return undefined;
    }
  }

  return {
    startReady,
    launchStarted,
    idle: async () => {
      while (starting.size > 0) await Promise.allSettled(starting);
    },
  };
}

/** The webhooks of an account, and its mails. What one is sent with is waited for by no other. */
function bySender(runs: readonly ClaimedRun[]): ClaimedRun[][] {
  return [...Map.groupBy(runs, (run) => `${run.spec.target.kind} ${run.account}`).values()];
}
