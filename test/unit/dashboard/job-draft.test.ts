import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Job } from "../../../src/dashboard/src/api-types.ts";
import { parseExactly } from "../../../src/dashboard/src/exact-json.ts";
import { curlOf } from "../../../src/dashboard/src/pages/job-curl.ts";
import {
  bodyOf,
  changedByOthers,
  changesOf,
  changesToCheck,
  copyOf,
  draftOf,
  emptyDraft,
  type JobDraft,
} from "../../../src/dashboard/src/pages/job-draft.ts";

// The clocks go back on 25 October 2026 at 03:00, 01:00 UTC: 02:30 comes twice.
beforeAll(() => {
  vi.stubEnv("TZ", "Europe/Berlin");
});
afterAll(() => {
  vi.unstubAllEnvs();
});

const CRON: Job = {
  id: "job-1",
  name: "Nightly report",
  type: "webhook",
  schedule_type: "cron",
  cron_expression: "0 3 * * *",
  timezone: "Europe/Paris",
  run_at: null,
  status: "active",
  created_at: "2026-01-01T00:00:00.000Z",
  webhook_url: "https://example.com/hooks",
  webhook_payload: { b: 1.5, a: "x" },
  webhook_headers: { "X-Team": "blue" },
  timeout_seconds: 30,
  email_to: null,
  email_subject: null,
  email_body: null,
  email_is_html: null,
  max_retries: 0,
  min_backoff_seconds: 5,
  max_backoff_seconds: 3_600,
  starting_deadline_seconds: null,
  delivery_deadline_seconds: 3_600,
  concurrency_policy: "Allow",
  next_run_at: null,
  last_run_at: null,
  last_status: null,
  circuit: "closed",
  halted: false,
};
const once = (runAt: string): Job => ({
  ...CRON,
  schedule_type: "one_time",
  cron_expression: null,
  timezone: null,
  run_at: runAt,
});
const EMAIL: Job = {
  ...CRON,
  type: "email",
  webhook_url: null,
  webhook_payload: null,
  webhook_headers: null,
  timeout_seconds: null,
  email_to: "ada@example.com",
  email_subject: "Hello",
  email_body: "It works.",
  email_is_html: false,
};
const MILLISECONDS = once("2026-11-21T12:00:00.123Z");
/** The second 02:30. */
const REPEATED_HOUR = once("2026-10-25T01:30:00.000Z");

const changes: { what: string; job: Job; edit: Partial<JobDraft>; sent: object }[] = [
  { what: "nothing, of a cron job", job: CRON, edit: {}, sent: {} },
  { what: "nothing, of an email", job: EMAIL, edit: {}, sent: {} },
  { what: "nothing, of a time with milliseconds", job: MILLISECONDS, edit: {}, sent: {} },
  { what: "nothing, of a time in a repeated hour", job: REPEATED_HOUR, edit: {}, sent: {} },
  { what: "the name alone", job: MILLISECONDS, edit: { name: "New" }, sent: { name: "New" } },
  {
    what: "the time to another",
    job: MILLISECONDS,
    edit: { run_at: "2026-11-21T14:00" },
    sent: { run_at: "2026-11-21T13:00:00.000Z" },
  },
  {
    what: "the time and back, as the browser then writes it",
    job: REPEATED_HOUR,
    edit: { run_at: "2026-10-25T02:30" },
    sent: {},
  },
  {
    what: "the time zone alone",
    job: CRON,
    edit: { timezone: "UTC" },
    sent: { timezone: "UTC" },
  },
  {
    what: "a schedule to a time",
    job: CRON,
    edit: { schedule_type: "one_time", run_at: "2026-11-21T14:00" },
    sent: { schedule_type: "one_time", run_at: "2026-11-21T13:00:00.000Z" },
  },
  {
    what: "a time to a schedule",
    job: MILLISECONDS,
    edit: { schedule_type: "cron" },
    sent: { schedule_type: "cron", cron_expression: "0 3 * * *", timezone: "UTC" },
  },
  {
    what: "a webhook to an email",
    job: CRON,
    edit: { type: "email", email_to: " ada@example.com ", email_subject: "S", email_body: "B" },
    sent: {
      type: "email",
      email_to: "ada@example.com",
      email_subject: "S",
      email_body: "B",
      email_is_html: false,
    },
  },
  {
    what: "an email to a webhook",
    job: EMAIL,
    edit: { type: "webhook", webhook_url: " https://example.com/ " },
    sent: {
      type: "webhook",
      webhook_url: "https://example.com/",
      webhook_payload: {},
      webhook_headers: {},
      timeout_seconds: 30,
    },
  },
  {
    what: "the payload",
    job: CRON,
    edit: { webhook_payload: '{"a": 1}' },
    sent: { webhook_payload: { a: 1 } },
  },
  {
    what: "the order of the payload",
    job: CRON,
    edit: { webhook_payload: '{"a": "x", "b": 1.5}' },
    sent: { webhook_payload: { a: "x", b: 1.5 } },
  },
  {
    what: "the spaces of the payload, which nobody receives",
    job: CRON,
    edit: { webhook_payload: '{"b":1.5,"a":"x"}' },
    sent: {},
  },
  {
    what: "the headers",
    job: CRON,
    edit: { webhook_headers: [] },
    sent: { webhook_headers: {} },
  },
  {
    what: "a limit to none, which resets it",
    job: { ...CRON, starting_deadline_seconds: 60 },
    edit: { starting_deadline_seconds: "", max_retries: 3 },
    sent: { starting_deadline_seconds: null, max_retries: 3 },
  },
];

