import { isoUtc } from "../../domain/instant.ts";
import { JobNotFound, type JobStore } from "../../domain/ports/job-store.ts";
import type { RunHistory } from "../../domain/ports/run-history.ts";
import type { Execution, MissedSpan } from "../../domain/run.ts";
import type { ApiAnswer, ApiRequest } from "../endpoint.ts";
import { canBeJobId } from "../job-id.ts";
import type { ExecutionsQuery } from "../schema/jobs.ts";

export function executionRoutes(options: { jobs: JobStore; history: RunHistory }) {
  const { jobs, history } = options;
  return {
    async listExecutions(request: ApiRequest<undefined, ExecutionsQuery>): Promise<ApiAnswer> {
      const { account, params, query } = request;
      const jobId = params["id"] ?? "";
      if (!canBeJobId(jobId)) throw new JobNotFound(jobId);
      const found = await page(account, jobId, query);
      // History is enough: it outlives its job.
      if (found.length === 0 && !(await known(account, jobId))) throw new JobNotFound(jobId);
      return { status: 200, body: found };
    },
  };

  async function page(account: string, jobId: string, query: ExecutionsQuery): Promise<object[]> {
    const { limit, offset, status, include } = query;
    const asked = { account, jobId, limit, offset, status };
    if (include !== "missed") return (await history.executions(asked)).map(restExecution);
    const entries = await history.executionsAndMissed(asked);
    return entries.map((entry) =>
      entry.kind === "missed"
        ? restMissed(jobId, entry)
        : { ...restExecution(entry), kind: "execution" },
    );
  }

  async function known(account: string, jobId: string): Promise<boolean> {
    return (await jobs.get(account, jobId)) !== undefined || history.hasTrace(account, jobId);
  }
}

function restExecution(execution: Execution) {
  return {
    id: execution.id,
    job_id: execution.jobId,
    status: execution.status,
    http_status: execution.httpStatus,
    duration_ms: execution.durationMs,
    error_message: execution.errorMessage,
    executed_at: isoUtc(execution.executedAt),
    attempt: execution.attempt,
    trigger: execution.trigger,
    scheduled_at: isoUtc(execution.scheduledAt),
  };
}

function restMissed(jobId: string, span: MissedSpan & { id: string }) {
  return {
    id: span.id,
    kind: "missed",
    job_id: jobId,
    reason: span.reason,
    count: span.count,
    first_scheduled_at: isoUtc(span.first),
    last_scheduled_at: isoUtc(span.last),
  };
}
