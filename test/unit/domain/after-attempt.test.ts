import { expect, test } from "vitest";
import {
  afterAttempt,
  afterPostponement,
  type AfterPostponement,
  type NextStep,
} from "../../../src/domain/after-attempt.ts";
import type { RetryPolicy } from "../../../src/domain/job.ts";
import type { DeliveryOutcome } from "../../../src/domain/run.ts";
import { aSpec, at } from "./decide-builders.ts";

const NOW = at("12:00");

const failed = (retryAfterMs: number | null = null): DeliveryOutcome => ({
  kind: "retryable",
  httpStatus: 503,
  error: "x",
  retryAfterMs,
});
const open = (until: string) => ({ kind: "postponed", until: at(until) }) as const;

interface Case {
  name: string;
  outcome: DeliveryOutcome;
  attempt?: number;
  retry?: Partial<RetryPolicy>;
  /** The random number; 0 by default. */
  random?: number;
  scheduledAt?: string;
  createdAt?: string;
  retryAt?: string;
  deadlineSeconds?: number;
  next: (NextStep | AfterPostponement)["next"];
  /** Milliseconds after now. */
  inMs?: number;
}

const CASES: Case[] = [
  { name: "delivered", outcome: { kind: "delivered", httpStatus: 204 }, next: "finished" },
  {
    name: "permanent, retries left",
    outcome: { kind: "permanent", httpStatus: 404, error: "x" },
    retry: { maxRetries: 5 },
    next: "finished",
  },
  {
    name: "gone halts",
    outcome: { kind: "gone", httpStatus: 410, error: "x" },
    retry: { maxRetries: 5 },
    next: "halted",
  },
  { name: "no retries by default", outcome: failed(), next: "finished" },
  { name: "Retry-After is no retry either", outcome: failed(1_000), next: "finished" },
  {
    name: "first retry, no jitter",
    outcome: failed(),
    retry: { maxRetries: 1 },
    next: "retry",
    inMs: 5_000,
  },
  {
    name: "first retry, most jitter",
    outcome: failed(),
    retry: { maxRetries: 1 },
    random: 1,
    next: "retry",
    inMs: 10_000,
  },
  {
    name: "second retry, most jitter",
    outcome: failed(),
    attempt: 2,
    retry: { maxRetries: 2 },
    random: 1,
    next: "retry",
    inMs: 20_000,
  },
  {
    name: "second retry, half jitter",
    outcome: failed(),
    attempt: 2,
    retry: { maxRetries: 2 },
    random: 0.5,
    next: "retry",
    inMs: 12_500,
  },
  {
    name: "retries used up",
    outcome: failed(),
    attempt: 3,
    retry: { maxRetries: 2 },
    next: "finished",
  },
  {
    name: "tenth retry",
    outcome: failed(),
    attempt: 10,
    retry: { maxRetries: 10 },
    random: 1,
    next: "retry",
    inMs: 3_600_000,
  },
  {
    name: "eleventh attempt is the last",
    outcome: failed(),
    attempt: 11,
    retry: { maxRetries: 10 },
    next: "finished",
  },
  {
    name: "capped by the maximum",
    outcome: failed(),
    attempt: 9,
    retry: { maxRetries: 10, maxBackoffSeconds: 60 },
    random: 1,
    next: "retry",
    inMs: 60_000,
  },
  {
    name: "minimum equals maximum",
    outcome: failed(),
    attempt: 4,
    retry: { maxRetries: 10, minBackoffSeconds: 7, maxBackoffSeconds: 7 },
    random: 0.3,
    next: "retry",
    inMs: 7_000,
  },
  {
    name: "a maximum below the minimum",
    outcome: failed(),
    retry: { maxRetries: 1, minBackoffSeconds: 9, maxBackoffSeconds: 1 },
    random: 0.9,
    next: "retry",
    inMs: 9_000,
  },
  {
    name: "Retry-After later than backoff",
    outcome: failed(90_000),
    retry: { maxRetries: 1 },
    next: "retry",
    inMs: 90_000,
  },
  {
    name: "Retry-After sooner than backoff",
    outcome: failed(10),
    retry: { maxRetries: 1 },
    next: "retry",
    inMs: 5_000,
  },
  {
    name: "Retry-After up to the cap",
    outcome: failed(86_400_000),
    retry: { maxRetries: 1, maxBackoffSeconds: 60 },
    next: "retry",
    inMs: 60_000,
  },
  { name: "circuit open", outcome: open("12:00:30"), next: "postponed", inMs: 30_000 },
  {
    name: "circuit open, spread",
    outcome: open("12:00:30"),
    random: 0.5,
    next: "postponed",
    inMs: 30_500,
  },
  { name: "circuit about to close", outcome: open("11:59"), next: "postponed", inMs: 0 },
  {
    name: "circuit open beyond the deadline: come back at the deadline",
    outcome: open("13:30"),
    next: "postponed",
    inMs: 3_600_000,
  },
  {
    name: "deadline passed",
    outcome: open("12:00:30"),
    scheduledAt: "11:00",
    createdAt: "11:00",
    next: "expired",
  },
  {
    name: "just before the deadline",
    outcome: open("12:00:30"),
    scheduledAt: "11:00:00.001",
    createdAt: "11:00",
    next: "postponed",
    inMs: 1,
  },
  {
    name: "the deadline of a late run counts from its creation",
    outcome: open("12:00:30"),
    scheduledAt: "02:00",
    createdAt: "11:59",
    next: "postponed",
    inMs: 30_000,
  },
  {
    name: "the deadline of a prepared run counts from its time",
    outcome: open("12:00:30"),
    createdAt: "11:59:45",
    deadlineSeconds: 60,
    next: "postponed",
    inMs: 30_000,
  },
  {
    name: "the deadline of a retry counts from when it was due",
    outcome: open("12:00:30"),
    attempt: 2,
    retry: { maxRetries: 3 },
    scheduledAt: "10:00",
    createdAt: "10:00",
    retryAt: "11:59:59",
    next: "postponed",
    inMs: 30_000,
  },
  {
    name: "the deadline of a retry passed",
    outcome: open("12:00:30"),
    attempt: 2,
    retry: { maxRetries: 3 },
    scheduledAt: "10:00",
    createdAt: "10:00",
    retryAt: "11:00",
    next: "expired",
  },
  { name: "no wait at all", outcome: open("12:00:30"), deadlineSeconds: 0, next: "expired" },
];

