import type { Cursor } from "../domain/cursor.ts";
import { timingOf } from "../domain/timing.ts";
import { isoUtc, isoUtcOrNull, type Instant } from "../domain/instant.ts";
import type { Job } from "../domain/job.ts";
import { isHalted, jobStatus, nextRunAt } from "../domain/job-status.ts";
import type { CircuitState } from "../domain/ports/circuits.ts";
import type { JobHistory } from "../domain/ports/run-history.ts";
import { restFields } from "../domain/rest-job.ts";
import { jsonObject, JsonText } from "./endpoint.ts";

/** A job, and what PostgreSQL knows of it. */
export interface JobView {
  job: Job;
  cursor: Cursor | undefined;
}

/** One element of `GET /jobs`: no field more than the interface has. */
export function jobSummary({ job, cursor }: JobView) {
  const fields = restFields(job.spec);
  return {
    id: job.id,
    name: fields.name,
    type: fields.type,
    schedule_type: fields.schedule_type,
    cron_expression: fields.cron_expression,
    status: jobStatus(job, cursor, timingOf(job.spec)),
    created_at: isoUtc(job.createdAt),
  };
}

/** `POST /jobs`: the summary, and `run_at`. */
export function jobCreated(view: JobView) {
  return { ...jobSummary(view), run_at: restFields(view.job.spec).run_at };
}

/** `GET /jobs/{id}`: every field; the payload byte for byte as the store has it. */
export function jobDetail(
  view: JobView & {
    history: JobHistory | undefined;
    /** Of the job's destination, or the account's mail server. */
    circuit: CircuitState;
    now: Instant;
  },
): JsonText {
  const { job, cursor, history, now } = view;
  const { webhook_payload: payload, ...fields } = restFields(job.spec);
  const next = nextRunAt(job, cursor, timingOf(job.spec), now);
  return jsonObject({
    ...jobSummary(view),
    ...fields,
    webhook_payload: payload === null ? null : new JsonText(payload),
    next_run_at: isoUtcOrNull(next),
    last_run_at: history?.last ? isoUtc(history.last.executedAt) : null,
    last_status: history?.last?.status ?? null,
    circuit: view.circuit,
    halted: isHalted(job, cursor),
  });
}
