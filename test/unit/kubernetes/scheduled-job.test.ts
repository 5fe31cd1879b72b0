import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Cursor } from "../../../src/domain/cursor.ts";
import { decide } from "../../../src/domain/decide.ts";
import type { JobSpec, Schedule, Target } from "../../../src/domain/job.ts";
import { revisionOf } from "../../../src/domain/revision.ts";
import { canonicalJson, parseExactJson } from "../../../src/domain/exact-json.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import {
  jobFromResource,
  keptJobFromResource,
  specFromResource,
  specToResource,
  type ScheduledJob,
  type ScheduledJobSpec,
} from "../../../src/kubernetes/scheduled-job.ts";

const schedule: fc.Arbitrary<Schedule> = fc.oneof(
  fc.record({
    kind: fc.constant("cron" as const),
    expression: fc.constantFrom("0 3 * * *", "@daily", "*/5 * * * MON-FRI"),
    timeZone: fc.constantFrom("UTC", "Europe/Paris"),
  }),
  fc.record({
    kind: fc.constant("once" as const),
    at: fc.integer({ min: 0, max: Date.UTC(2100, 0, 1) }),
  }),
);

const target: fc.Arbitrary<Target> = fc.oneof(
  fc.record({
    kind: fc.constant("webhook" as const),
    url: fc.webUrl(),
    payload: fc
      .dictionary(fc.string(), fc.jsonValue())
      .map((value) => canonicalJson(parseExactJson(JSON.stringify(value)))),
    headers: fc.dictionary(fc.stringMatching(/^x-[a-z]{1,8}$/), fc.string()).map((h) => ({ ...h })),
    headersFrom: fc.array(
      fc.record({ header: fc.string(), secretName: fc.string(), secretKey: fc.string() }),
    ),
    timeoutSeconds: fc.integer({ min: 1, max: 300 }),
  }),
  fc.record({
    kind: fc.constant("email" as const),
    to: fc.emailAddress(),
    subject: fc.string(),
    body: fc.string(),
    isHtml: fc.boolean(),
  }),
);

const spec: fc.Arbitrary<JobSpec> = fc.record({
  name: fc.string(),
  schedule,
  target,
  suspend: fc.boolean(),
  startingDeadlineSeconds: fc.option(fc.integer({ min: 1 })),
  deliveryDeadlineSeconds: fc.integer({ min: 1 }),
  concurrencyPolicy: fc.constantFrom("Allow" as const, "Forbid" as const, "Replace" as const),
  retry: fc.record({
    maxRetries: fc.integer({ min: 0, max: 10 }),
    minBackoffSeconds: fc.integer({ min: 1 }),
    maxBackoffSeconds: fc.integer({ min: 1 }),
  }),
});

const METADATA: ScheduledJob["metadata"] = {
  name: "nightly",
  namespace: "team-a",
  uid: "6f6a4e46-6f4d-4a2e-b7a4-0e0c2a3c9b11",
  resourceVersion: "17",
  generation: 3,
  creationTimestamp: "2026-11-21T12:00:00Z",
};

const runNowOf = (value: string) =>
  jobFromResource(
    { metadata: { ...METADATA, annotations: { "carillon.dev/run-now": value } } },
    null,
  ).runNow;

describe("spec to resource and back", () => {
  test("is the same spec, whatever it says, also through JSON", () => {
    fc.assert(
      fc.property(spec, (original) => {
        // Read as the client does: JSON.parse alone confuses some keys with escapes.
        const text = JSON.stringify(specToResource(original));
        const stored = parseExactJson(text) as ScheduledJob["spec"];
        expect(specFromResource(stored ?? {}, "another-name")).toEqual(original);
      }),
    );
  });

  test.each([
    '{"a":9007199254740993}',
    '{"a":-9007199254740993}',
    '{"a":[9007199254740993]}',
    '{"a":[1,9007199254740993]}',
    '{"a":"9007199254740993","b":[12345678901234567890]}',
    "[9007199254740993]",
    "9007199254740993",
  ])("a payload keeps numbers that a double cannot hold: %s", (payload) => {
    const original: Target = {
      kind: "webhook",
      url: "https://example.com/",
      payload,
      headers: {},
      headersFrom: [],
      timeoutSeconds: 30,
    };
    const resource = specToResource({
      ...specFromResource({}, "x"),
      target: original,
    });
    expect(JSON.stringify(resource)).toContain(`"payload":${payload}`);
    expect(specFromResource(resource, "x").target).toEqual(original);
  });
});

