import { randomUUID } from "node:crypto";
import type { Cursor } from "../../../src/domain/cursor.ts";
import { decide } from "../../../src/domain/decide.ts";
import type { Job } from "../../../src/domain/job.ts";
import { isoUtc } from "../../../src/domain/instant.ts";
import type { Closing, RunQueue } from "../../../src/domain/ports/run-queue.ts";
import type { RunHistory } from "../../../src/domain/ports/run-history.ts";
import type { GoneJob, LedgerChange, RunLedger } from "../../../src/domain/ports/run-ledger.ts";
import { revisionOf } from "../../../src/domain/revision.ts";
import type { ClaimedRun, Execution, LastExecution, NewRun } from "../../../src/domain/run.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import { createNotifications } from "../../../src/postgres/notifications.ts";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { createRunHistory } from "../../../src/postgres/run-history.ts";
import { createRunLedger } from "../../../src/postgres/run-ledger.ts";
import { createRunQueue } from "../../../src/postgres/run-queue.ts";
import { cronSpec } from "../../conformance/job-store.ts";
import { aroundQueries } from "../../postgres/around-queries.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";
import { openTransaction, type OpenTransaction } from "../../postgres/open-transaction.ts";
import { unfinishedRuns, type StoredRun } from "../../postgres/unfinished-runs.ts";

export interface RunsFixture {
  url: string;
  pool: Pool;
  ledger: RunLedger;
  queue: RunQueue;
  history: RunHistory;
  /** A queue with connections of its own, as in another process. */
  anotherQueue(pool?: Pool): RunQueue;
  anotherLedger(): RunLedger;
  /** Applies this change to the job as its cursor is now; by default one that arms the job. */
  apply(of: Job, options?: ChangeOptions): ReturnType<RunLedger["apply"]>;
  /** Cancels the jobs as one account's deletion of them. */
  cancel(jobs: readonly GoneJob[]): Promise<void>;
  /** How many fire times its queues refused to start because their deadline had passed. */
  readonly pastDeadline: number;
  /** The job's unfinished runs. */
  runsOf(of: Job): Promise<readonly StoredRun[]>;
  /** The job's attempts, newest first. */
  executionsOf(of: Job): Promise<Execution[]>;
  /** What is recorded about fire times that the job missed, in the order of recording. */
  missedOf(of: Job): Promise<{ reason: string; count: number }[]>;
  close(): Promise<void>;
}

/** On a new database, or on a given one. */
export async function runsFixture(
  given?: Pick<TestDatabase, "url" | "drop">,
): Promise<RunsFixture> {
  const database = given ?? (await createTestDatabase());
  const { url } = database;
  const ends: (() => Promise<void>)[] = [];
  let pastDeadline = 0;
  const pools = (max: number) => {
    const pool = createPool({ url, applicationName: "test", max, plans: "fixed" });
    ends.push(() => pool.end());
    return pool;
  };
  const anotherQueue = (own?: Pool) => {
    const notifications = createNotifications({ url, applicationName: "test" });
    ends.push(() => notifications.close());
    return createRunQueue({
      pool: own ?? pools(4),
      leasePool: pools(1),
      notifications,
      random: () => 0.5,
      onPastDeadline: (count) => {
        pastDeadline += count;
      },
    });
  };
  const pool = pools(10);
  const ledger = createRunLedger({ pool });
  const history = createRunHistory({ pool });
  return {
    url,
    pool,
    ledger,
    history,
    queue: anotherQueue(),
    anotherQueue,
    get pastDeadline() {
      return pastDeadline;
    },
    anotherLedger: () => createRunLedger({ pool: pools(4) }),
    apply: (of, options) => applyTo(ledger, of, options),
    cancel: (jobs) => ledger.cancel(jobs, "an account"),
    runsOf: ({ uid }) => unfinishedRuns(pool, uid),
    executionsOf: ({ account, id }) =>
      history.executions({ account: account ?? "", jobId: id, limit: 1_000, offset: 0 }),
    missedOf: async ({ uid }) => {
      const { rows } = await pool.query<{ reason: string; count: number }>(
        "select reason, count from missed_spans where job_uid = $1 order by recorded_at",
        [uid],
      );
      return rows;
    },
    close: async () => {
      for (const end of ends.toReversed()) await end();
      await database.drop();
    },
  };
}

/** The pool, and how much the largest of its results had in it, in characters of JSON. */
export function measured(pool: Pool): { pool: Pool; most: () => number } {
  let most = 0;
  return {
    pool: aroundQueries(pool, async (ask) => {
      const result = await ask();
      most = Math.max(most, JSON.stringify(result.rows).length);
      return result;
    }),
    most: () => most,
  };
}

export function job(change: Partial<Job> = {}): Job {
  return {
    uid: randomUUID(),
    account: randomUUID(),
    id: `job-${randomUUID().slice(0, 8)}`,
    generation: 1,
    version: "1",
    createdAt: Date.now() - 60_000,
    spec: cronSpec(),
    owner: null,
    runNow: null,
    ...change,
  };
}

export const spec = cronSpec;

export function scheduled(at: number): NewRun {
  return { trigger: "schedule", key: isoUtc(at), scheduledAt: at };
}

type ChangeOptions = Partial<Omit<LedgerChange, "job" | "to">> & {
  to?: Partial<LedgerChange["to"]>;
};

/** A change of the ledger; by default one that arms the job. */
export function change(of: Job, options: ChangeOptions = {}): LedgerChange {
  const { to, ...rest } = options;
  return {
    job: of,
    spec: of.spec,
    from: undefined,
    create: [],
    replace: [],
    missed: [],
    ...rest,
    to: {
      account: of.account,
      position: Date.now(),
      scheduleHash: "h",
      generation: of.generation,
      revision: revisionOf(of),
      startable: true,
      once: "armed",
      haltedGeneration: null,
      haltedAt: null,
      lastRunNow: null,
      deleted: false,
      ...to,
    },
  };
}