describe("an edit sends what was changed", () => {
  test.each(changes)("$what", ({ job, edit, sent }) => {
    const start = draftOf(job);
    expect(changesOf({ ...start, ...edit }, start)).toEqual({ ok: true, body: sent });
  });

  test("a schedule in the account's time zone, where the job had none", () => {
    const start = draftOf(MILLISECONDS, "Asia/Tokyo");
    expect(changesOf({ ...start, schedule_type: "cron" }, start).body).toMatchObject({
      timezone: "Asia/Tokyo",
    });
    expect(draftOf(CRON, "Asia/Tokyo").timezone).toBe("Europe/Paris");
  });

  test("a payload that cannot be sent is said, with the other changes", () => {
    const start = draftOf(CRON);
    const result = changesOf({ ...start, name: "New", webhook_payload: "[]" }, start);
    expect(result).toMatchObject({ ok: false, field: "webhook_payload", body: { name: "New" } });
    expect(Object.keys(result.body)).toEqual(["name"]);
  });
});

describe("a time that cannot be sent is refused", () => {
  test.each([
    { what: "none", runAt: "", message: "enter a date and a time" },
    {
      what: "one in five digits",
      runAt: "12026-11-21T12:00",
      message: "must be in a year of four digits",
    },
  ])("$what", ({ runAt, message }) => {
    const start = draftOf(MILLISECONDS);
    const draft = { ...start, run_at: runAt };
    const refused = { ok: false, field: "run_at", message };
    for (const type of ["webhook", "email"] as const)
      expect(bodyOf({ ...draft, type })).toMatchObject(refused);
    expect(changesOf(draft, start)).toMatchObject({ ...refused, body: { run_at: null } });
    expect(bodyOf({ ...draft, schedule_type: "cron" })).toMatchObject({ ok: true });
  });
});

describe("headers that an object would lose are refused", () => {
  test.each([
    {
      what: "a value without a name",
      headers: [{ name: " ", value: "Bearer x" }],
      field: "webhook_headers",
      message: "have a value without a name: enter one, or remove the header",
    },
    {
      what: "a name that comes twice",
      headers: [
        { name: "X-Team", value: "blue" },
        { name: "x-team ", value: "red" },
      ],
      field: "webhook_headers.x-team",
      message: "is given twice",
    },
  ])("$what", ({ headers, field, message }) => {
    const result = bodyOf({ ...draftOf(CRON), webhook_headers: headers });
    expect(result).toMatchObject({ ok: false, field, message });
  });

  test("but not a line that was left empty", () => {
    const headers = [
      { name: "", value: "" },
      { name: "X-Team", value: "" },
    ];
    const result = bodyOf({ ...draftOf(CRON), webhook_headers: headers });
    expect(result).toMatchObject({ ok: true, body: { webhook_headers: { "X-Team": "" } } });
  });
});

