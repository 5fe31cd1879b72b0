import { afterEach, describe, expect, test } from "vitest";
import type { SecretHeaders } from "../../../src/domain/ports/secret-headers.ts";
import type { WebhookTarget } from "../../../src/domain/job.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { claimedRun } from "./claimed-run.ts";
import { loopbackSender } from "./loopback-sender.ts";
import { startReceiver } from "../../receiver.ts";
import { SECRET } from "./worker-fixture.ts";

let ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends) await end();
  ends = [];
});

/** Makes one call. Returns its outcome, and what the receiver got. */
async function send(
  target: Partial<WebhookTarget>,
  { signal, ...change }: Parameters<typeof loopbackSender>[0] & { signal?: AbortSignal } = {},
) {
  const receiver = await startReceiver();
  const sender = loopbackSender(change);
  ends.push(
    () => sender.close(),
    () => receiver.close(),
  );
  const run = claimedRun({ url: receiver.url, ...target }, { attempt: 3, scheduledAt: 1_000 });
  if (run.spec.target.kind !== "webhook") throw new Error("a webhook");
  const outcome = await sender.send({
    run,
    target: run.spec.target,
    signingSecrets: [SECRET],
    signal: signal ?? new AbortController().signal,
    maySend: () => true,
  });
  return { run, outcome, received: receiver.received };
}

const headersFrom = [{ header: "X-Token", secretName: "s", secretKey: "k" }];
const resolved =
  (headers: Record<string, string>): SecretHeaders =>
  async () => ({ kind: "resolved", headers });

test("a call says which run of which job it is, and which attempt", async () => {
  const before = Math.floor(Date.now() / 1_000);
  const { run, received } = await send({});
  expect(received).toMatchObject([
    {
      headers: {
        "webhook-id": run.id,
        "carillon-job-id": run.jobId,
        "carillon-scheduled-at": "1970-01-01T00:00:01.000Z",
        "carillon-attempt": "3",
        "user-agent": "Carillon/1",
      },
    },
  ]);
  const timestamp = Number(received[0]?.headers["webhook-timestamp"]);
  expect(timestamp).toBeGreaterThanOrEqual(before);
  expect(timestamp).toBeLessThanOrEqual(Date.now() / 1_000);
});

describe("headers of the job's own", () => {
  test("go along, those from Secrets before those that are written down", async () => {
    const { received } = await send(
      { headers: { "X-Team": "a", "X-Token": "old" }, headersFrom },
      { secretHeaders: resolved({ "X-Token": "new" }) },
    );
    expect(received).toMatchObject([{ headers: { "x-team": "a", "x-token": "new" } }]);
  });

  test("never take the place of ours", async () => {
    const { outcome, run, received } = await send(
      { headers: { "Webhook-Id": "mine", "Content-Type": "text/plain" }, headersFrom },
      { secretHeaders: resolved({ "Carillon-Attempt": "9" }) },
    );
    expect(outcome).toMatchObject({ kind: "delivered" });
    expect(received).toMatchObject([
      {
        headers: {
          "webhook-id": run.id,
          "content-type": "application/json",
          "carillon-attempt": "3",
        },
      },
    ]);
  });

  test.each([
    ["beyond latin1", { headers: { "X-A": "\u0100" } }, {}],
    ["that would end its line", { headers: { "X-A": "a\r\nX-B: b" } }, {}],
    ["with a NUL", { headers: { "X-A": "a\0" } }, {}],
    ["of a Secret, that would end its line", { headersFrom }, { "X-Token": "t\r\nX-C: c" }],
  ])("a value %s cannot be sent: nobody is called", async (_, target, secret) => {
    const { outcome, received } = await send(target, { secretHeaders: resolved(secret) });
    expect(outcome).toEqual({
      kind: "retryable",
      httpStatus: 500,
      error: "one of the job's own headers cannot be sent",
      retryAfterMs: null,
      destinationFault: null,
    });
    expect(received).toEqual([]);
  });

  test("that cannot be had: nobody is called, which says nothing of the receiver", async () => {
    const { outcome, received } = await send(
      { headersFrom },
      { secretHeaders: async () => ({ kind: "unavailable", error: "no Secret s" }) },
    );
    expect(outcome).toEqual({
      kind: "retryable",
      httpStatus: 500,
      error: "no Secret s",
      retryAfterMs: null,
      destinationFault: null,
    });
    expect(received).toEqual([]);
  });

  test("are waited for until the attempt is ended: nobody is called", async () => {
    const ended = new AbortController();
    const { outcome, received } = await send(
      { headersFrom },
      {
        signal: ended.signal,
        secretHeaders: () => {
          ended.abort();
          return new Promise(() => undefined);
        },
      },
    );
    expect(outcome).toEqual({ kind: "not_sent" });
    expect(received).toEqual([]);
  });

  test("from Secrets, where there are none: the same", async () => {
    const { outcome, received } = await send({ headersFrom });
    expect(outcome).toMatchObject({ error: "headers from Secrets need Kubernetes" });
    expect(received).toEqual([]);
  });
});

test("a destination that is refused is counted", async () => {
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  const { outcome } = await send({ url: "http://10.0.0.1/" }, { metrics });
  expect(outcome).toMatchObject({ kind: "permanent" });
  expect((await metrics.render()).text).toContain(
    'carillon_destinations_refused_total{protocol="webhook"} 1',
  );
});
