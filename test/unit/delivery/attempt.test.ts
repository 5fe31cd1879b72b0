import { describe, expect, test } from "vitest";
import { createAttempt } from "../../../src/delivery/attempt.ts";
import { HOUR } from "../../../src/domain/instant.ts";
import type { MailResult, NewEmailLogEntry } from "../../../src/domain/mail.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { storedSpec, UNREADABLE } from "../../../src/domain/stored-spec.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { LightAbort } from "../../../src/waiting/light-abort.ts";
import { claimedRun } from "../../integration/delivery/claimed-run.ts";

type Options = Parameters<typeof createAttempt>[0];

const NOW = Date.UTC(2026, 10, 21, 12);
/** A UUIDv7 (RFC 9562) of that moment. */
const SORTABLE = new RegExp(
  `^${NOW.toString(16).padStart(12, "0").replace(/.{8}/, "$&-")}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
);
const nobody = () => Promise.reject(new Error("called"));

/** Makes an attempt. Returns its outcome, and the mails that it logged. */
async function attempt(
  run: ClaimedRun,
  change: {
    webhook?: Options["webhook"]["send"];
    mailer?: Options["mailer"]["send"];
    cancellation?: LightAbort;
    maySend?: () => boolean;
  } = {},
) {
  const logged: NewEmailLogEntry[] = [];
  const outcome = await createAttempt({
    webhook: { send: change.webhook ?? nobody },
    mailer: { send: change.mailer ?? nobody },
    emailLog: { add: (record) => logged.push(record) },
    clock: { known: true, now: () => NOW },
    log: createLogger({ level: "silent" }),
  })({
    run,
    signingSecrets: [],
    cancellation: change.cancellation ?? new LightAbort(),
    maySend: change.maySend ?? (() => true),
  });
  return { outcome, logged };
}

const call = claimedRun({});
const to = "owner@example.com";
const mail: ClaimedRun = {
  ...call,
  spec: {
    ...call.spec,
    target: { kind: "email", to, subject: "Report", body: "<p>Hello</p>", isHtml: true },
  },
};
const away = () => Promise.reject(new DependencyUnavailable("postgres"));

test.each([
  { kind: "webhook", run: call },
  { kind: "email", run: mail },
])("a claim that is lost before it begins asks for nothing: $kind", async ({ run }) => {
  expect(await attempt(run, { maySend: () => false })).toEqual({
    outcome: { kind: "not_sent" },
    logged: [],
  });
});

test.each([
  { kind: "webhook", run: call, change: { webhook: away } },
  { kind: "email", run: mail, change: { mailer: away } },
])("what cannot be read for now has sent nothing: $kind", async ({ run, change }) => {
  expect((await attempt(run, change)).outcome).toEqual({ kind: "not_sent" });
});

test("what nobody expected may have been sent", async () => {
  expect((await attempt(call, { webhook: nobody })).outcome).toMatchObject({
    kind: "retryable",
    error: "internal error: outcome unknown",
  });
});

test("a spec that is refused reaches nobody, and says nothing of the destination", async () => {
  const refusal = { field: "webhook_payload", message: "is too large" };
  const run = { ...call, spec: { ...call.spec, refusal } };
  expect((await attempt(run)).outcome).toEqual({
    kind: "permanent",
    httpStatus: 500,
    error: "webhook_payload is too large",
    destinationFault: null,
  });
});

describe("a spec that only a newer release can read", () => {
  const spec = storedSpec({ ...call.spec, target: { kind: "fax" } });
  const hourAgo = NOW - HOUR;

  test.each<{ is: string; run: Partial<ClaimedRun> }>([
    { is: "asked for", run: { scheduledAt: hourAgo + 1 } },
    { is: "created late", run: { scheduledAt: hourAgo - HOUR, createdAt: hourAgo + 1 } },
    { is: "to be tried again", run: { scheduledAt: hourAgo - HOUR, retryAt: hourAgo + 1 } },
  ])("is left to a worker of that release for an hour after it was $is", async ({ run }) => {
    expect((await attempt({ ...call, ...run, spec })).outcome).toEqual({ kind: "not_sent" });
  });

  test("is not waited for any longer: there may be no such worker any more", async () => {
    expect((await attempt({ ...call, scheduledAt: hourAgo, spec })).outcome).toEqual({
      kind: "permanent",
      httpStatus: 500,
      error: `${UNREADABLE.field} ${UNREADABLE.message}`,
      destinationFault: null,
    });
  });
});

describe("a mail", () => {
  const cutOff: MailResult = {
    kind: "failed",
    error: "timed out",
    retryable: true,
    outcomeUnknown: false,
    withdrawn: true,
  };

  test("is sent as the run's, for as long as the claim holds", async () => {
    const cancellation = new LightAbort();
    let holds = true;
    const { outcome, logged } = await attempt(mail, {
      mailer: async (account, message, { signal, maySend } = {}) => {
        expect(account).toBe(mail.account);
        // One Message-ID for all attempts, so that receivers can remove duplicates.
        expect(message).toMatchObject({ ...mail.spec.target, kind: "job", messageId: mail.id });
        expect(signal).toBe(cancellation.signal);
        expect(maySend?.()).toBe(true);
        return { kind: "accepted", messageId: mail.id };
      },
      cancellation,
      maySend: () => holds,
    });
    expect(outcome).toEqual({ kind: "delivered", httpStatus: 200 });
    const record = { account: mail.account, kind: "job", to, subject: "Report" };
    // Id and time are fixed, so that a repeated append makes the same entry. The id sorts by time, as the others do.
    const known = { id: expect.stringMatching(SORTABLE) as string, sentAt: NOW };
    expect(logged).toEqual([{ ...record, status: "sent", errorMessage: null, known }]);

    const late = await attempt(mail, {
      mailer: async (_account, _message, options) => {
        holds = false;
        expect(options?.maySend?.()).toBe(false);
        return cutOff;
      },
      maySend: () => holds,
    });
    expect(late).toEqual({ outcome: { kind: "not_sent" }, logged: [] });
  });

  test("that failed is logged with its error", async () => {
    const { outcome, logged } = await attempt(mail, { mailer: async () => cutOff });
    expect(outcome).toMatchObject({ kind: "retryable", error: "timed out" });
    expect(logged).toMatchObject([{ status: "failed", errorMessage: "timed out" }]);
  });

  test("that we took back before the server had all of it has not been sent", async () => {
    const cancellation = new LightAbort();
    cancellation.abort(new Error("replaced"));
    expect(await attempt(mail, { mailer: async () => cutOff, cancellation })).toEqual({
      outcome: { kind: "not_sent" },
      logged: [],
    });
    const unknown = "timed out (the mail may have been sent all the same)";
    const lost: MailResult = { ...cutOff, outcomeUnknown: true, withdrawn: false };
    expect(await attempt(mail, { mailer: async () => lost, cancellation })).toMatchObject({
      outcome: { kind: "retryable", error: unknown },
      logged: [{ status: "failed", errorMessage: unknown }],
    });
  });

  test("without SMTP settings is no mail, and not logged as one", async () => {
    expect(await attempt(mail, { mailer: async () => ({ kind: "unconfigured" }) })).toMatchObject({
      outcome: { kind: "permanent", error: expect.stringContaining("admin smtp set") },
      logged: [],
    });
  });

  test("to what is no single address asks no server, and says nothing of one", async () => {
    const target = { ...mail.spec.target, to: "a@example.com, b@example.com" };
    const run = { ...mail, spec: { ...mail.spec, target } };
    expect(await attempt(run)).toMatchObject({
      outcome: { kind: "permanent", destinationFault: null },
      logged: [{ status: "failed" }],
    });
  });
});