describe("an edit is checked with the schedule as it stands, for its fire times", () => {
  test.each([
    {
      what: "a cron job",
      job: CRON,
      asked: { schedule_type: "cron", cron_expression: "0 3 * * *", timezone: "Europe/Paris" },
    },
    {
      what: "a time with milliseconds",
      job: MILLISECONDS,
      asked: { schedule_type: "one_time", run_at: "2026-11-21T12:00:00.123Z" },
    },
    {
      what: "a time in a repeated hour",
      job: REPEATED_HOUR,
      asked: { schedule_type: "one_time", run_at: "2026-10-25T01:30:00.000Z" },
    },
  ])("$what", ({ job, asked }) => {
    const start = draftOf(job);
    expect(changesToCheck(start, start)).toEqual(asked);
    expect(changesToCheck({ ...start, name: "New" }, start)).toEqual({ ...asked, name: "New" });
  });
});

describe("a new job is sent whole", () => {
  test("as the form begins", () => {
    expect(bodyOf({ ...emptyDraft("Europe/Paris"), name: "New" })).toEqual({
      ok: true,
      body: {
        name: "New",
        type: "webhook",
        schedule_type: "cron",
        cron_expression: "0 3 * * *",
        timezone: "Europe/Paris",
        webhook_url: "",
        webhook_payload: {},
        webhook_headers: {},
        timeout_seconds: 30,
        max_retries: 0,
        min_backoff_seconds: 5,
        max_backoff_seconds: 3_600,
        starting_deadline_seconds: null,
        delivery_deadline_seconds: 3_600,
        concurrency_policy: "Allow",
      },
    });
  });

  test.each([
    "9007199254740993",
    "-12345678901234567890",
    "0.12345678901234567890",
    "1e400",
    "1e-400",
    "123456789012345678.90E2",
  ])("a number that the browser would change is not sent: %s", (number) => {
    const draft = { ...emptyDraft("UTC"), webhook_payload: `{"id":[${number}]}` };
    expect(bodyOf(draft)).toMatchObject({
      ok: false,
      field: "webhook_payload",
      message: `the number ${number} would change in a JSON round trip; send it as a string`,
    });
  });

  test.each([
    { payload: '{"to":"ada","to":"grace"}', key: '"to"' },
    { payload: '{"list":[1,{"a":{"b":1},"b":2,"a":3}]}', key: '"a"' },
    { payload: '{ "\\u0061" : 1, "a" : 2 }', key: '"a"' },
    { payload: '{"__proto__":1,"__proto__":2}', key: '"__proto__"' },
    { payload: '{"say \\"a\\":":1,"x":"","say \\"a\\":":1}', key: '"say \\"a\\":"' },
  ])("a key of which the browser would drop one is not sent: $payload", ({ payload, key }) => {
    const draft = { ...emptyDraft("UTC"), webhook_payload: payload };
    expect(bodyOf(draft)).toMatchObject({
      ok: false,
      field: "webhook_payload",
      message: `the key ${key} is given twice`,
    });
  });

  test.each([
    '{"a":{"a":{"a":"a"}},"b":["a","a",{"a":1},{"a":1}]}',
    '{"a":"\\"a\\":1","b":"{\\"a\\":1,\\"a\\":1}"}',
    '{"A":1,"a":2,"":3}',
  ])("the same key in another object, or in a string, is sent: %s", (payload) => {
    const draft = { ...emptyDraft("UTC"), webhook_payload: payload };
    expect(bodyOf(draft)).toMatchObject({
      ok: true,
      body: { webhook_payload: JSON.parse(payload) },
    });
  });

  test.each([
    {
      what: "nothing but white space",
      payload: " \n",
      sent: { ok: true, body: { webhook_payload: {} } },
    },
    ...["null", "[]", "1"].map((payload) => ({
      what: payload,
      payload,
      sent: { ok: false, field: "webhook_payload", message: "must be a JSON object, in braces" },
    })),
  ])("a payload of $what", ({ payload, sent }) => {
    expect(bodyOf({ ...emptyDraft("UTC"), webhook_payload: payload })).toMatchObject(sent);
  });

  test("all other numbers are, and what looks like one in a string or a name", () => {
    const long = "12345678901234567890";
    const payload = `{"${long}":"\\" ${long}","n":[0,-0.0,1.50,1e2,1E+21,-9007199254740992,12300000000000000000000]}`;
    const draft = { ...emptyDraft("UTC"), webhook_payload: payload };
    expect(bodyOf(draft)).toMatchObject({
      ok: true,
      body: { webhook_payload: JSON.parse(payload) },
    });
  });

  test.each([
    { what: "any name", name: "Nightly report", copy: "Nightly report (copy)" },
    { what: "255 letters", name: "x".repeat(255), copy: `${"x".repeat(248)} (copy)` },
    { what: "255 bells", name: "\u{1f514}".repeat(255), copy: `${"\u{1f514}".repeat(248)} (copy)` },
  ])("a copy says so: $what", ({ name, copy }) => {
    expect(copyOf({ ...CRON, name }).name).toBe(copy);
  });

  test("a copy has the time of the original", () => {
    for (const job of [MILLISECONDS, REPEATED_HOUR])
      expect(bodyOf(copyOf(job)).body["run_at"]).toBe(job.run_at);
  });
});

