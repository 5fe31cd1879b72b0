import { describe, expect, test } from "vitest";
import type { JobSpec } from "../../../src/domain/job.ts";
import {
  patchedSpec,
  restFields,
  specFromRest,
  webhookUrlProblem,
} from "../../../src/domain/rest-job.ts";
import { webhookHeaders } from "../../../src/domain/schema/fields.ts";
import type { RestJobCreate, RestJobPatch } from "../../../src/domain/schema/rest-job.ts";
import {
  RESERVED_WEBHOOK_HEADER_PREFIXES,
  RESERVED_WEBHOOK_HEADERS,
} from "../../../src/domain/webhook-headers.ts";

const now = Date.UTC(2026, 10, 21, 12);
const webhook: RestJobCreate = {
  name: "Report",
  type: "webhook",
  schedule_type: "cron",
  cron_expression: "0 3 * * *",
  webhook_url: "https://example.com/hook",
};
const email: RestJobCreate = {
  name: "Reminder",
  type: "email",
  schedule_type: "one_time",
  run_at: "2026-11-22T01:00:00+01:00",
  email_to: "ada@example.com",
  email_subject: "Soon",
  email_body: "It is soon.",
};

function spec(fields: RestJobCreate, payloadText?: string): JobSpec {
  const result = specFromRest({ fields, payloadText, now });
  if (!result.ok) throw new Error(JSON.stringify(result.findings));
  return result.spec;
}
function patched(previous: JobSpec, fields: RestJobPatch, payloadText?: string): JobSpec {
  const result = patchedSpec(previous, { fields, payloadText, now });
  if (!result.ok) throw new Error(JSON.stringify(result.findings));
  return result.spec;
}

test("a webhook on a cron schedule, with the defaults", () => {
  expect(spec(webhook)).toEqual({
    name: "Report",
    schedule: { kind: "cron", expression: "0 3 * * *", timeZone: "UTC" },
    target: {
      kind: "webhook",
      url: "https://example.com/hook",
      payload: "{}",
      headers: {},
      headersFrom: [],
      timeoutSeconds: 30,
    },
    suspend: false,
    startingDeadlineSeconds: null,
    deliveryDeadlineSeconds: 3600,
    concurrencyPolicy: "Allow",
    retry: { maxRetries: 0, minBackoffSeconds: 5, maxBackoffSeconds: 3600 },
  });
});

test("an email at one time", () => {
  expect(spec(email)).toMatchObject({
    schedule: { kind: "once", at: Date.UTC(2026, 10, 22) },
    target: { kind: "email", to: "ada@example.com", isHtml: false },
  });
});

test("an email of HTML", () => {
  expect(spec({ ...email, email_is_html: true })).toMatchObject({ target: { isHtml: true } });
});

test("REST fields and back give the same spec", () => {
  const full = spec(
    {
      ...webhook,
      timezone: "Asia/Tokyo",
      webhook_headers: { Authorization: "Bearer x" },
      timeout_seconds: 3,
      max_retries: 2,
      min_backoff_seconds: 1,
      max_backoff_seconds: 9,
      starting_deadline_seconds: 60,
      delivery_deadline_seconds: 61,
      concurrency_policy: "Replace",
    },
    '{ "a": 1.0 }',
  );
  const html = spec({ ...email, email_is_html: true });
  for (const original of [full, spec(webhook), spec(email), html]) {
    const { webhook_payload: payload, ...fields } = restFields(original);
    expect(spec(fields as RestJobCreate, payload ?? undefined)).toEqual(original);
  }
});