export async function applyTo(ledger: RunLedger, of: Job, options: ChangeOptions = {}) {
  const from = (await ledger.cursors([of.uid])).get(of.uid);
  return ledger.apply([change(of, { from, ...options })]);
}

export async function cursorOf(ledger: RunLedger, of: Job): Promise<Cursor> {
  const cursor = (await ledger.cursors([of.uid])).get(of.uid);
  if (cursor === undefined) throw new Error(`no cursor of ${of.id}`);
  return cursor;
}

/** What the leader would decide for the job with its present cursor and runs; undefined: no change. Times in ms. */
export async function decisionOf(
  ledger: RunLedger,
  of: Job,
  options: { now?: number; ahead?: number; storeWins?: boolean } = {},
): Promise<LedgerChange | undefined> {
  const { now = Date.now(), ahead = 0, storeWins = false } = options;
  const from = (await ledger.cursors([of.uid])).get(of.uid);
  const { to, create, replace, missed, changed } = decide({
    job: of,
    revision: revisionOf(of),
    timing: timingOf(of.spec),
    cursor: from,
    unfinished: (await ledger.unfinished([of.uid])).get(of.uid) ?? [],
    now,
    horizon: now + ahead,
    storeWins,
  });
  return changed ? { job: of, spec: of.spec, from, to, create, replace, missed } : undefined;
}

interface RunOptions {
  at?: number;
  leaseMs?: number;
  worker?: string;
  once?: Cursor["once"];
}

/** Creates the job's cursor and one due run, and claims it. */
export async function claimed(
  { ledger, queue }: Pick<RunsFixture, "ledger" | "queue">,
  of: Job,
  options: RunOptions = {},
): Promise<ClaimedRun> {
  const { at = Date.now() - 1_000, once = "armed" } = options;
  await applyTo(ledger, of, { create: [scheduled(at)], to: { once } });
  return claimOne(queue, of, options);
}

/** The same, and starts the run. */
export async function startedRun(
  fixture: Pick<RunsFixture, "ledger" | "queue">,
  of: Job,
  options?: RunOptions,
): Promise<ClaimedRun> {
  return started(fixture.queue, await claimed(fixture, of, options));
}

/** Claims the only run that waits, which must be the job's, and starts it. */
export async function startOne(queue: RunQueue, of: Job): Promise<ClaimedRun> {
  return started(queue, await claimOne(queue, of));
}

async function started(queue: RunQueue, run: ClaimedRun): Promise<ClaimedRun> {
  const ids = await queue.start([run]);
  if (!ids.has(run.id)) throw new Error(`the run of ${run.jobId} did not start`);
  return run;
}

/** Makes the job's runs due: one millisecond ago, because the column may round the present time up. */
export async function fallDue({ pool }: Pick<RunsFixture, "pool">, of: Job): Promise<void> {
  await pool.query(
    `update runs set not_before = least(not_before, now() - interval '1 millisecond')
      where job_uid = $1`,
    [of.uid],
  );
}

/** Locks the rows of the job's runs, until the transaction is ended or the test is over. */
export async function lockedRunsOf(
  { pool }: Pick<RunsFixture, "pool">,
  of: Job,
): Promise<OpenTransaction> {
  return openTransaction(pool, "select from runs where job_uid = $1 for update", [of.uid]);
}

/** Makes the lease of a claimed run run out a second ago, as of a worker that is dead or stalled. */
export async function expireLease(
  { pool }: Pick<RunsFixture, "pool">,
  { id }: Pick<ClaimedRun, "id">,
): Promise<void> {
  await pool.query("update runs set lease_until = now() - interval '1 second' where id = $1", [id]);
}

/** Claims the only run that waits, which must be the job's. */
export async function claimOne(
  queue: RunQueue,
  of: Job,
  options: { leaseMs?: number; worker?: string } = {},
): Promise<ClaimedRun> {
  const runs = await queue.claim({
    worker: options.worker ?? "w1",
    limit: 100,
    until: Date.now() + 3_600_000,
    leaseMs: options.leaseMs ?? 30_000,
  });
  const run = runs.find((candidate) => candidate.jobUid === of.uid);
  if (run === undefined || runs.length !== 1)
    throw new Error(`expected one run of ${of.id}, claimed ${runs.length}`);
  return run;
}

export function success(run: ClaimedRun, executedAt = Date.now()): Closing {
  return {
    run,
    next: "finished",
    execution: {
      status: "success",
      httpStatus: 200,
      durationMs: 12,
      errorMessage: null,
      executedAt,
    },
  };
}

export function failure(run: ClaimedRun, next: "finished" | "halted" = "finished"): Closing {
  return {
    run,
    next,
    execution: {
      status: "failed",
      httpStatus: 410,
      durationMs: 3,
      errorMessage: "no",
      executedAt: Date.now(),
    },
  };
}

export function retry(run: ClaimedRun, notBefore: number): Closing {
  return {
    run,
    next: "retry",
    notBefore,
    execution: {
      status: "failed",
      httpStatus: 503,
      durationMs: 3,
      errorMessage: "later",
      executedAt: Date.now(),
    },
  };
}

/** An execution as a job's last one is told. */
export function asLast(execution: Execution | undefined): LastExecution | undefined {
  const last: Partial<Execution> = { ...execution };
  delete last.jobId;
  delete last.jobUid;
  return execution && (last as LastExecution);
}
