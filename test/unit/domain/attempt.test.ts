import { afterEach, expect, test, vi } from "vitest";
import type { AfterAttempt } from "../../../src/domain/attempt.ts";
import {
  afterAttempt,
  classifyHttp,
  classifyMail,
  classifyNetwork,
  isRetryableSmtpReply,
  parseRetryAfter,
} from "../../../src/domain/attempt.ts";
import type { RetryPolicy } from "../../../src/domain/job.ts";
import type { MailResult } from "../../../src/domain/mail.ts";
import type { DeliveryOutcome } from "../../../src/domain/run.ts";
import { aSpec, at } from "./decide-builders.ts";

const NOW = at("12:00");

afterEach(() => {
  vi.unstubAllEnvs();
});
const failed = (retryAfterMs: number | null = null): DeliveryOutcome => ({
  kind: "retryable",
  httpStatus: 503,
  error: "x",
  retryAfterMs,
});
const open = (until: string): DeliveryOutcome => ({ kind: "postponed", until: at(until) });

interface Case {
  name: string;
  outcome: DeliveryOutcome;
  attempt?: number;
  retry?: Partial<RetryPolicy>;
  /** The random number; 0 unless given. */
  random?: number;
  scheduledAt?: string;
  createdAt?: string;
  retryAt?: string;
  deadlineSeconds?: number;
  next: AfterAttempt["next"];
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
  const result = afterAttempt({
    run: {
      attempt: c.attempt ?? 1,
      scheduledAt: at(c.scheduledAt ?? "12:00"),
      createdAt: at(c.createdAt ?? "12:00"),
      retryAt: c.retryAt === undefined ? null : at(c.retryAt),
      spec: { ...spec, retry: { ...spec.retry, ...c.retry } },
    },
    outcome: c.outcome,
    now: NOW,
    random: () => c.random ?? 0,
  });
  expect(result.next).toBe(c.next);
  expect("notBefore" in result ? result.notBefore - NOW : undefined).toBe(c.inMs);
});

test("an expired run says so in its execution", () => {
  const result = afterAttempt({
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

test.each([
  ...[200, 201, 202, 204, 206, 299].map((status) => ({ status, kind: "delivered" })),
  ...[300, 301, 302, 303, 304, 307, 308, 399].map((status) => ({ status, kind: "permanent" })),
  ...[400, 401, 403, 404, 405, 409, 413, 422, 451, 499].map((status) => ({
    status,
    kind: "permanent",
  })),
  ...[408, 425, 429, 500, 501, 502, 503, 504, 599, 600, 999].map((status) => ({
    status,
    kind: "retryable",
  })),
  ...[100, 101].map((status) => ({ status, kind: "permanent" })),
  { status: 410, kind: "gone" },
])("HTTP $status is $kind", ({ status, kind }) => {
  expect(classifyHttp(status, undefined, NOW)).toMatchObject({ kind, httpStatus: status });
});

test.each([
  { header: undefined, ms: null },
  { header: null, ms: null },
  { header: "", ms: null },
  { header: "0", ms: 0 },
  { header: "120", ms: 120_000 },
  { header: " 5 ", ms: 5_000 },
  { header: "1.5", ms: null },
  { header: "-1", ms: null },
  { header: "soon", ms: null },
  { header: "2027", ms: 2_027_000 },
  { header: "Tue, 10 Mar 2026 12:00:30 GMT", ms: 30_000 },
  { header: "Tuesday, 10-Mar-26 12:00:30 GMT", ms: 30_000 },
  { header: "Tue Mar 10 12:00:30 2026", ms: 30_000 },
  { header: "Tue Mar  3 12:00:30 2026", ms: 0 },
  { header: "Tue, 10 Mar 2026 11:59:00 GMT", ms: 0 },
  { header: "Tue, 99 Foo 2026 12:00:30 GMT", ms: null },
])("Retry-After: $header", ({ header, ms }) => {
  // A date says GMT or means it, wherever this runs.
  vi.stubEnv("TZ", "America/New_York");
  expect(parseRetryAfter(header, NOW)).toBe(ms);
});

test("Retry-After is read from retryable answers", () => {
  expect(classifyHttp(429, "7", NOW)).toMatchObject({ retryAfterMs: 7_000 });
});

test.each([
  { code: "ECONNREFUSED", error: "connection refused" },
  { code: "CONNECTION_CLOSED", error: "connection closed by the receiver" },
  { code: "TLS_HANDSHAKE_TIMEOUT", error: "timed out while connecting" },
  {
    code: "ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR",
    error:
      "the receiver broke off the TLS handshake; it may have no certificate for this host name",
  },
  { code: "EWHATEVER", error: "network error (EWHATEVER)" },
  { code: undefined, error: "network error" },
])("network $code is retryable", ({ code, error }) => {
  expect(classifyNetwork(code)).toEqual({
    kind: "retryable",
    httpStatus: 500,
    error,
    retryAfterMs: null,
  });
});

test.each<{ name: string; result: MailResult; kind: string; httpStatus: number }>([
  {
    name: "accepted",
    result: { kind: "accepted", messageId: "m" },
    kind: "delivered",
    httpStatus: 200,
  },
  { name: "unconfigured", result: { kind: "unconfigured" }, kind: "permanent", httpStatus: 500 },
  {
    name: "4xx",
    result: { kind: "failed", error: "451", retryable: true, outcomeUnknown: false },
    kind: "retryable",
    httpStatus: 500,
  },
  {
    name: "5xx",
    result: { kind: "failed", error: "550", retryable: false, outcomeUnknown: false },
    kind: "permanent",
    httpStatus: 500,
  },
  {
    name: "lost after DATA",
    result: { kind: "failed", error: "lost", retryable: false, outcomeUnknown: true },
    kind: "retryable",
    httpStatus: 500,
  },
])("mail: $name", ({ result, kind, httpStatus }) => {
  expect(classifyMail(result)).toMatchObject({ kind, httpStatus });
});

test.each([
  { reply: undefined, retryable: true },
  { reply: 421, retryable: true },
  { reply: 452, retryable: true },
  { reply: 535, retryable: false },
  { reply: 550, retryable: false },
  { reply: 354, retryable: false },
])("SMTP reply $reply", ({ reply, retryable }) => {
  expect(isRetryableSmtpReply(reply)).toBe(retryable);
});