describe("a patch", () => {
  const before = spec({ ...webhook, max_retries: 3, timezone: "Asia/Tokyo" }, '{ "a": 1 }');
  test("leaves what is absent, payload included", () => {
    expect(patched(before, { name: "New" })).toEqual({ ...before, name: "New" });
  });
  test("null resets to the default", () => {
    const after = patched(before, { max_retries: null, timezone: null, webhook_payload: null });
    expect(after.retry.maxRetries).toBe(0);
    expect(after.schedule).toMatchObject({ timeZone: "UTC" });
    expect(after.target).toMatchObject({ payload: "{}" });
  });
  test("keeps suspension and the headers from Secrets, which REST cannot set", () => {
    const headersFrom = [{ header: "Authorization", secretName: "s", secretKey: "k" }];
    const kept = {
      ...before,
      suspend: true,
      target: { ...before.target, headersFrom } as JobSpec["target"],
    };
    expect(patched(kept, { name: "New" })).toMatchObject({
      suspend: true,
      target: { headersFrom },
    });
  });
  test("does not send the headers from Secrets to another origin", () => {
    const headersFrom = [{ header: "Authorization", secretName: "s", secretKey: "k" }];
    const target = { ...before.target, headersFrom } as JobSpec["target"];
    const moved = (webhook_url: string, from: JobSpec = { ...before, target }) =>
      patchedSpec(from, { fields: { webhook_url }, payloadText: undefined, now });
    expect(moved("https://example.com/other")).toMatchObject({ ok: true });
    expect(moved("https://elsewhere.example/hook", before)).toMatchObject({ ok: true });
    for (const url of ["https://elsewhere.example/hook", "http://example.com/hook"])
      expect(moved(url)).toMatchObject({ ok: false, findings: [{ field: "webhook_url" }] });
  });
  test("to another kind drops the fields of the former one", () => {
    const { name: _name, ...fields } = email;
    expect(patched(before, fields)).toEqual({
      ...spec(email),
      name: "Report",
      retry: before.retry,
    });
  });
  test("need not name a run_at that has passed, and cannot set one", () => {
    const past: JobSpec = { ...spec(email), schedule: { kind: "once", at: now - 86_400_000 } };
    expect(patched(past, { name: "New" }).schedule).toEqual(past.schedule);
    const result = patchedSpec(past, {
      fields: { run_at: "2026-11-01T00:00:00Z" },
      payloadText: undefined,
      now,
    });
    expect(result).toMatchObject({ ok: false, findings: [{ field: "run_at" }] });
  });
  test.each([
    "2026-11-20T12:00:00Z",
    "2026-11-20T13:00:00.000000+01:00",
    "2026-11-20T12:00:00.000Z",
  ])("may name the run_at that it has, however it is written: %s", (text) => {
    const at = Date.UTC(2026, 10, 20, 12);
    const past: JobSpec = { ...spec(email), schedule: { kind: "once", at } };
    expect(patched(past, { name: "New", run_at: text }).schedule).toBe(past.schedule);
  });
});