describe("a payload that kubectl made, with a number that a double does not hold", () => {
  const text = '{"big":12345678901234567,"small":1.50}';
  const job: Job = { ...CRON, webhook_payload: parseExactly(text) };

  test("is shown as it is", () => {
    expect(JSON.stringify(job.webhook_payload)).toBe('{"big":12345678901234567,"small":1.5}');
    expect(curlOf(job, "http://127.0.0.1")).toContain('"big": 12345678901234567');
  });

  test("stays while something else is changed", () => {
    const start = draftOf(job);
    const changed = { ...start, name: "Other" };
    expect(changesOf(changed, start)).toEqual({ ok: true, body: { name: "Other" } });
  });

  test("is not copied as another one", () => {
    expect(bodyOf(copyOf(job))).toMatchObject({
      ok: false,
      field: "webhook_payload",
      message: expect.stringContaining("the number 12345678901234567 would change") as string,
    });
  });
});

/** As kubectl may have set it: a number that changes when it is read and written again. */
const inexact = (number: string): Job => ({
  ...CRON,
  ...(parseExactly(`{"webhook_payload":{"n":${number}}}`) as Pick<Job, "webhook_payload">),
});

const changedElsewhere: { what: string; now: Job; edit: Partial<JobDraft>; fields: string[] }[] = [
  { what: "nothing", now: CRON, edit: { webhook_url: "https://b" }, fields: [] },
  {
    what: "another field",
    now: { ...CRON, name: "Theirs" },
    edit: { webhook_url: "https://b" },
    fields: [],
  },
  { what: "the field", now: { ...CRON, name: "Theirs" }, edit: { name: "Mine" }, fields: ["name"] },
  {
    what: "nothing, and the edit changes the kind",
    now: CRON,
    edit: { type: "email", email_to: "b@example.com" },
    fields: [],
  },
  { what: "the kind, which the edit is not about", now: EMAIL, edit: { name: "M" }, fields: [] },
  {
    what: "the kind that has the field",
    now: EMAIL,
    edit: { webhook_url: "https://b", timeout_seconds: 5 },
    fields: ["type"],
  },
  {
    what: "the kind, and a field of all kinds",
    now: { ...EMAIL, name: "Theirs" },
    edit: { name: "Mine", webhook_payload: "{}" },
    fields: ["type", "name"],
  },
  {
    what: "the kind of the schedule",
    now: MILLISECONDS,
    edit: { cron_expression: "5 4 * * *", webhook_url: "https://b" },
    fields: ["schedule_type"],
  },
  {
    what: "to the kind that the edit chooses",
    now: EMAIL,
    edit: { type: "email", email_to: "b@example.com", email_subject: "Hello" },
    fields: ["email_to", "email_body"],
  },
];

test.each(changedElsewhere)("somebody else has changed: $what", ({ now, edit, fields }) => {
  const start = draftOf(CRON);
  expect(changedByOthers({ ...start, ...edit }, start, draftOf(now))).toEqual(fields);
});

test("a payload that cannot be saved here, which somebody else has changed, is not replaced unseen", () => {
  const start = draftOf(inexact("9007199254740993"));
  const mine = { ...start, webhook_payload: '{"n":1}' };
  const theirs = draftOf(inexact("9007199254740995"));
  expect(changedByOthers(mine, start, theirs)).toEqual(["webhook_payload"]);
  expect(changedByOthers(mine, start, start)).toEqual([]);
});
