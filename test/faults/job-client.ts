import type { Instant } from "../../src/domain/instant.ts";
import type { TakenUpWithin } from "./expectations.ts";
import type { JobPlan } from "./job-plan.ts";

export type Created =
  | { kind: "created"; jobId: string; answeredAt: Instant }
  /** Its time had passed before the gateway could be reached. Nothing is expected of it. */
  | { kind: "refused" }
  /** There was no answer that says whether it was created. */
  | { kind: "unknown" };

export type Change =
  | { kind: "move"; runAt: Instant }
  | { kind: "pause" }
  | { kind: "resume" }
  | { kind: "delete" }
  | { kind: "run" };

/** Creates and changes jobs, and repeats requests that get no answer. */
export interface JobClient {
  create(job: {
    plan: Pick<JobPlan, "name" | "maxRetries" | "concurrencyPolicy" | "deliveryDeadlineSeconds">;
    schedule: { kind: "once"; runAt: Instant } | { kind: "cron"; expression: string };
    receiverUrl: string;
  }): Promise<Created>;
  /** When it was answered with success; null when nobody knows whether it was done. */
  change(jobId: string, change: Change): Promise<Instant | null>;
  readonly takenUpWithin: TakenUpWithin;
}

/** Time-out and backoffs of all jobs of the suite: short enough for a round. */
export const PATIENCE = { timeoutSeconds: 5, minBackoffSeconds: 1, maxBackoffSeconds: 4 };
