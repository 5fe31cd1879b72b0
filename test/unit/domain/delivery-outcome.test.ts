import { afterEach, expect, test, vi } from "vitest";
import {
  classifyHttp,
  classifyMail,
  isRetryableSmtpReply,
  networkError,
  parseRetryAfter,
  unanswered,
} from "../../../src/domain/delivery-outcome.ts";
import type { MailResult } from "../../../src/domain/mail.ts";
import { at } from "./decide-builders.ts";

const NOW = at("12:00");

afterEach(() => {
  vi.unstubAllEnvs();
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
  { status: 299, told: undefined },
  { status: 300, told: "the receiver answered 300; redirects are not followed" },
  { status: 399, told: "the receiver answered 399; redirects are not followed" },
  { status: 400, told: "the receiver answered 400" },
  { status: 199, told: "the receiver answered 199" },
  { status: 503, told: "the receiver answered 503" },
])("what is told of HTTP $status: $told", ({ status, told }) => {
  const outcome = classifyHttp(status, undefined, NOW);
  expect("error" in outcome ? outcome.error : undefined).toBe(told);
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
  // A date is in GMT, with or without saying so, whatever this machine's zone is.
  vi.stubEnv("TZ", "America/New_York");
  expect(parseRetryAfter(header, NOW)).toBe(ms);
});

test("Retry-After is read from retryable answers", () => {
  expect(classifyHttp(429, "7", NOW)).toMatchObject({ retryAfterMs: 7_000 });
});

test("a retryable answer is one, also for a worker that is told to stop meanwhile", () => {
  expect(classifyHttp(503, undefined, NOW)).toMatchObject({ answered: true });
  expect(unanswered("timed out")).not.toHaveProperty("answered");
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
  expect(unanswered(networkError(code, "receiver"))).toEqual({
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

test.each([true, false, null, undefined])(
  "a failed mail whose server is at fault: %s; its circuit hears the same",
  (serverFault) => {
    const failed = { kind: "failed", error: "x", retryable: true, outcomeUnknown: false } as const;
    const outcome = classifyMail(serverFault === undefined ? failed : { ...failed, serverFault });
    expect("destinationFault" in outcome ? outcome.destinationFault : undefined).toBe(serverFault);
  },
);

test.each([
  { reply: undefined, retryable: true },
  { reply: 399, retryable: false },
  { reply: 400, retryable: true },
  { reply: 421, retryable: true },
  { reply: 452, retryable: true },
  { reply: 499, retryable: true },
  { reply: 500, retryable: false },
  { reply: 535, retryable: false },
  { reply: 550, retryable: false },
  { reply: 354, retryable: false },
])("SMTP reply $reply", ({ reply, retryable }) => {
  expect(isRetryableSmtpReply(reply)).toBe(retryable);
});
