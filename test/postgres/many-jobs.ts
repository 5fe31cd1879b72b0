import type { JobSpec } from "../../src/domain/job.ts";
import { scheduleHash } from "../../src/domain/schedule.ts";
import type { Pool } from "../../src/postgres/pool.ts";

export interface SeededJob {
  uid: string;
  id: string;
  createdAt: number;
  spec: JobSpec;
  once: "armed" | "completed" | "failed" | "missed";
  last: { status: "success" | "failed"; executedAt: number } | null;
}

const DAY = 86_400_000;
const NAMES = ["Report", "Sync", "invoice run", "Überprüfung", "cleanup", "Digest", "Backup"];

/**
 * Creates jobs as of a large account, with what the controller and the workers would have written: cron jobs that fire
 * next half a year from now, paused jobs, one-time jobs that are over or were missed, and a last run for every second
 * job.
 */
export async function seedManyJobs(options: {
  pool: Pool;
  account: string;
  count: number;
  now: number;
}): Promise<SeededJob[]> {
  const { pool, account, count, now } = options;
  const made = Array.from({ length: count }, (_, index) => describeJob(index, count, now));
  const { rows } = await pool.query<{ uid: string; id: string }>(
    `insert into jobs (account, id, spec, created_at)
     select $1, id, spec, created_at from unnest($2::text[], $3::jsonb[], $4::timestamptz[]) as j(id, spec, created_at)
     returning uid, id`,
    [
      account,
      made.map(({ id }) => id),
      made.map(({ spec }) => JSON.stringify(spec)),
      made.map(({ createdAt }) => new Date(createdAt).toISOString()),
    ],
  );
  const uids = new Map(rows.map(({ uid, id }) => [id, uid]));
  const jobs = made.map((job) => ({ ...job, uid: uids.get(job.id) ?? "" }));
  await pool.query(
    `insert into job_cursors (job_uid, account, job_id, position, schedule_hash, generation, startable, once)
     select uid, $1, id, to_timestamp($2::float8 / 1000), hash, 1, true, once
       from unnest($3::uuid[], $4::text[], $5::text[], $6::text[]) as c(uid, id, hash, once)`,
    [
      account,
      now,
      jobs.map(({ uid }) => uid),
      jobs.map(({ id }) => id),
      jobs.map(({ spec }) => scheduleHash(spec)),
      jobs.map(({ once }) => once),
    ],
  );
  await pool.query(
    `insert into job_revisions (job_uid, generation, spec)
     select uid, generation, spec from jobs where account = $1`,
    [account],
  );
  const ran = jobs.flatMap((job) => (job.last === null ? [] : [{ uid: job.uid, ...job.last }]));
  await pool.query(
    `update job_cursors
        set last_execution_id = uid, last_run_id = uid, last_status = status, last_duration_ms = 12,
            last_http_status = case status when 'success' then 200 else 500 end,
            last_error_message = case status when 'failed' then 'the receiver answered 500' end,
            last_executed_at = at, last_attempt = 1, last_trigger = 'schedule', last_scheduled_at = at
       from unnest($1::uuid[], $2::text[], $3::timestamptz[]) as e(uid, status, at)
      where job_uid = uid`,
    [
      ran.map(({ uid }) => uid),
      ran.map(({ status }) => status),
      ran.map(({ executedAt }) => new Date(executedAt).toISOString()),
    ],
  );
  await pool.query("analyze jobs, job_cursors");
  return jobs;
}

function describeJob(index: number, count: number, now: number): Omit<SeededJob, "uid"> {
  const oneTime = index % 10 === 3;
  const outcome = (["failed", "missed", "completed"] as const)[Math.floor(index / 10) % 3];
  const number = String(index).padStart(5, "0");
  const status = index % 14 === 0 ? "failed" : "success";
  // Half a year ahead, so that none fires during a test.
  const month = ((new Date(now).getUTCMonth() + 6) % 12) + 1;
  return {
    id: `job-${number}`,
    createdAt: now - (count - index) * 1_000,
    spec: {
      name: `${NAMES[index % NAMES.length]} ${number}`,
      schedule: oneTime
        ? { kind: "once", at: now - DAY }
        : {
            kind: "cron",
            expression: `${index % 60} ${Math.floor(index / 60) % 24} ${1 + (index % 28)} ${month} *`,
            timeZone: index % 2 === 0 ? "UTC" : "Europe/Paris",
          },
      target:
        index % 5 === 0
          ? {
              kind: "email",
              to: `team-${index % 97}@example.com`,
              subject: "Subject",
              body: "Body",
              isHtml: false,
            }
          : {
              kind: "webhook",
              url: `http://127.0.0.1:9/hooks/${index % 89}`,
              payload: JSON.stringify({ index, text: "x".repeat(200) }),
              headers: {},
              headersFrom: [],
              timeoutSeconds: 30,
            },
      suspend: index % 10 === 7,
      startingDeadlineSeconds: null,
      deliveryDeadlineSeconds: 3_600,
      concurrencyPolicy: "Allow",
      retry: { maxRetries: 0, minBackoffSeconds: 5, maxBackoffSeconds: 3_600 },
    },
    once: oneTime && outcome ? outcome : "armed",
    // Of the missed jobs, every second one has been run since.
    last:
      index % 2 === 0 || (oneTime && (outcome !== "missed" || index % 60 > 30))
        ? { status, executedAt: now - index * 1_000 - 1 }
        : null,
  };
}
