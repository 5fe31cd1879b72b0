import { randomUUID } from "node:crypto";
import { isoUtc } from "../src/domain/instant.ts";
import type { Clock } from "../src/domain/ports/clock.ts";
import type { ClaimedRun } from "../src/domain/run.ts";
import { byKey } from "../src/postgres/by-key.ts";
import type { Pool } from "../src/postgres/pool.ts";
import { specOf } from "./due-runs.ts";
import { createLocalWebhook, SIGNING_SECRET } from "./local-webhook.ts";

/** As many as a worker's: what is started and not under way is lost with the process. */
const SLOTS = 160;
const CLOSE_EVERY_MS = 25;

/**
 * The least that a queue can do which keeps what ours promises of a webhook: its start is committed before the first byte,
 * nothing is started that has no slot, it is signed and goes through the guard by our client, a run that is over is deleted,
 * its execution is in an indexed history and beside its job. Nothing is renewed, judged, paused, replaced, limited, counted,
 * retried or taken over; there is no circuit, and what is sent stands in the run's own row.
 */
export async function benchPromisedQueue(options: {
  /** With fixed plans, as a worker's. */
  pool: Pool;
  url: string;
  count: number;
}): Promise<number> {
  const { pool, url, count } = options;
  const account = randomUUID();
  await pool.query(`create table if not exists promised_queue (
      id uuid primary key default uuidv7(), due_at timestamptz(3) not null, job_uid uuid not null, url text not null,
      payload text not null, claim_token uuid, started_at timestamptz(3)) with (fillfactor = 50);
    create index if not exists promised_queue_due on promised_queue (due_at);
    create table if not exists promised_jobs (
      job_uid uuid primary key, last_id uuid, last_status text, last_http_status integer, last_duration_ms integer,
      last_error text, last_executed_at timestamptz(3)) with (fillfactor = 50);
    create table if not exists promised_history (
      id uuid not null, run_id uuid not null, account uuid not null, job_id text not null, job_uid uuid not null,
      generation integer not null, trigger text not null, scheduled_at timestamptz(3) not null, attempt integer not null,
      status text not null, http_status integer, duration_ms integer not null, error_message text,
      executed_at timestamptz(3) not null);
    create index if not exists promised_history_of_job on promised_history (account, job_id, executed_at desc, id desc)`);
  await pool.query(
    `with made as (
       insert into promised_jobs (job_uid) select gen_random_uuid() from generate_series(1, $1::int) returning job_uid
     ) insert into promised_queue (due_at, job_uid, url, payload) select now(), job_uid, $2, '{"hello":"world"}' from made`,
    [count, url],
  );

  const clock: Clock = { known: true, now: Date.now };
  const { webhook } = createLocalWebhook({ clock });
  const { signal } = new AbortController();
  const failed = Promise.withResolvers<never>();
  const done = Promise.withResolvers<void>();

  const begun = performance.now();
  let free = SLOTS;
  let claiming = false;
  let closing = false;
  let closed = 0;
  let outcomes: Outcome[] = [];

  async function claim(): Promise<void> {
    if (claiming || free < SLOTS / 2) return;
    claiming = true;
    const token = randomUUID();
    const { rows } = await pool.query<ClaimedRow>({
      name: "promised_claim",
      text: `with due as materialized (
          select ctid from promised_queue where claim_token is null and due_at <= now()
           order by due_at limit $1 for update skip locked
        ) update promised_queue set claim_token = $2, started_at = clock_timestamp()
           where ctid = any(array(select ctid from due)) returning id, job_uid, due_at, url, payload`,
      values: [free, token],
    });
    claiming = false;
    free -= rows.length;
    for (const row of rows) send(runOf(row, account, token)).catch(failed.reject);
  }

  async function send(run: Run): Promise<void> {
    const executedAt = clock.now();
    const outcome = await webhook.send({
      run,
      target: run.spec.target,
      signingSecrets: [SIGNING_SECRET],
      signal,
      maySend: () => true,
    });
    if (outcome.kind !== "delivered") throw new Error(`a run was not delivered: ${outcome.kind}`);
    outcomes.push({ run, executedAt, durationMs: clock.now() - executedAt });
    free += 1;
    claim().catch(failed.reject);
  }

  async function close(): Promise<void> {
    if (closing || outcomes.length === 0) return;
    closing = true;
    const batch = outcomes.toSorted((a, b) => (a.run.id < b.run.id ? -1 : 1));
    outcomes = [];
    const column = (of: (outcome: Outcome) => string | number) => `{${batch.map(of).join(",")}}`;
    const { rows } = await pool.query<{ closed: number }>({
      name: "promised_close",
      text: `with over as (
          delete from promised_queue q
           using unnest($1::uuid[], $2::uuid[], $3::int[], $4::timestamptz[]) as i(id, token, duration_ms, executed_at)
           where ${byKey("q.id", "i.id")} and q.claim_token = i.token
          returning uuidv7() as id, q.id as run_id, q.job_uid, q.due_at, i.duration_ms, i.executed_at
        ), executed as (
          insert into promised_history (id, run_id, account, job_id, job_uid, generation, trigger, scheduled_at, attempt,
                                        status, http_status, duration_ms, executed_at)
          select id, run_id, $5::uuid, 'job-' || job_uid, job_uid, 1, 'schedule', due_at, 1,
                 'success', 200, duration_ms, executed_at from over
        ), remembered as (
          update promised_jobs j
             set last_id = over.id, last_status = 'success', last_http_status = 200,
                 last_duration_ms = over.duration_ms, last_executed_at = over.executed_at
            from over where ${byKey("j.job_uid", "over.job_uid")}
        ) select count(*)::int as closed from over`,
      values: [
        column(({ run }) => run.id),
        column(({ run }) => run.claimToken),
        column(({ durationMs }) => Math.round(durationMs)),
        column(({ executedAt }) => isoUtc(executedAt)),
        account,
      ],
    });
    closing = false;
    closed += rows[0]?.closed ?? 0;
    if (closed === count) done.resolve();
  }

  const every = setInterval(() => {
    close().catch(failed.reject);
  }, CLOSE_EVERY_MS);
  try {
    claim().catch(failed.reject);
    await Promise.race([done.promise, failed.promise]);
    return count / ((performance.now() - begun) / 1_000);
  } finally {
    clearInterval(every);
    await webhook.close();
  }
}

type Run = ReturnType<typeof runOf>;

interface ClaimedRow {
  id: string;
  job_uid: string;
  due_at: number;
  url: string;
  payload: string;
}

interface Outcome {
  run: Run;
  executedAt: number;
  durationMs: number;
}

/** What our client is given. */
function runOf(row: ClaimedRow, account: string, claimToken: string) {
  const { id, job_uid: jobUid, due_at: dueAt, url, payload } = row;
  return {
    id,
    claimToken,
    account,
    jobUid,
    jobId: `job-${jobUid}`,
    generation: 1,
    trigger: "schedule",
    scheduledAt: dueAt,
    notBefore: dueAt,
    createdAt: dueAt,
    attempt: 1,
    retryAt: null,
    started: true,
    destination: "",
    spec: specOf({ url, payload, at: dueAt }),
  } satisfies ClaimedRun;
}
