import { expect, test } from "vitest";
import { conclude, verdictOf, type Conclusion } from "../../../src/delivery/conclusion.ts";
import type { Verdict } from "../../../src/delivery/breaker.ts";
import type { AttemptOutcome } from "../../../src/delivery/attempt.ts";
import { claimedRun } from "../../integration/delivery/claimed-run.ts";

const NOW = 1_000_000;
const random = () => 0;
const base = claimedRun({}, { scheduledAt: NOW, createdAt: NOW });

const DELIVERED: AttemptOutcome = { kind: "delivered", httpStatus: 204 };
const FAILED: AttemptOutcome = {
  kind: "retryable",
  httpStatus: 503,
  error: "busy",
  retryAfterMs: null,
};
const BUSY: AttemptOutcome = { ...FAILED, retryAfterMs: 7_000, answered: true };
const REFUSED: AttemptOutcome = { kind: "permanent", httpStatus: 404, error: "no" };
const NOT_SENT: AttemptOutcome = { kind: "not_sent" };
const late = { kind: "postponed", until: NOW + 9_000 } as const;

/** A conclusion in words: what is recorded, and what becomes of the run. */
function told(conclusion: Conclusion): string {
  if (conclusion.kind === "drop") return "dropped";
  if (conclusion.kind === "release")
    return conclusion.notBefore === undefined
      ? "given back"
      : `given back for ${conclusion.notBefore - NOW} ms`;
  const { closing, label } = conclusion;
  const { status, httpStatus, errorMessage } = closing.execution;
  return `${label}: ${status} ${httpStatus} ${errorMessage ?? "-"}, ${closing.next}`;
}

const CASES: {
  name: string;
  outcome: AttemptOutcome;
  aborted?: Parameters<typeof conclude>[0]["aborted"];
  maxRetries?: number;
  is: string;
}[] = [
  { name: "delivered", outcome: DELIVERED, is: "delivered: success 204 -, finished" },
  { name: "failed for good", outcome: FAILED, is: "retryable: failed 503 busy, finished" },
  {
    name: "to be retried",
    outcome: FAILED,
    maxRetries: 1,
    is: "retryable: failed 503 busy, retry",
  },
  { name: "not sent", outcome: NOT_SENT, is: "given back for 1000 ms" },
  { name: "postponed", outcome: late, is: "given back for 9000 ms" },
  { name: "lost", outcome: DELIVERED, aborted: "lost", is: "dropped" },
  {
    name: "interrupted before it was sent",
    outcome: NOT_SENT,
    aborted: "interrupted",
    is: "given back",
  },
  {
    name: "interrupted",
    outcome: FAILED,
    aborted: "interrupted",
    is: "interrupted: failed 500 interrupted: outcome unknown, finished",
  },
  {
    name: "interrupted, and allowed another attempt",
    outcome: FAILED,
    aborted: "interrupted",
    maxRetries: 1,
    is: "interrupted: failed 500 interrupted: outcome unknown, retry",
  },
  {
    name: "interrupted, but the answer came",
    outcome: DELIVERED,
    aborted: "interrupted",
    is: "delivered: success 204 -, finished",
  },
  {
    name: "interrupted, but the receiver had said that it is busy",
    outcome: BUSY,
    aborted: "interrupted",
    maxRetries: 1,
    is: "retryable: failed 503 busy, retry",
  },
  ...(["replaced", "deleted"] as const).flatMap((aborted) => [
    {
      name: `${aborted}, but the receiver had said that it is busy`,
      outcome: BUSY,
      aborted,
      maxRetries: 3,
      is: "retryable: failed 503 busy, finished",
    },
    {
      name: `${aborted}, whatever the job allows`,
      outcome: FAILED,
      aborted,
      maxRetries: 3,
      is: `${aborted}: failed 500 ${aborted}: outcome unknown, finished`,
    },
    {
      name: `${aborted} before it was sent`,
      outcome: NOT_SENT,
      aborted,
      is: `${aborted}: failed 500 ${aborted}: nothing was sent, finished`,
    },
    {
      name: `${aborted}, but the answer came`,
      outcome: DELIVERED,
      aborted,
      is: "delivered: success 204 -, finished",
    },
  ]),
];

test.each(CASES)("$name", ({ outcome, aborted = null, maxRetries = 0, is }) => {
  const retry = { maxRetries, minBackoffSeconds: 5, maxBackoffSeconds: 5 };
  const run = { ...base, spec: { ...base.spec, retry } };
  const given = { run, outcome, aborted, executedAt: NOW, durationMs: 1.4, now: NOW, random };
  expect(told(conclude(given))).toBe(is);
});

test.each([
  { name: "as long as it may be", error: "x".repeat(1_000), is: "x".repeat(1_000) },
  { name: "longer", error: "x".repeat(1_001), is: "x".repeat(1_000) },
  // U+FFFD, because PostgreSQL refuses half of a surrogate pair.
  { name: "cut within a character", error: `${"x".repeat(999)}😀`, is: `${"x".repeat(999)}\ufffd` },
])("an error message, $name", ({ error, is }) => {
  const given = { run: base, aborted: null, executedAt: NOW, durationMs: 1, now: NOW, random };
  expect(conclude({ ...given, outcome: { ...FAILED, error } })).toMatchObject({
    closing: { execution: { errorMessage: is } },
  });
});

test("a circuit that stays open until the deadline ends the run, and says so", () => {
  const now = NOW + base.spec.deliveryDeadlineSeconds * 1_000;
  const given = { run: base, aborted: null, executedAt: now, durationMs: 0, random };
  expect(told(conclude({ ...given, outcome: late, now }))).toMatch(
    /^circuit_open: failed 500 circuit open: .*, finished$/,
  );
});

test.each<{ title: string; outcome: AttemptOutcome; verdict: Verdict }>([
  { title: "a failure that may pass", outcome: FAILED, verdict: "failure" },
  { title: "an answer that is no", outcome: REFUSED, verdict: "success" },
  {
    title: "410",
    outcome: { kind: "gone", httpStatus: 410, error: "gone" },
    verdict: "success",
  },
  { title: "nothing sent", outcome: NOT_SENT, verdict: "neutral" },
  {
    title: "a permanent failure that is the destination's",
    outcome: { ...REFUSED, destinationFault: true },
    verdict: "failure",
  },
  {
    title: "a failure that is not the destination's",
    outcome: { ...FAILED, destinationFault: false },
    verdict: "success",
  },
  {
    title: "a failure before anybody was called",
    outcome: { ...FAILED, destinationFault: null },
    verdict: "neutral",
  },
])("what $title says of a destination: $verdict", ({ outcome, verdict }) => {
  expect(verdictOf(outcome, null)).toBe(verdict);
});
