import { isoUtc } from "../../src/domain/instant.ts";
import type { Api } from "./api.ts";
import type { TakenUpWithin } from "./expectations.ts";
import { PATIENCE, type Change, type JobClient } from "./job-client.ts";

/** Creates and changes jobs by the REST API. Names of jobs are unique, so they serve as idempotency keys. */
export function createRestJobs(options: { api: Api; takenUpWithin: TakenUpWithin }): JobClient {
  const { api, takenUpWithin } = options;
  return {
    takenUpWithin,
    create: async ({ plan, schedule, receiverUrl }) => {
      const created = await api.call({
        method: "POST",
        path: "/jobs",
        idempotencyKey: plan.name,
        body: {
          name: plan.name,
          type: "webhook",
          webhook_url: receiverUrl,
          webhook_payload: { name: plan.name },
          timeout_seconds: PATIENCE.timeoutSeconds,
          max_retries: plan.maxRetries,
          concurrency_policy: plan.concurrencyPolicy,
          min_backoff_seconds: PATIENCE.minBackoffSeconds,
          max_backoff_seconds: PATIENCE.maxBackoffSeconds,
          delivery_deadline_seconds: plan.deliveryDeadlineSeconds,
          ...(schedule.kind === "once"
            ? { schedule_type: "one_time", run_at: isoUtc(schedule.runAt) }
            : { schedule_type: "cron", cron_expression: schedule.expression }),
        },
      });
      if (created === undefined || (created.status === 400 && created.repeated))
        return { kind: "unknown" };
      if (created.status === 400) return { kind: "refused" };
      if (created.status !== 201)
        throw new Error(`POST /jobs answered ${created.status}: ${JSON.stringify(created.body)}`);
      const { id: jobId } = created.body as { id: string };
      return { kind: "created", jobId, answeredAt: created.answeredAt };
    },
    change: async (jobId, change) => {
      const { call, good } = requestOf(`/jobs/${jobId}`, change);
      const answer = await api.call(call);
      return answer !== undefined && good.includes(answer.status) ? answer.answeredAt : null;
    },
  };
}

function requestOf(
  path: string,
  change: Change,
): { call: Parameters<Api["call"]>[0]; good: readonly number[] } {
  switch (change.kind) {
    case "move":
      return {
        call: { method: "PATCH", path, body: { run_at: isoUtc(change.runAt) } },
        good: [200],
      };
    case "delete":
      // 404: an earlier try, whose answer was lost, has deleted it.
      return { call: { method: "DELETE", path }, good: [200, 404] };
    case "pause":
    case "resume":
      return { call: { method: "POST", path: `${path}/${change.kind}` }, good: [200] };
    case "run":
      break;
  }
  // The same key for every try, so that a second try does not create a second run.
  const call = { method: "POST", path: `${path}/run`, idempotencyKey: "by-hand" };
  return { call, good: [202] };
}
