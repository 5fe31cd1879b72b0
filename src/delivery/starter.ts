import { SECOND, type Instant } from "../domain/instant.ts";
import type { Clock, Monotonic, Timers } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { RunQueue } from "../domain/ports/run-queue.ts";
import type { ClaimedRun } from "../domain/run.ts";
import type { Logger } from "../telemetry/logger.ts";
import { createSwarmWarning } from "../telemetry/swarm-warning.ts";
import { within } from "../waiting/within.ts";
import type { CircuitBreakers } from "./circuit-breakers.ts";
import type { AttemptRunner, ReadyRun } from "./attempt-runner.ts";
import type { HeldRuns } from "./held-runs.ts";
import type { LeaseKeeper } from "./lease-keeper.ts";
import type { OutcomeRecorder } from "./outcome-recorder.ts";

export interface Starter {
  /**
   * Starts what is due at `now` and has a slot; resolves with how many runs it took from `held`. Runs whose sender
   * is read slowly are started later, when it has been read.
   */
  startReady(now: Instant, signal: AbortSignal): Promise<number>;
  /**
   * Sends runs that their claim has started, and that `held` counts as in flight, as soon as their sender has been
   * read. `asked`: monotonic time before the claim was sent.
   */
  launchStarted(runs: readonly ClaimedRun[], asked: number, signal: AbortSignal): void;
  /** Resolves when all that was taken has been launched or given back. */
  idle(): Promise<void>;
}

/** What must be read of an account before its webhooks, or its mails, are sent. */
interface Sender {
  signingSecrets: readonly string[];
  smtpRevision?: string | undefined;
}

/** Milliseconds for which the runs of one sender wait for another sender to be read. */
const PATIENCE = 100;
/**
 * Milliseconds between asking for a start and sending, after which the run is checked again: whoever deleted its job
 * meanwhile was told that none of its runs starts any more.
 */
const LATE = 100;
const SENDER_UNREAD = {
  webhook: "signing secrets cannot be read for now",
  email: "SMTP settings cannot be read for now",
};

/**
 * From a claimed run to one that may be sent: reads its sender, asks the breaker, commits `started`, checks the
 * lease.
 */
