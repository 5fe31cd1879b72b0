import {
  afterAttempt,
  afterPostponement,
  type NextStep,
  type RecordedOutcome,
} from "../domain/after-attempt.ts";
import { brokenOff } from "../domain/delivery-outcome.ts";
import { errorMessage } from "../domain/error-message.ts";
import type { Instant } from "../domain/instant.ts";
import type { Random } from "../domain/ports/clock.ts";
import type { Closing } from "../domain/ports/run-queue.ts";
import type { ClaimedRun } from "../domain/run.ts";
import type { AttemptOutcome } from "./attempt.ts";
import type { Verdict } from "./breaker.ts";

/** Why the worker itself ended an attempt. */
export type AbortCause = "replaced" | "deleted" | "interrupted" | "lost";

/** An attempt that is over, as far as its worker is concerned. */
export interface FinishedAttempt {
  run: ClaimedRun;
  outcome: AttemptOutcome;
  /** Set when the worker aborted the attempt; an answer that came all the same still counts. */
  aborted: AbortCause | null;
  executedAt: Instant;
  durationMs: number;
}

/** What an attempt comes to for its run. `label` is for the metric. */
export type Conclusion =
  | { kind: "close"; closing: Closing; label: string }
  | { kind: "release"; notBefore: Instant | undefined }
  /** Another worker has the run by now: whatever we wrote would be refused. */
  | { kind: "drop" };

/** Milliseconds before a run that was not sent is tried again. */
const NOT_SENT_PAUSE = 1_000;

export function conclude(
  attempted: FinishedAttempt & { now: Instant; random: Random },
): Conclusion {
  const { run, outcome, aborted, now, random } = attempted;
  if (aborted === "lost") return { kind: "drop" };
  const unwanted = aborted === "replaced" || aborted === "deleted";
  const unknown = outcome.kind === "retryable" && !outcome.answered;
  if (unwanted && (outcome.kind === "not_sent" || unknown))
    return closeWith(
      attempted,
      brokenOff(aborted, { sent: outcome.kind !== "not_sent" }),
      aborted,
      { next: "finished" },
    );
  if (unwanted && outcome.kind === "retryable")
    return closeWith(attempted, outcome, outcome.kind, { next: "finished" });
  if (outcome.kind === "not_sent")
    return {
      kind: "release",
      notBefore: aborted === "interrupted" ? undefined : now + NOT_SENT_PAUSE,
    };
  if (outcome.kind === "postponed") {
    const after = afterPostponement({ run, outcome, now, random });
    if (after.next === "postponed") return { kind: "release", notBefore: after.notBefore };
    const { httpStatus, error } = after;
    const expired: RecordedOutcome = { kind: "permanent", httpStatus, error };
    return closeWith(attempted, expired, "circuit_open", { next: "finished" });
  }
  const cutOff = aborted === "interrupted" && unknown;
  const effective = cutOff ? brokenOff(aborted) : outcome;
  const after = afterAttempt({ run, outcome: effective, now, random });
  return closeWith(attempted, effective, cutOff ? aborted : effective.kind, after);
}

function closeWith(
  { run, executedAt, durationMs }: FinishedAttempt,
  outcome: RecordedOutcome,
  label: string,
  next: NextStep,
): Conclusion {
  const delivered = outcome.kind === "delivered";
  const execution = {
    status: delivered ? ("success" as const) : ("failed" as const),
    httpStatus: outcome.httpStatus,
    durationMs: Math.round(durationMs),
    errorMessage: "error" in outcome ? errorMessage(outcome.error) : null,
    executedAt,
  };
  return { kind: "close", closing: { run, execution, ...next }, label };
}

/** What an attempt says about its destination: nothing, when we ended it ourselves. */
export function verdictOf(outcome: AttemptOutcome, aborted: AbortCause | null): Verdict {
  if (outcome.kind === "not_sent" || outcome.kind === "postponed") return "neutral";
  if (outcome.kind === "delivered" || outcome.kind === "gone") return "success";
  const { destinationFault = outcome.kind === "retryable" } = outcome;
  if (destinationFault === false) return "success";
  return destinationFault && aborted === null ? "failure" : "neutral";
}
