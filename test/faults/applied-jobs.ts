import { setTimeout as delay } from "node:timers/promises";
import { isoUtc } from "../../src/domain/instant.ts";
import type { Clock } from "../../src/domain/ports/clock.ts";
import { DependencyUnavailable } from "../../src/domain/ports/dependency-unavailable.ts";
import {
  ApiError,
  isAlreadyExists,
  isConflict,
  isNotFound,
} from "../../src/kubernetes/api-error.ts";
import type { ApiCall, KubernetesClient } from "../../src/kubernetes/client.ts";
import {
  API_VERSION,
  KIND,
  PLURAL,
  RUN_NOW_ANNOTATION,
} from "../../src/kubernetes/scheduled-job.ts";
import { BY_RESOURCE } from "./expectations.ts";
import { PATIENCE, type Change, type JobClient } from "./job-client.ts";

const TRY_MS = 5_000;
const PAUSE_MS = 250;

/** Creates and changes jobs as kubectl does: through the API server alone, past the gateway. */
export function createAppliedJobs(options: {
  client: KubernetesClient;
  namespace: string;
  clock: Clock;
  /** It gives up when this aborts. */
  signal: AbortSignal;
}): JobClient {
  const { client, namespace, clock, signal } = options;
  const collection = `/apis/carillon.dev/v1/namespaces/${namespace}/${PLURAL}`;

  /**
   * Repeats a call until it succeeds, or fails with an error that says that an earlier try succeeded. Returns when;
   * null when it has given up.
   */
  async function callUntilDone(
    call: Omit<ApiCall, "resource">,
    isDone: (error: unknown) => boolean,
  ): Promise<number | null> {
    while (!signal.aborted) {
      try {
        await client.call({ ...call, resource: PLURAL, timeoutMs: TRY_MS });
        return clock.now();
      } catch (error) {
        if (isDone(error)) return clock.now();
        if (!isTemporary(error)) throw error;
      }
      await delay(PAUSE_MS);
    }
    return null;
  }

  return {
    takenUpWithin: BY_RESOURCE,
    create: async ({ plan, schedule, receiverUrl }) => {
      const jobId = plan.name.replaceAll(" ", "-");
      const answeredAt = await callUntilDone(
        {
          verb: "create",
          path: collection,
          query: { fieldManager: "kubectl", fieldValidation: "Strict" },
          body: {
            apiVersion: API_VERSION,
            kind: KIND,
            metadata: { name: jobId, namespace },
            spec: {
              displayName: plan.name,
              schedule:
                schedule.kind === "once"
                  ? { at: isoUtc(schedule.runAt) }
                  : { cron: schedule.expression },
              webhook: {
                url: receiverUrl,
                payload: { name: plan.name },
                timeoutSeconds: PATIENCE.timeoutSeconds,
              },
              concurrencyPolicy: plan.concurrencyPolicy,
              deliveryDeadlineSeconds: plan.deliveryDeadlineSeconds,
              retry: {
                maxRetries: plan.maxRetries,
                minBackoffSeconds: PATIENCE.minBackoffSeconds,
                maxBackoffSeconds: PATIENCE.maxBackoffSeconds,
              },
            },
          },
        },
        isAlreadyExists,
      );
      return answeredAt === null ? { kind: "unknown" } : { kind: "created", jobId, answeredAt };
    },
    change: async (jobId, change) => {
      const path = `${collection}/${jobId}`;
      if (change.kind === "delete") return callUntilDone({ verb: "delete", path }, isNotFound);
      return callUntilDone({ verb: "patch", path, body: mergePatch(change) }, () => false);
    },
  };
}

function mergePatch(change: Exclude<Change, { kind: "delete" }>): unknown {
  switch (change.kind) {
    case "move":
      return { spec: { schedule: { at: isoUtc(change.runAt) } } };
    case "pause":
    case "resume":
      return { spec: { suspend: change.kind === "pause" } };
    case "run":
      break;
  }
  return { metadata: { annotations: { [RUN_NOW_ANNOTATION]: "by-hand" } } };
}

/** Another try may succeed: the API server is down or not ready, or somebody else wrote in between. */
function isTemporary(error: unknown): boolean {
  if (error instanceof DependencyUnavailable || isConflict(error)) return true;
  return error instanceof ApiError && (error.code >= 500 || error.code === 429);
}