describe("a resource as applied", () => {
  const CASES: { title: string; resource: ScheduledJob["spec"]; expected: Partial<JobSpec> }[] = [
    {
      title: "the shortest cron webhook takes every default",
      resource: { schedule: { cron: "0 3 * * *" }, webhook: { url: "https://example.com/" } },
      expected: {
        name: "nightly",
        schedule: { kind: "cron", expression: "0 3 * * *", timeZone: "UTC" },
        target: {
          kind: "webhook",
          url: "https://example.com/",
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
      },
    },
    {
      title: "a time in lower case and with an offset",
      resource: { schedule: { at: "2030-01-31t10:00:00+01:00" } },
      expected: { schedule: { kind: "once", at: Date.UTC(2030, 0, 31, 9) } },
    },
    {
      title: "a time finer than a millisecond, never early",
      resource: { schedule: { at: "2030-01-31T09:00:00.000001Z" } },
      expected: { schedule: { kind: "once", at: Date.UTC(2030, 0, 31, 9) + 1 } },
    },
    {
      title: "neither cron nor at becomes an expression that the domain refuses",
      resource: { schedule: {} },
      expected: { schedule: { kind: "cron", expression: "", timeZone: "UTC" } },
    },
    ...[
      { at: "soon", says: "with an offset as in RFC 3339" },
      { at: "2030-01-01T00:00:00+24:00", says: "+24:00 is not an offset" },
    ].map(({ at, says }) => ({
      title: `the time ${at}, which is none, the same, and says so`,
      resource: { schedule: { at }, webhook: { url: "https://example.com/" } },
      expected: {
        schedule: { kind: "cron" as const, expression: "", timeZone: "UTC" },
        refusal: {
          field: "run_at",
          message: expect.stringContaining(says) as string,
        },
      },
    })),
    {
      title: "payload keys are put in order",
      resource: { webhook: { url: "u", payload: { b: 1, a: { d: [], c: null } } } },
      expected: {
        target: {
          kind: "webhook",
          url: "u",
          payload: '{"a":{"c":null,"d":[]},"b":1}',
          headers: {},
          headersFrom: [],
          timeoutSeconds: 30,
        },
      },
    },
  ];
  test.each(CASES)("$title", ({ resource, expected }) => {
    expect(specFromResource(resource ?? {}, "nightly")).toMatchObject(expected);
  });

  const url = "https://example.com/";
  const OF_ANOTHER_DEFINITION: { title: string; spec: object }[] = [
    { title: "expressions", spec: { schedule: { cron: ["@daily"] }, webhook: { url } } },
    { title: "a zone", spec: { schedule: { cron: "@daily", timeZone: 1 }, webhook: { url } } },
    { title: "a name", spec: { displayName: 5, schedule: { cron: "@daily" }, webhook: { url } } },
    {
      title: "a pause",
      spec: { schedule: { cron: "@daily" }, suspend: "false", webhook: { url } },
    },
    {
      title: "a kind of body",
      spec: { schedule: { cron: "@daily" }, email: { to: "a@b.example", isHtml: "no" } },
    },
    { title: "an address", spec: { schedule: { cron: "@daily" }, webhook: { url: 7 } } },
    {
      title: "where a header comes from",
      spec: {
        schedule: { cron: "@daily" },
        webhook: { url, headersFrom: [{ header: "X-Team", configMapKeyRef: { name: "team" } }] },
      },
    },
    {
      title: "a header's name",
      spec: {
        schedule: { cron: "@daily" },
        webhook: {
          url,
          headersFrom: [{ header: 5, secretKeyRef: { name: "team", key: "token" } }],
        },
      },
    },
    ...["name", "key"].map((part) => ({
      title: `a Secret's ${part}`,
      spec: {
        schedule: { cron: "@daily" },
        webhook: {
          url,
          headersFrom: [
            { header: "X-Team", secretKeyRef: { name: "team", key: "token", [part]: ["a"] } },
          ],
        },
      },
    })),
    ...[["X-Team: a"], "X-Team: a", 5, { "X-Team": 5 }].map((headers) => ({
      title: `headers like ${JSON.stringify(headers)}`,
      spec: { schedule: { cron: "@daily" }, webhook: { url, headers } },
    })),
    {
      title: "a body",
      spec: { schedule: { cron: "@daily" }, email: { to: "a@example.com", body: { text: "" } } },
    },
    {
      title: "a subject",
      spec: { schedule: { cron: "@daily" }, email: { to: "a@example.com", subject: 5 } },
    },
    {
      title: "a policy",
      spec: { schedule: { cron: "@daily" }, concurrencyPolicy: "Queue", webhook: { url } },
    },
  ];
  // With the moment that comes of it PostgreSQL is told of others' runs.
  const daily = { schedule: { cron: "@daily" }, webhook: { url } };
  for (const seconds of ["5m", 1.5, 1e15, -1])
    OF_ANOTHER_DEFINITION.push(
      { title: `a deadline of ${seconds}`, spec: { ...daily, startingDeadlineSeconds: seconds } },
      {
        title: `one of deliveries, ${seconds}`,
        spec: { ...daily, deliveryDeadlineSeconds: seconds },
      },
      { title: `a pause of ${seconds}`, spec: { ...daily, retry: { minBackoffSeconds: seconds } } },
      {
        title: `a longest one of ${seconds}`,
        spec: { ...daily, retry: { maxBackoffSeconds: seconds } },
      },
      { title: `${seconds} retries`, spec: { ...daily, retry: { maxRetries: seconds } } },
      {
        title: `a time limit of ${seconds}`,
        spec: { ...daily, webhook: { url, timeoutSeconds: seconds } },
      },
    );
  test("more than ours, as a newer release may allow, is taken", () => {
    const spec = { ...daily, startingDeadlineSeconds: 100_000_000, retry: { maxRetries: 20 } };
    expect(specFromResource(spec, "nightly")).not.toHaveProperty("refusal");
  });
  test.each(OF_ANOTHER_DEFINITION)("$title of another definition than ours: refused", (row) => {
    const job = keptJobFromResource({ metadata: METADATA, spec: row.spec }, "account-1");
    expect(job).toMatchObject({ uid: METADATA.uid, spec: { name: METADATA.name } });
    expect(timingOf(job.spec).compiled).toMatchObject({ ok: false, finding: { field: "spec" } });
  });

  for (const once of ["missed", "completed"] as const)
    test(`a one-time job that is over (${once}) stays so, whoever could not read it meanwhile`, () => {
      const runAt = Date.UTC(2026, 10, 21, 13);
      const decided = (cursor: Cursor | undefined, generation: number, change: object) => {
        const schedule = { at: new Date(runAt).toISOString() };
        const spec = { schedule, webhook: { url }, ...change };
        const metadata = { ...METADATA, generation };
        const job = jobFromResource({ metadata, spec }, "account-1");
        const now = Date.UTC(2026, 10, 22) + generation;
        const revision = revisionOf(job);
        const input = { job, revision, timing: timingOf(job.spec), cursor, unfinished: [] };
        const decision = decide({ ...input, now, horizon: now });
        return { ...decision, cursor: { ...decision.to, jobUid: job.uid, version: generation } };
      };
      // Seen for the first time long after its creation and its time, as after a restore.
      const first = decided(undefined, 1, {});
      expect(first.cursor.once).toBe("missed");
      const unread = decided({ ...first.cursor, once }, 2, { concurrencyPolicy: "Queue" });
      expect(unread.standing).toBe("invalid");
      expect(decided(unread.cursor, 3, { concurrencyPolicy: "Forbid" })).toMatchObject({
        create: [],
        to: { once },
      });
    });

  test("metadata", () => {
    const job = jobFromResource(
      {
        metadata: { ...METADATA, annotations: { "carillon.dev/run-now": "42" } },
        spec: { schedule: { cron: "@daily" }, webhook: { url: "https://example.com/" } },
      },
      "account-1",
    );
    expect(job).toMatchObject({
      uid: METADATA.uid,
      account: "account-1",
      id: "nightly",
      generation: 3,
      createdAt: Date.UTC(2026, 10, 21, 12),
      owner: null,
      runNow: "42",
    });
  });

  test.each([
    { title: "3 kB", text: "x".repeat(3_000) },
    { title: "NUL", text: "a\0" },
  ])("run-now of $title becomes a key that PostgreSQL takes", ({ text }) => {
    const runNow = runNowOf(text);
    expect(runNow).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(runNowOf(`${text}!`)).not.toBe(runNow);
  });

  test("an empty run-now asks for no run", () => {
    expect(runNowOf("")).toBeNull();
    expect(runNowOf(" ")).toBe(" ");
  });

  test("the version does not change with a status write", () => {
    const before = jobFromResource({ metadata: METADATA }, null);
    const after = jobFromResource({ metadata: { ...METADATA, resourceVersion: "18" } }, null);
    expect(after.version).toBe(before.version);
  });
});

test.each([
  { url: "http://example.com:65536/", message: "must have a port from 1 to 65535" },
  { url: "http://a..b/", message: "has a dot too many in the name of its host" },
  {
    url: `http://${"a".repeat(64)}.example/`,
    message:
      "has a host name longer than DNS allows: at most 63 characters between two dots and 253 in all",
  },
  { url: "http://example.com./", message: undefined },
])("a webhook to $url is judged as by REST: $message", ({ url, message }) => {
  const spec = { schedule: { cron: "0 3 * * *" }, webhook: { url } };
  const { refusal } = jobFromResource({ metadata: METADATA, spec }, null).spec;
  expect(refusal).toEqual(message && { field: "webhook_url", message });
});

const nested = (levels: number, inmost = "1") =>
  `${'{"a":'.repeat(levels)}${inmost}${"}".repeat(levels)}`;

describe("what is larger than it may be", () => {
  const MOST = 256 * 1_024;
  const url = "https://example.com/";
  const schedule = { cron: "0 3 * * *" };
  const webhook = (payload: unknown): ScheduledJob["spec"] => ({
    schedule,
    webhook: { url, payload },
  });
  const email = (body: string): ScheduledJob["spec"] => ({
    schedule,
    email: { to: "ada@example.com", subject: "Soon", body },
  });

  test.each<{ title: string; spec: ScheduledJob["spec"]; field: string | undefined }>([
    { title: "largest payload", spec: webhook({ a: "x".repeat(MOST - 8) }), field: undefined },
    {
      title: "payload one byte larger",
      spec: webhook({ a: "x".repeat(MOST - 7) }),
      field: "webhook_payload",
    },
    {
      title: "payload counted in bytes",
      spec: webhook({ a: "é".repeat(MOST / 2) }),
      field: "webhook_payload",
    },
    { title: "largest body", spec: email("x".repeat(MOST)), field: undefined },
    { title: "body counted in bytes", spec: email("é".repeat(MOST - 1)), field: "email_body" },
  ])("$title", ({ spec, field }) => {
    const resource = { metadata: METADATA, spec };
    const whole = jobFromResource(resource, null);
    const kept = keptJobFromResource(resource, null);
    expect(kept.spec.refusal?.field).toBe(field);
    expect(whole.spec.refusal).toEqual(kept.spec.refusal);
    expect(JSON.stringify(whole).length).toBeGreaterThan(MOST / 2);
    expect(JSON.stringify(kept).length < 1_500).toBe(field !== undefined);
  });

  // As deep as the API server accepts, deeper than the stack, and with a number that has to be read exactly.
  test.each([
    { title: "deepest payload", payload: nested(63), refused: false },
    { title: "payload one level deeper", payload: nested(64), refused: true },
    { title: "payload of thousands of levels", payload: nested(9_900), refused: true },
    {
      title: "payload of thousands of levels around a large number",
      payload: nested(9_900, "12345678901234567890"),
      refused: true,
    },
  ])("$title", ({ payload, refused }) => {
    const spec = parseExactJson(
      `{"schedule":{"cron":"0 3 * * *"},"webhook":{"url":"${url}","payload":${payload}}}`,
    ) as ScheduledJobSpec;
    const { target, refusal } = jobFromResource({ metadata: METADATA, spec }, null).spec;
    expect(refusal).toEqual(
      refused
        ? { field: "webhook_payload", message: "must be nested at most 63 levels deep" }
        : undefined,
    );
    expect(target).toMatchObject({ payload });
    const kept = keptJobFromResource({ metadata: METADATA, spec }, null).spec.target;
    expect(kept).toMatchObject({ payload: refused ? "" : payload });
  });
});

test("jobs with equal schedules and retry policies share them", () => {
  const retry = { maxRetries: 3 };
  const daily = () => specFromResource({ schedule: { cron: "0 3 * * *" }, retry }, "job");
  const hourly = specFromResource({ schedule: { cron: "0 * * * *" }, retry }, "job");
  expect(daily().schedule).toBe(daily().schedule);
  expect(daily().retry).toBe(hourly.retry);
  for (const shared of [hourly.schedule, hourly.retry]) expect(Object.isFrozen(shared)).toBe(true);
  expect(hourly.schedule).toEqual({ kind: "cron", expression: "0 * * * *", timeZone: "UTC" });
});

test("a schedule that is too long to be valid is not kept", () => {
  const spec = { schedule: { cron: "0".repeat(257) } };
  const { schedule } = specFromResource(spec, "job");
  expect(specFromResource(spec, "job").schedule).not.toBe(schedule);
});

test.each([
  { maxRetries: 1, minBackoffSeconds: 11, maxBackoffSeconds: 2 },
  { maxRetries: 11, minBackoffSeconds: 1, maxBackoffSeconds: 2 },
  { maxRetries: 1, minBackoffSeconds: 1, maxBackoffSeconds: 12 },
])(
  "a retry policy is nobody else's: $maxRetries $minBackoffSeconds $maxBackoffSeconds",
  (retry) => {
    expect(specFromResource({ retry }, "job").retry).toEqual(retry);
  },
);