export function createStarter(options: {
  queue: Pick<RunQueue, "locked" | "start" | "unwanted">;
  clock: Clock;
  monotonic: Monotonic;
  timers: Timers;
  log: Logger;
  held: Pick<HeldRuns, "takeReady">;
  leases: Pick<LeaseKeeper, "holds">;
  recorder: Pick<OutcomeRecorder, "release" | "releaseHeld">;
  breakers: Pick<CircuitBreakers, "admit">;
  runner: Pick<AttemptRunner, "launch" | "record">;
  signingKeys: (account: string) => Promise<readonly string[]>;
  /** Revision of the account's current SMTP settings, to which a mail server's circuit belongs. */
  smtpRevision: (account: string) => Promise<string | undefined>;
  /** The run was not launched: its slot is free again. */
  onFinished: (run: ClaimedRun) => void;
  /** Work in the background failed; its runs are given back. */
  onOutage: (error: unknown) => void;
}): Starter {
  const { queue, clock, monotonic, log, held, leases, recorder, breakers, runner, onFinished } =
    options;
  const warnings = {
    webhook: createSwarmWarning({ log, monotonic, message: SENDER_UNREAD.webhook }),
    email: createSwarmWarning({ log, monotonic, message: SENDER_UNREAD.email }),
  };
  const background = new Set<Promise<void>>();

  async function startReady(now: Instant, signal: AbortSignal): Promise<number> {
    const taken = held.takeReady(now);
    if (taken.length === 0) return 0;
    // Runs of senders that are read soon are started together, those of each slow sender by themselves.
    const together: ReadyRun[] = [];
    let collecting = true;
    const prepared = bySender(taken).map(async (theirs) => {
      const ready = await prepare(theirs);
      if (collecting) together.push(...ready);
      else await start(ready, signal);
    });
    for (const each of prepared) inBackground(each);
    await within(PATIENCE, Promise.all(prepared), options.timers);
    collecting = false;
    await start(together, signal);
    return taken.length;
  }

  /** Only `idle` waits for it. */
  function inBackground(work: Promise<void>): void {
    const done = work.catch(options.onOutage).finally(() => {
      background.delete(done);
    });
    background.add(done);
  }

  async function start(ready: readonly ReadyRun[], signal: AbortSignal): Promise<void> {
    const asked = monotonic();
    // A start that fails may have been committed all the same: giving back undoes it.
    const started = await orGiveBack(ready, () => queue.start(ready.map(({ run }) => run)));
    inBackground(giveBackRefused(ready.filter(({ run }) => !started.has(run.id))));
    await launchWanted(
      ready.filter(({ run }) => started.has(run.id)),
      asked,
      signal,
    );
  }

  function launchStarted(runs: readonly ClaimedRun[], asked: number, signal: AbortSignal): void {
    for (const theirs of bySender(runs))
      inBackground(prepare(theirs).then((ready) => launchWanted(ready, asked, signal)));
  }

  /**
   * Launches runs whose start was asked for at `asked`. The next claim of one that is given back records why it
   * cannot run.
   */
  async function launchWanted(
    ready: readonly ReadyRun[],
    asked: number,
    signal: AbortSignal,
  ): Promise<void> {
    const unwanted =
      monotonic() - asked > LATE
        ? await orGiveBack(ready, () => queue.unwanted(ready.map(({ run }) => run.id)))
        : undefined;
    for (const each of ready) {
      // A lease may have run out meanwhile, as after an outage. Giving back compares the token, and so leaves alone
      // a run that another worker holds.
      if (unwanted?.has(each.run.id) || signal.aborted || !leases.holds(each.run) || unsigned(each))
        giveBack(each);
      else runner.launch(each);
    }
  }

  /** Does the work, and gives the runs back if it fails: nothing of them has been sent. */
  async function orGiveBack<T>(ready: readonly ReadyRun[], work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      for (const each of ready) giveBack(each);
      throw error;
    }
  }

  /**
   * Gives back runs that did not start. Most are gone, unless somebody holds a lock on their job's cursor: given back
   * before that is released, such a run would be claimed, and refused, again and again.
   */
  async function giveBackRefused(refused: readonly ReadyRun[]): Promise<void> {
    // A run that is due by our clock may be due in a moment by PostgreSQL's: it is given back at once.
    const due = refused.flatMap(({ run }) => (run.notBefore < clock.now() - SECOND ? [run] : []));
    const locked =
      due.length > 0 ? await orGiveBack(refused, () => queue.locked(due)) : new Set<string>();
    for (const each of refused) {
      const { run } = each;
      giveBack(each, locked.has(run.id) ? () => recorder.releaseHeld(run) : undefined);
    }
  }

  function giveBack({ run, permit }: ReadyRun, release = () => recorder.release(run)): void {
    permit.settle("neutral");
    release();
    onFinished(run);
  }

  /**
   * Reads the sender of these runs and asks their breakers, before `started` is committed (unless the claim did that).
   * Returns those that may be sent; the others are given back, or put off by an open circuit.
   */
  async function prepare(runs: readonly ClaimedRun[]): Promise<ReadyRun[]> {
    const sender = await senderOf(runs[0]);
    return runs.flatMap((run) => {
      if (sender === undefined) {
        recorder.release(run, clock.now() + SECOND);
        onFinished(run);
        return [];
      }
      const { signingSecrets, smtpRevision } = sender;
      const admission = breakers.admit(run.destination, smtpRevision);
      if (admission.kind === "admitted") return [{ run, permit: admission.permit, signingSecrets }];
      runner.record({
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

  /** Undefined when it cannot be read for now. */
  async function senderOf(run: ClaimedRun | undefined): Promise<Sender | undefined> {
    if (run === undefined) return undefined;
    const { account } = run;
    const { kind } = run.spec.target;
    try {
      return kind === "webhook"
        ? { signingSecrets: await options.signingKeys(account) }
        : { signingSecrets: [], smtpRevision: await options.smtpRevision(account) };
    } catch (error) {
      const fields = { err: error, account };
      if (error instanceof DependencyUnavailable) warnings[kind](fields);
      else log.warn(fields, SENDER_UNREAD[kind]);
      return undefined;
    }
  }

  return {
    startReady,
    launchStarted,
    idle: async () => {
      while (background.size > 0) await Promise.allSettled(background);
    },
  };
}

/**
 * A webhook whose account is deleted, and has nothing to sign with. Its start refuses it, and records why, unless its
 * claim has started it before the deletion: then the next start does.
 */
function unsigned({ run, signingSecrets }: ReadyRun): boolean {
  return run.spec.target.kind === "webhook" && signingSecrets.length === 0;
}

/** An account's webhooks have one sender, its mails another. */
function bySender(runs: readonly ClaimedRun[]): ClaimedRun[][] {
  return [...Map.groupBy(runs, (run) => `${run.spec.target.kind} ${run.account}`).values()];
}
