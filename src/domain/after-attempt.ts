import { SECOND, type Instant } from "./instant.ts";
import type { Random } from "./ports/clock.ts";
import type { ClaimedRun, DeliveryOutcome } from "./run.ts";

/** What becomes of a run whose attempt is recorded. */
export type NextStep =
  | { next: "finished" }
  /** 410: finished, and the job's generation is halted. */
  | { next: "halted" }
  | { next: "retry"; notBefore: Instant };

type Postponed = Extract<DeliveryOutcome, { kind: "postponed" }>;
/** What an attempt came to that is recorded. */
export type RecordedOutcome = Exclude<DeliveryOutcome, Postponed>;

/** What becomes of a run whose circuit is open. */
export type AfterPostponement =
  /** Give the claim back, record nothing. */
  | { next: "postponed"; notBefore: Instant }
  /** The circuit stayed open until the delivery deadline: record this as the run's execution. */
  | { next: "expired"; httpStatus: 500; error: string };

interface Attempted<Outcome> {
  run: Pick<ClaimedRun, "attempt" | "scheduledAt" | "createdAt" | "retryAt" | "spec">;
  outcome: Outcome;
  now: Instant;
  random: Random;
}

/**
 * Spreads runs that wait for the same circuit. A breaker gives each run an `until` of its own, but the breakers of
 * several processes do not know of each other.
 */
const CIRCUIT_JITTER = SECOND;

/**
 * The retry policy: `maxRetries` further attempts, exponential backoff from `minBackoffSeconds` to
 * `maxBackoffSeconds` with full jitter above the minimum, `Retry-After` honoured up to the maximum.
 */
export function afterAttempt(attempted: Attempted<RecordedOutcome>): NextStep {
  const { run, outcome, now, random } = attempted;
  switch (outcome.kind) {
    case "delivered":
    case "permanent":
      return { next: "finished" };
    case "gone":
      return { next: "halted" };
    case "retryable":
      break;
  }
  if (run.attempt > run.spec.retry.maxRetries) return { next: "finished" };
  return { next: "retry", notBefore: now + backoff(run, outcome.retryAfterMs, random) };
}

/**
 * An open circuit delays each attempt by up to `deliveryDeadlineSeconds` after that attempt became due: the wait of the
 * backoff before it does not count.
 */
export function afterPostponement(postponed: Attempted<Postponed>): AfterPostponement {
  const { run, outcome, now, random } = postponed;
  const seconds = run.spec.deliveryDeadlineSeconds;
  const deadline = deliveryDeadline(run);
  if (now >= deadline) {
    const error = `circuit open: the destination kept failing and was not called within ${seconds} s`;
    return { next: "expired", httpStatus: 500, error };
  }
  const until = Math.max(now, outcome.until) + random() * CIRCUIT_JITTER;
  return { next: "postponed", notBefore: Math.min(Math.ceil(until), deadline) };
}

/** Until when the attempt may be put off. */
export function deliveryDeadline(
  run: Pick<ClaimedRun, "scheduledAt" | "createdAt" | "retryAt" | "spec">,
): Instant {
  // A one-time that runs late is due when it is created, not when it should have run.
  const due = run.retryAt ?? Math.max(run.scheduledAt, run.createdAt);
  return due + run.spec.deliveryDeadlineSeconds * SECOND;
}

function backoff(
  run: Pick<ClaimedRun, "attempt" | "spec">,
  retryAfterMs: number | null,
  random: Random,
): number {
  const { minBackoffSeconds, maxBackoffSeconds } = run.spec.retry;
  const least = minBackoffSeconds * SECOND;
  const most = Math.max(least, maxBackoffSeconds * SECOND);
  const ceiling = Math.min(most, least * 2 ** run.attempt);
  const jittered = least + random() * (ceiling - least);
  return Math.round(Math.max(jittered, Math.min(retryAfterMs ?? 0, most)));
}
