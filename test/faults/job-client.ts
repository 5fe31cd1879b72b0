import type { Instant } from "../../src/domain/instant.ts";
import type { TakenUpWithin } from "./expectations.ts";
import type { JobPlan } from "./job-plan.ts";

export type Created =
  | { kind: "created"; jobId: string; answeredAt: Instant }
  /** Its time had passed before anybody could be reached. Nothing is expected of it. */
  | { kind: "refused" }
  /** No answer that counts: look whether it is there. */
  | { kind: "unknown" };

export type Change =
  | { kind: "move"; runAt: Instant }
  | { kind: "pause" }
  | { kind: "resume" }
  | { kind: "delete" }
  | { kind: "run" };

/** A way to make and change jobs, by a caller who repeats what got no answer. */
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

/** What every job of the suite has: time-outs and backoffs that fit into a round. */
export const PATIENCE = { timeoutSeconds: 5, minBackoffSeconds: 1, maxBackoffSeconds: 4 };
