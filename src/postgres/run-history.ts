import type { Instant } from "../domain/instant.ts";
import type { JobHistory, RunHistory } from "../domain/ports/run-history.ts";
import type { MissedReason } from "../domain/run.ts";
import type { Pool } from "./pool.ts";
import {
  CURSOR_COLUMNS,
  EXECUTION_COLUMNS,
  LAST_EXECUTION,
  cursorOf,
  executionOf,
  lastExecutionOf,
  type CursorRow,
  type ExecutionRow,
  type LastExecutionRow,
} from "./rows.ts";
import { readCursors } from "./run-ledger.ts";
import { NIL_UUID } from "./uuid.ts";

const columns = EXECUTION_COLUMNS.join(", ");
const lastExecution = Object.entries(LAST_EXECUTION)
  .map(([column, here]) => `c.${here} as ${column}`)
  .join(", ");

const FINISHED =
  "once in ('completed', 'failed', 'missed') and deleted_at is null and account is not null";

/** `RunHistory`. History is found by (account, job id) and outlives the job. */
export function createRunHistory({ pool }: { pool: Pool }): RunHistory {
  return {
    cursor: async (jobUid) => (await readCursors(pool, [jobUid])).get(jobUid),
    cursors: (jobUids) => readCursors(pool, jobUids),

    summary: async (jobUids) => {
      const { rows } = await pool.query<SummaryRow>(
        `select uid as job_uid, ${lastExecution}, c.last_success_time,
                c.last_execution_id is not null as executed,
                greatest(c.last_schedule_time, u.last_schedule_time) as last_schedule_time
           from unnest($1::uuid[]) as uid
           left join job_cursors c on c.job_uid = uid
           left join lateral (
             select max(scheduled_at) as last_schedule_time from runs
              where job_uid = uid and trigger = 'schedule' and scheduled_at <= clock_timestamp()
           ) as u on true`,
        [jobUids],
      );
      return new Map(rows.map((row) => [row.job_uid, summaryOf(row)]));
    },

    executions: async ({ account, jobId, limit, offset, status }) => {
      // Prepared by name: planning over many partitions takes longer than reading a page.
      const { rows } = await pool.query<ExecutionRow>({
        name: status === undefined ? "executions" : "executions_by_status",
        text: `select ${columns} from executions
          where account = $1 and job_id = $2 ${status === undefined ? "" : "and status = $5"}
          order by executed_at desc, id desc limit $3::int offset $4::bigint`,
        values: [account, jobId, limit, offset, ...(status === undefined ? [] : [status])],
      });
      return rows.map(executionOf);
    },

    executionsAndMissed: async ({ account, jobId, limit, offset, status }) => {
      // Each side is read in its index's order and cut before the merge: never the whole history.
      const { rows } = await pool.query<MergedRow>({
        name: status === undefined ? "executions_and_missed" : "executions_by_status_and_missed",
        text: `select 'execution' as kind, ${columns},
                null::timestamptz as first_at, null::bigint as count, null as reason, executed_at as moment
           from (select * from executions
                  where account = $1 and job_id = $2 ${status === undefined ? "" : "and status = $5"}
                  order by executed_at desc, id desc limit $3::bigint + $4::bigint) as e
         union all
         select 'missed', id, job_id, job_uid, null, null, null, null, null, null, null, null, null,
                first_at, count, reason, last_at
           from (select * from missed_spans where account = $1 and job_id = $2
                  order by last_at desc, id desc limit $3::bigint + $4::bigint) as m
         order by moment desc, id desc limit $3::bigint offset $4::bigint`,
        values: [account, jobId, limit, offset, ...(status === undefined ? [] : [status])],
      });
      return rows.map((row) =>
        row.kind === "execution"
          ? { kind: "execution" as const, ...executionOf(row) }
          : {
              kind: "missed" as const,
              id: row.id,
              first: row.first_at,
              last: row.moment,
              count: row.count,
              reason: row.reason,
            },
      );
    },

    hasTrace: async (account, jobId) => {
      const { rows } = await pool.query<{ known: boolean }>({
        name: "job_known",
        text: `select exists (select from job_cursors where account = $1 and job_id = $2)
             or exists (select from executions where account = $1 and job_id = $2)
             or exists (select from missed_spans where account = $1 and job_id = $2) as known`,
        values: [account, jobId],
      });
      return rows[0]?.known === true;
    },

    finished: async ({ before, jobIds, after, limit }) => {
      // Not prepared by name, so that it is planned by current statistics: reading the table may be quicker than
      // its index.
      const { rows } = await pool.query<{ job_uid: string }>(
        `select job_uid from job_cursors
          where ${FINISHED} and position < $1 and job_id ~ $2 and job_uid > $3
          order by job_uid limit $4`,
        [new Date(before), jobIds.source, after ?? NIL_UUID, limit],
      );
      return rows.map((row) => row.job_uid);
    },

    finishedJob: async ({ before, jobUid }) => {
      const { rows } = await pool.query<CursorRow & { account: string; job_id: string }>(
        `select job_id, ${CURSOR_COLUMNS.join(", ")} from job_cursors c
          where job_uid = $1 and ${FINISHED} and position < $2
            and (last_executed_at is null or last_executed_at < $2)
            and not exists (select from runs r where r.job_uid = c.job_uid)`,
        [jobUid, new Date(before)],
      );
      const [row] = rows;
      return row && { account: row.account, jobId: row.job_id, cursor: cursorOf(row) };
    },
  };
}

/** `executed` false: the columns of the last execution are null. */
type SummaryRow = LastExecutionRow & {
  job_uid: string;
  executed: boolean;
  last_schedule_time: Instant | null;
  last_success_time: Instant | null;
};

/** One for all jobs that have never run: there may be 100,000. */
const NO_RUNS: JobHistory = Object.freeze({
  lastScheduleTime: null,
  lastSuccessTime: null,
  last: null,
});

function summaryOf(row: SummaryRow): JobHistory {
  const { last_schedule_time: lastScheduleTime, last_success_time: lastSuccessTime } = row;
  const last = row.executed ? lastExecutionOf(row) : null;
  const isNone = lastScheduleTime === null && lastSuccessTime === null && last === null;
  return isNone ? NO_RUNS : { lastScheduleTime, lastSuccessTime, last };
}

type MergedRow =
  | ({ kind: "execution" } & ExecutionRow)
  | {
      kind: "missed";
      id: string;
      first_at: Instant;
      count: number;
      reason: MissedReason;
      /** The span's last fire time. */
      moment: Instant;
    };