test.each(CASES)("after an attempt: $name", (c) => {
  const spec = aSpec({ deliveryDeadlineSeconds: c.deadlineSeconds ?? 3600 });
  const { outcome } = c;
  const input = {
    run: {
      attempt: c.attempt ?? 1,
      scheduledAt: at(c.scheduledAt ?? "12:00"),
      createdAt: at(c.createdAt ?? "12:00"),
      retryAt: c.retryAt === undefined ? null : at(c.retryAt),
      spec: { ...spec, retry: { ...spec.retry, ...c.retry } },
    },
    now: NOW,
    random: () => c.random ?? 0,
  };
  const result =
    outcome.kind === "postponed"
      ? afterPostponement({ ...input, outcome })
      : afterAttempt({ ...input, outcome });
  expect(result.next).toBe(c.next);
  expect("notBefore" in result ? result.notBefore - NOW : undefined).toBe(c.inMs);
});

test("an expired run says so in its execution", () => {
  const result = afterPostponement({
    run: {
      attempt: 1,
      scheduledAt: at("10:00"),
      createdAt: at("10:00"),
      retryAt: null,
      spec: aSpec(),
    },
    outcome: open("12:00:30"),
    now: NOW,
    random: () => 0,
  });
  expect(result).toMatchObject({
    next: "expired",
    httpStatus: 500,
    error: expect.stringMatching(/^circuit open/),
  });
});
