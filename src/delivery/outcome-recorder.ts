import type { Instant } from "../domain/instant.ts";
import type { NewEmailLogEntry } from "../domain/mail.ts";
import type { Monotonic, Timers } from "../domain/ports/clock.ts";
import { LockHeld } from "../domain/ports/dependency-unavailable.ts";
import type { EmailLog } from "../domain/ports/mail.ts";
import type { ClaimedRecord, Closing, RunQueue } from "../domain/ports/run-queue.ts";
import type { Logger } from "../telemetry/logger.ts";
import { createSwarmWarning } from "../telemetry/swarm-warning.ts";
import type { LockedOut } from "./locked-records.ts";
import type { LeaseKeeper } from "./lease-keeper.ts";
import { createWriteBehind, type WriteBehind } from "./write-behind.ts";

export interface OutcomeRecorder {
  close(closing: Closing): void;
  /** Gives the claim back; also of a run that was started but never sent. */
  release(run: ClaimedRecord, notBefore?: Instant): void;
  /** Gives the claim back once nobody holds a lock on the cursor of the run's job any more. */
  releaseHeld(run: ClaimedRecord): void;
  /** No attempt is under way: no further records are worth waiting for. */
  flushSoon(): void;
  readonly emails: WriteBehind<NewEmailLogEntry>;
  /** What is not written yet, except what waits for somebody's lock. */
  readonly pending: number;
  /** What waits for somebody's lock. */
  readonly lockedOut: number;
  /** Resolves when everything has been written. */
  readonly idle: () => Promise<void>;
}

/** How long a record waits for others, in milliseconds, and for how many. */
const TOGETHER = { collectMs: 25, maxBatch: 1_000 };

/**
 * Everything that the worker writes after the fact. Nothing waits for it, and no outage loses it. What waits to be
 * written has let go of its payload: that counts as held no more (`HeldRuns.finished`), and thousands may wait.
 */