describe("refused, all findings at once", () => {
  const cases: { name: string; fields: RestJobCreate; fieldsFound: string[] }[] = [
    {
      name: "nothing of its kind",
      fields: { name: "x", type: "email", schedule_type: "cron" },
      fieldsFound: ["cron_expression", "email_to", "email_subject", "email_body"],
    },
    {
      name: "fields of both kinds",
      fields: { ...webhook, run_at: "2027-01-01T00:00:00Z", email_is_html: true },
      fieldsFound: ["run_at", "email_is_html"],
    },
    {
      name: "headers: reserved, twice, not ASCII, not a token",
      fields: {
        ...webhook,
        webhook_headers: {
          host: "x",
          "Carillon-Job-Id": "x",
          "X-A": "1",
          "x-a": "2",
          "X-B": "é",
          "X C": "x",
          "X-D": "a\r\nb",
          "X-E": "a ",
        },
      },
      fieldsFound: ["host", "Carillon-Job-Id", "x-a", "X-B", "X C", "X-D", "X-E"].map(
        (name) => `webhook_headers.${name}`,
      ),
    },
  ];
  test.each(cases)("$name", ({ fields, fieldsFound }) => {
    const result = specFromRest({ fields, payloadText: undefined, now });
    const found = result.ok ? [] : result.findings.map((finding) => finding.field);
    expect(found.toSorted()).toEqual(fieldsFound.toSorted());
  });

  test("headers that the description names, and no others", () => {
    const [, listed = ""] = /refused: ([^"]*)\."/.exec(JSON.stringify(webhookHeaders)) ?? [];
    const prefixes = RESERVED_WEBHOOK_HEADER_PREFIXES.map((prefix) => `${prefix}*`);
    expect(listed.toLowerCase().split(", ")).toEqual([...RESERVED_WEBHOOK_HEADERS, ...prefixes]);
  });

  test("a header's value with a space at its end: it says that of spaces", () => {
    const fields = { ...webhook, webhook_headers: { Authorization: "Bearer abc " } };
    const result = specFromRest({ fields, payloadText: undefined, now });
    expect(result.ok ? [] : result.findings).toEqual([
      {
        field: "webhook_headers.Authorization",
        message: expect.stringMatching(/spaces around it$/),
      },
    ]);
  });

  test.each([
    "example.com",
    "/hook",
    "ftp://example.com/",
    "http:///hook",
    "https:///hook.example/",
    "javascript:alert(1)",
    "https:example.com",
    "https://u@example.com/",
    "https://@example.com/",
    "https://example.com\\hook@example.org/",
    "https://example.com/\n",
    "https://exa mple.com/",
    "https://",
    "http://[::1",
    "http://[::1:65536",
    "http://a..b/",
    "http://.a/",
    "http://a../",
    "http://./",
    "http://a\u3002.b/",
  ])("webhook_url %j", (url) => {
    const result = specFromRest({
      fields: { ...webhook, webhook_url: url },
      payloadText: undefined,
      now,
    });
    expect(result).toMatchObject({ ok: false, findings: [{ field: "webhook_url" }] });
  });

  const PORT = "must have a port from 1 to 65535";
  const LABEL = "has a dot too many in the name of its host";
  const LONG =
    "has a host name longer than DNS allows: at most 63 characters between two dots and 253 in all";
  const label = "a".repeat(63);
  const longest = [label, label, label, "a".repeat(61)].join(".");
  test.each([
    { url: "http://example.com:65536/hook", says: PORT },
    { url: "https://[::1]:99999", says: PORT },
    { url: "http://example.com:8o8o?a=b", says: PORT },
    { url: "http://127.0.0.1:0/", says: PORT },
    { url: "https://example.com:000/", says: PORT },
    { url: "http://example.com:080/", says: null },
    { url: "http://a..b/", says: LABEL },
    { url: "http://a..b:65536/", says: PORT },
    { url: "/hook:65536", says: "must be an absolute http or https URL" },
    { url: "http://[::1:65536", says: "must be an absolute http or https URL" },
    { url: "http://example.com./", says: null },
    { url: "http://example.com.:65535/a..b?c..d#e..f", says: null },
    { url: "http://[::ffff:1.2.3.4]/", says: null },
    { url: `http://${label}.example/`, says: null },
    { url: `http://a${label}.example/`, says: LONG },
    { url: `http://${longest}.:8080/`, says: null },
    { url: `http://${longest}a/`, says: LONG },
    // 60 characters, 67 as Punycode.
    { url: `http://${"ä1".repeat(30)}.example/`, says: LONG },
  ])("webhook_url $url: $says", ({ url, says }) => {
    expect(webhookUrlProblem(url)).toBe(says);
  });
});

const numbers = (count: number) => `{"n":[${Array.from({ length: count }, () => "1e20").join()}]}`;

test("a payload that would be too large as the API server stores it is refused at once", () => {
  const refused = specFromRest({ fields: webhook, payloadText: numbers(20_000), now });
  expect(refused).toMatchObject({ ok: false, findings: [{ field: "webhook_payload" }] });
  expect(spec(webhook, numbers(10_000)).target).toMatchObject({ payload: numbers(10_000) });
});