export function createOutcomeRecorder(options: {
  queue: Pick<RunQueue, "close" | "locked" | "release">;
  emailLog: Pick<EmailLog, "append" | "locked">;
  leases: Pick<LeaseKeeper, "remove">;
  timers: Timers;
  monotonic: Monotonic;
  log: Logger;
  onOutage: (error: unknown) => void;
  /** A record begins to wait for somebody's lock, or does not wait for it any more. */
  onLockedOut: (of: LockedOut, waits: boolean) => void;
  /**
   * Runs wait in the queue again, due at `since` or later. The moment may be past: the record may have waited until
   * now.
   */
  onWaiting: (since: Instant) => void;
}): OutcomeRecorder {
  const { queue, emailLog, leases, timers, monotonic, log } = options;
  const { onOutage, onLockedOut, onWaiting } = options;
  const common = { timers, onOutage, ...TOGETHER };
  const warnOfLockedRuns = createSwarmWarning({
    log,
    monotonic,
    message:
      "somebody holds a lock on runs or their jobs in PostgreSQL: what became of them is recorded when it is released",
  });
  const warnOfLockedMails = createSwarmWarning({
    log,
    monotonic,
    message:
      "somebody holds a lock on an account's part of the log of mails in PostgreSQL: those of its jobs are logged when it is released",
  });

  const ofRuns = {
    ...common,
    locked: async <T extends { run: ClaimedRecord }>(
      items: readonly T[],
      options: { briefly: boolean },
    ) => {
      const ids = await queue.locked(
        items.map(({ run }) => run),
        options,
      );
      return new Set(items.filter(({ run }) => ids.has(run.id)));
    },
    lockedBy: ({ run }: { run: ClaimedRecord }) => run.jobUid,
    onLockedOut: ({ run: { account, jobUid } }: { run: ClaimedRecord }, waits: boolean) => {
      onLockedOut({ account, jobUid }, waits);
    },
    onLocked: (items: readonly { run: ClaimedRecord }[]) => {
      warnOfLockedRuns({ runs: items.length, job: items[0]?.run.jobId });
    },
  };

  function tellOfWaiting(moments: readonly (Instant | undefined)[]): void {
    const known = moments.filter((moment) => moment !== undefined);
    if (known.length > 0) onWaiting(Math.min(...known));
  }

  const closings = createWriteBehind<Closing>({
    ...ofRuns,
    write: async (items) => {
      const closed = await queue.close(items);
      for (const { run } of items) {
        leases.remove(run);
        if (!closed.has(run.id))
          log.warn(
            { run: run.id },
            "an attempt's outcome is not recorded here: its run is over, deleted or taken over by another worker",
          );
      }
      tellOfWaiting(
        items.map((closing) => (closing.next === "retry" ? closing.notBefore : undefined)),
      );
    },
    // The lease runs out, and a reaper closes the run as interrupted.
    onRefused: ({ run }, error) => {
      leases.remove(run);
      log.error({ err: error, run: run.id }, "an attempt's outcome could not be recorded");
    },
  });

  const releases = createWriteBehind<{ run: ClaimedRecord; notBefore: Instant | undefined }>({
    ...ofRuns,
    write: async (items) => {
      for (const [notBefore, group] of Map.groupBy(items, (item) => item.notBefore))
        await queue.release(
          group.map(({ run }) => run),
          notBefore,
        );
      for (const { run } of items) leases.remove(run);
      tellOfWaiting(items.map(({ notBefore }) => notBefore));
    },
    // The lease runs out: a reaper gives the run back, or closes it if it was started.
    onRefused: ({ run }, error) => {
      leases.remove(run);
      log.error({ err: error, run: run.id }, "a claim could not be given back");
    },
  });

  const emails = createWriteBehind<NewEmailLogEntry>({
    ...common,
    // The log commits together all entries that are appended at the same time.
    write: async (items) => {
      const results = await Promise.allSettled(items.map((item) => emailLog.append(item)));
      const failure = results.find((result) => result.status === "rejected");
      if (failure) throw failure.reason;
    },
    locked: async (items, options) => {
      const accounts = await emailLog.locked(items, options);
      return new Set(items.filter(({ account }) => accounts.has(account)));
    },
    lockedBy: ({ account }) => account,
    onLockedOut: ({ account }, waits) => {
      onLockedOut({ account, jobUid: undefined }, waits);
    },
    onLocked: (items) => {
      warnOfLockedMails({ mails: items.length, account: items[0]?.account });
    },
    // A lock on the log does not keep leases from being renewed. So it is no outage, which would keep this worker from
    // looking for dead ones.
    onOutage: (error) => {
      if (error instanceof LockHeld)
        log.warn(
          { mails: emails.pending },
          "somebody holds a lock on the log of mails in PostgreSQL: those of jobs are logged when it is released",
        );
      else onOutage(error);
    },
    onRefused: (_item, error) => {
      log.error({ err: error }, "an email job could not be logged");
    },
  });

  const all = [closings, releases, emails];
  return {
    close: (closing) => {
      closings.add({ ...closing, run: recordOf(closing.run) });
    },
    release: (run, notBefore) => {
      releases.add({
        run: recordOf(run),
        notBefore: notBefore === undefined ? undefined : coarse(notBefore),
      });
    },
    releaseHeld: (run) => {
      releases.add({ run: recordOf(run), notBefore: undefined }, true);
    },
    flushSoon: () => {
      for (const written of all) written.flushSoon();
    },
    emails,
    get pending() {
      return all.reduce((sum, { pending, lockedOut }) => sum + pending - lockedOut, 0);
    },
    get lockedOut() {
      return all.reduce((sum, { lockedOut }) => sum + lockedOut, 0);
    },
    idle: async () => {
      await Promise.all(all.map((written) => written.idle()));
    },
  };
}

/** Leaves out everything else that a claimed run has, its payload above all. */
function recordOf({
  id,
  claimToken,
  account,
  jobUid,
  jobId,
  notBefore,
}: ClaimedRecord): ClaimedRecord {
  return { id, claimToken, account, jobUid, jobId, notBefore };
}

/** Up to the next quarter of a second, so that a thousand postponed runs take a handful of statements. */
function coarse(instant: Instant): Instant {
  return Math.ceil(instant / 250) * 250;
}
