import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { HOUR } from "../../../src/domain/instant.ts";
import type { CircuitState } from "../../../src/domain/ports/circuits.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { JobExists, JobNotFound } from "../../../src/domain/ports/job-store.ts";
import { createCircuits } from "../../../src/postgres/circuits.ts";
import { startHarness, type Harness } from "./harness.ts";
import { unfinishedRuns } from "../../postgres/unfinished-runs.ts";

let h: Harness;
beforeAll(async () => {
  h = await startHarness();
});
afterAll(() => h.close());

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const webhookCron = {
  name: "Nightly report",
  type: "webhook",
  schedule_type: "cron",
  cron_expression: "0 3 * * *",
  webhook_url: "https://example.com/hook",
};
const emailOnce = {
  name: "Reminder",
  type: "email",
  schedule_type: "one_time",
  run_at: "2030-01-31T10:00:00+01:00",
  email_to: "ada@example.com",
  email_subject: "Soon",
  email_body: "It is soon.",
};

const post = (json: object, more: { key?: string; headers?: Record<string, string> } = {}) =>
  h.request({ method: "POST", path: "/jobs", json, ...more });
async function made(json: object = webhookCron): Promise<string> {
  const reply = await post(json);
  if (reply.status !== 201) throw new Error(reply.text);
  return String(reply.json["id"]);
}
const get = (id: string, key = h.first.key) => h.request({ path: `/jobs/${id}`, key });
const patch = (id: string, json: object, key = h.first.key) =>
  h.request({ method: "PATCH", path: `/jobs/${id}`, json, key });
const act = (id: string, verb: string, headers: Record<string, string> = {}) =>
  h.request({ method: "POST", path: `/jobs/${id}/${verb}`, headers });

/** Publishes a circuit of the first account, as a worker does. */
const publish = (state: CircuitState, worker: string) =>
  createCircuits({ pool: h.pool }).publish({
    account: h.first.account,
    destination: "https://down.example.com",
    worker,
    state,
  });

describe("POST /jobs", () => {
  test("201 for a cron webhook: the spec's fields and run_at", async () => {
    const reply = await post(webhookCron);
    expect(reply.status).toBe(201);
    expect(reply.json).toEqual({
      id: expect.stringMatching(/^job-[0-9a-f-]{36}$/),
      name: "Nightly report",
      type: "webhook",
      schedule_type: "cron",
      cron_expression: "0 3 * * *",
      run_at: null,
      status: "active",
      created_at: expect.stringMatching(ISO),
    });
  });

  test("201 for a one-time email", async () => {
    const reply = await post(emailOnce);
    expect(reply.status).toBe(201);
    expect(reply.json).toMatchObject({
      type: "email",
      schedule_type: "one_time",
      cron_expression: null,
      run_at: "2030-01-31T09:00:00.000Z",
      status: "active",
    });
  });

  test("null counts as not given", async () => {
    expect((await post({ ...webhookCron, run_at: null, email_to: null })).status).toBe(201);
  });

  const { name: _name, ...unnamed } = webhookCron;
  const { webhook_url: _url, ...withoutUrl } = webhookCron;
  const { cron_expression: _cron, ...withoutCron } = webhookCron;
  const { run_at: _runAt, ...withoutRunAt } = emailOnce;
  const { email_to: _to, ...withoutTo } = emailOnce;
  const { email_subject: _subject, ...withoutSubject } = emailOnce;
  const { email_body: _body, ...withoutBody } = emailOnce;
  const refused = [
    { name: "name missing", json: unnamed, field: "name" },
    { name: "type missing", json: { ...webhookCron, type: undefined }, field: "type" },
    {
      name: "schedule_type missing",
      json: { ...webhookCron, schedule_type: undefined },
      field: "schedule_type",
    },
    { name: "type unknown", json: { ...webhookCron, type: "sms" }, field: "type" },
    { name: "cron_expression missing", json: withoutCron, field: "cron_expression" },
    { name: "run_at missing", json: withoutRunAt, field: "run_at" },
    { name: "webhook_url missing", json: withoutUrl, field: "webhook_url" },
    { name: "email_to missing", json: withoutTo, field: "email_to" },
    { name: "email_subject missing", json: withoutSubject, field: "email_subject" },
    { name: "email_body missing", json: withoutBody, field: "email_body" },
    { name: "name empty", json: { ...webhookCron, name: "" }, field: "name" },
    { name: "name with one BEL", json: { ...webhookCron, name: "a\u0007b" }, field: "name" },
    { name: "name of spaces", json: { ...webhookCron, name: " \u3000" }, field: "name" },
    { name: "name too long", json: { ...webhookCron, name: "n".repeat(256) }, field: "name" },
    { name: "an unknown field", json: { ...webhookCron, cron: "x" }, field: "cron" },
    { name: "status given", json: { ...webhookCron, status: "paused" }, field: "status" },
    {
      name: "a cron of six fields",
      json: { ...webhookCron, cron_expression: "0 0 3 * * *" },
      field: "cron_expression",
    },
    {
      name: "a cron that never fires",
      json: { ...webhookCron, cron_expression: "0 0 31 2 *" },
      field: "cron_expression",
    },
    {
      name: "an unknown time zone",
      json: { ...webhookCron, timezone: "Mars/Base" },
      field: "timezone",
    },
    {
      name: "run_at in the past",
      json: { ...emailOnce, run_at: "2020-01-01T00:00:00Z" },
      field: "run_at",
    },
    {
      name: "run_at without offset",
      json: { ...emailOnce, run_at: "2030-01-01" },
      field: "run_at",
    },
    { name: "a bad address", json: { ...emailOnce, email_to: "ada" }, field: "email_to" },
    {
      name: "an email field on a webhook",
      json: { ...webhookCron, email_to: "a@x.io" },
      field: "email_to",
    },
    {
      name: "run_at on a cron job",
      json: { ...webhookCron, run_at: "2030-01-01T00:00:00Z" },
      field: "run_at",
    },
    { name: "timezone on a one-time", json: { ...emailOnce, timezone: "UTC" }, field: "timezone" },
    {
      name: "a URL of another scheme",
      json: { ...webhookCron, webhook_url: "ftp://example.com/" },
      field: "webhook_url",
    },
    {
      name: "user info in the URL",
      json: { ...webhookCron, webhook_url: "https://u:p@example.com/" },
      field: "webhook_url",
    },
    {
      name: "a private address",
      json: { ...webhookCron, webhook_url: "http://10.0.0.1/" },
      field: "webhook_url",
    },
    {
      name: "a private address in disguise",
      json: { ...webhookCron, webhook_url: "http://0x0a.1/" },
      field: "webhook_url",
    },
    {
      name: "payload an array",
      json: { ...webhookCron, webhook_payload: [] },
      field: "webhook_payload",
    },
    {
      name: "payload over 256 KiB",
      json: { ...webhookCron, webhook_payload: { a: "x".repeat(262_144) } },
      field: "webhook_payload",
    },
    {
      name: "a reserved header",
      json: { ...webhookCron, webhook_headers: { "Webhook-Id": "x" } },
      field: "webhook_headers.Webhook-Id",
    },
    { name: "11 retries", json: { ...webhookCron, max_retries: 11 }, field: "max_retries" },
    {
      name: "a minimum backoff above the maximum",
      json: { ...webhookCron, min_backoff_seconds: 20, max_backoff_seconds: 10 },
      field: "min_backoff_seconds",
    },
    {
      name: "an unknown policy",
      json: { ...webhookCron, concurrency_policy: "allow" },
      field: "concurrency_policy",
    },
  ];
  test.each(refused)("400: $name", async ({ json, field }) => {
    const reply = await post(json);
    expect([reply.status, reply.json["code"]]).toEqual([400, "invalid_request"]);
    expect(reply.json["details"]).toContainEqual({ field, message: expect.any(String) });
  });

  test("400: a number in the payload that would change", async () => {
    const reply = await h.request({
      method: "POST",
      path: "/jobs",
      body: JSON.stringify({ ...webhookCron, webhook_payload: { n: 0 } }).replace(
        '"n":0',
        '"n":9007199254740993',
      ),
    });
    expect(reply.status).toBe(400);
    expect(reply.json["error"]).toContain("9007199254740993");
  });

  test("201 for a job that the store made at a try of its own, whose answer was lost", async () => {
    const store = { ...h.jobs };
    const exists = vi.spyOn(h.jobs, "create").mockImplementationOnce(async (job) => {
      await store.create(job);
      throw new JobExists(`a job ${job.id} exists already`);
    });
    const reply = await post({ ...webhookCron, name: "Made at once" });
    exists.mockRestore();
    expect(reply.status).toBe(201);
    expect((await get(String(reply.json["id"]))).json).toMatchObject({ name: "Made at once" });
  });

  test("Idempotency-Key: one job, the same answer; 409 for another body", async () => {
    const headers = { "Idempotency-Key": "job-1" };
    const first = await post(webhookCron, { headers });
    const second = await post(webhookCron, { headers });
    expect(second.text).toBe(first.text);
    const other = await post({ ...webhookCron, name: "Other" }, { headers });
    expect([other.status, other.json["code"]]).toEqual([409, "idempotency_mismatch"]);
    // As if the first try had died after the job was stored: the retry finds the job.
    await h.pool.query("delete from idempotency_keys where key = 'job-1'");
    const third = await post(webhookCron, { headers });
    expect([third.status, third.json["id"]]).toEqual([201, first.json["id"]]);
    await h.pool.query("delete from idempotency_keys where key = 'job-1'");
    const changed = await post({ ...webhookCron, name: "Other" }, { headers });
    expect([changed.status, changed.json["code"]]).toEqual([409, "conflict"]);
  });

  test("Idempotency-Key: a request whose predecessor died does the work, once that is certain", async () => {
    const headers = { "Idempotency-Key": "job-of-the-dead" };
    const first = await post(webhookCron, { headers });
    const again = async (begun: string) => {
      await h.pool.query(
        `update idempotency_keys set status = null, body = null, started_at = now() - $1::interval
         where key = 'job-of-the-dead'`,
        [begun],
      );
      return post(webhookCron, { headers });
    };
    const busy = await again("30 seconds");
    expect([busy.status, busy.json["code"]]).toEqual([409, "idempotency_in_flight"]);
    const second = await again("61 seconds");
    expect([second.status, second.json["id"]]).toEqual([201, first.json["id"]]);
  });

  test("Idempotency-Key: the replay of a job whose time has come is the first answer", async () => {
    const headers = { "Idempotency-Key": "job-2" };
    const runAt = h.clock.now() + HOUR;
    const oneTime = { ...emailOnce, run_at: new Date(runAt).toISOString() };
    const first = await post(oneTime, { headers });
    const now = vi.spyOn(h.clock, "now").mockReturnValue(runAt + HOUR);
    const second = await post(oneTime, { headers });
    const another = await post(oneTime);
    // As if the first try had broken off: only the job is left, and it has run.
    await h.pool.query("delete from idempotency_keys where key = 'job-2'");
    await h.takeUp(h.first.account, String(first.json["id"]), { once: "completed" });
    const third = await post(oneTime, { headers });
    now.mockRestore();
    for (const again of [second, third])
      expect([again.status, again.text]).toEqual([201, first.text]);
    expect([another.status, another.json["code"]]).toEqual([400, "invalid_request"]);
  });

  test("Idempotency-Key: a job that a first try left is found when its payload is equal JSON", async () => {
    const headers = { "Idempotency-Key": "job-3" };
    const first = await post(
      { ...webhookCron, webhook_payload: { a: 1, b: [2, 1e23] } },
      { headers },
    );
    // In the form in which the API server returns it.
    await h.pool.query("delete from idempotency_keys where key = 'job-3'");
    const second = await h.request({
      method: "POST",
      path: "/jobs",
      headers,
      body: JSON.stringify({ ...webhookCron, webhook_payload: 0 }).replace(
        '"webhook_payload":0',
        '"webhook_payload":{ "b": [2.0, 100000000000000000000000], "a": 1 }',
      ),
    });
    expect([second.status, second.json["id"]]).toEqual([201, first.json["id"]]);
  });

  test("Idempotency-Key: nor does it matter that a zero had a sign, which no store keeps", async () => {
    const create = () =>
      h.request({
        method: "POST",
        path: "/jobs",
        body: JSON.stringify(webhookCron).replace("}", ',"max_retries":-0}'),
        headers: { "Idempotency-Key": "job-of-a-negative-zero" },
      });
    const first = await create();
    expect(first.status).toBe(201);
    await h.pool.query("delete from idempotency_keys where key = 'job-of-a-negative-zero'");
    const again = await create();
    expect([again.status, again.json["id"]]).toEqual([201, first.json["id"]]);
  });

  test("Idempotency-Key: nor does it matter what keys the payloads of others had", async () => {
    const headers = { "Idempotency-Key": "job-4" };
    const payload = { first_of_job_4: 1, '"': 1 };
    await post({ ...webhookCron, webhook_payload: { first_of_job_4: 1, "\\": 1 } });
    const first = await post({ ...webhookCron, webhook_payload: payload }, { headers });
    await h.pool.query("delete from idempotency_keys where key = 'job-4'");
    const reordered = { '"': 1, first_of_job_4: 1 };
    const second = await post({ ...webhookCron, webhook_payload: reordered }, { headers });
    expect([second.status, second.json["id"]]).toEqual([201, first.json["id"]]);
  });
});

describe("GET /jobs", () => {
  test("200: an array of exactly the spec's fields, oldest first, of this account alone", async () => {
    const { key } = h.second;
    const names = ["one", "two", "three"];
    for (const name of names) await post({ ...webhookCron, name }, { key });
    const reply = await h.request({ path: "/jobs", key });
    expect(reply.status).toBe(200);
    const jobs = JSON.parse(reply.text) as Record<string, unknown>[];
    expect(jobs.map((job) => job["name"])).toEqual(names);
    expect(Object.keys(jobs[0] ?? {})).toEqual([
      "id",
      "name",
      "type",
      "schedule_type",
      "cron_expression",
      "status",
      "created_at",
    ]);
  });

  test("filters: status, type, schedule_type, q", async () => {
    const id = await made({ ...emailOnce, name: "Filter ÉTÉ" });
    const count = async (query: string) => {
      const reply = await h.request({ path: `/jobs?${query}` });
      return (JSON.parse(reply.text) as { id: string }[]).filter((job) => job.id === id).length;
    };
    expect(await count("type=email&schedule_type=one_time&status=active&q=%C3%A9t%C3%A9")).toBe(1);
    expect(await count("type=webhook")).toBe(0);
    expect(await count("schedule_type=cron")).toBe(0);
    expect(await count("status=paused")).toBe(0);
    expect(await count("q=winter")).toBe(0);
    expect((await h.request({ path: "/jobs?status=gone" })).status).toBe(400);
    expect((await h.request({ path: "/jobs?limit=5" })).status).toBe(400);
  });
});

describe("GET /jobs/{id}", () => {
  test("200: every field of a webhook job, the payload byte for byte", async () => {
    const payload = '{ "b": 1.0,\n "a": "\\u00e9", "2": [], "1": {} }';
    const body = JSON.stringify({
      ...webhookCron,
      timezone: "Europe/Paris",
      webhook_headers: { Authorization: "Bearer x" },
    }).replace(/\}$/, `,"webhook_payload":${payload}}`);
    const { json } = await h.request({ method: "POST", path: "/jobs", body });
    const reply = await get(String(json["id"]));
    expect(reply.status).toBe(200);
    expect(reply.text).toContain(`"webhook_payload":${payload}`);
    expect(reply.json).toEqual({
      ...json,
      timezone: "Europe/Paris",
      webhook_url: webhookCron.webhook_url,
      webhook_payload: JSON.parse(payload),
      webhook_headers: { Authorization: "Bearer x" },
      timeout_seconds: 30,
      email_to: null,
      email_subject: null,
      email_body: null,
      email_is_html: null,
      max_retries: 0,
      min_backoff_seconds: 5,
      max_backoff_seconds: 3600,
      starting_deadline_seconds: null,
      delivery_deadline_seconds: 3600,
      concurrency_policy: "Allow",
      next_run_at: expect.stringMatching(ISO),
      last_run_at: null,
      last_status: null,
      circuit: "closed",
      halted: false,
    });
  });

  test("200: tells of the open circuit of its destination, and of no other's", async () => {
    const [waiting, other] = [
      await made({ ...webhookCron, webhook_url: "https://down.example.com/a" }),
      await made({ ...webhookCron, webhook_url: "https://up.example.com/a" }),
    ];
    await publish("half_open", "one");
    expect((await get(waiting)).json).toMatchObject({ circuit: "half_open" });
    await publish("open", "two");
    expect((await get(waiting)).json).toMatchObject({ circuit: "open" });
    expect((await get(other)).json).toMatchObject({ circuit: "closed" });
    await publish("closed", "one");
    await publish("closed", "two");
    expect((await get(waiting)).json).toMatchObject({ circuit: "closed" });
  });

  test("200: an email job; what does not apply is null", async () => {
    const { json } = await get(await made(emailOnce));
    expect(json).toMatchObject({
      email_to: emailOnce.email_to,
      email_is_html: false,
      cron_expression: null,
      timezone: null,
      webhook_url: null,
      webhook_payload: null,
      timeout_seconds: null,
      next_run_at: "2030-01-31T09:00:00.000Z",
    });
  });

  test("404: unknown, malformed, or another account's", async () => {
    const id = await made();
    for (const reply of [await get("job-none"), await get("%00"), await get(id, h.second.key)])
      expect([reply.status, reply.json]).toEqual([
        404,
        { error: "job not found", code: "not_found" },
      ]);
  });
});

test.each([
  { method: "GET", path: "/jobs/%00" },
  { method: "PATCH", path: "/jobs/%00", json: { name: "x" } },
  { method: "DELETE", path: "/jobs/%00" },
  { method: "POST", path: "/jobs/%00/pause" },
  { method: "POST", path: "/jobs/%00/resume" },
  { method: "POST", path: "/jobs/%00/run" },
  { method: "GET", path: "/jobs/%00/executions" },
])("404 for a name that PostgreSQL cannot even be asked for: $method $path", async (request) => {
  const { status, json } = await h.request(request);
  expect([status, json["code"]]).toEqual([404, "not_found"]);
});

describe("PATCH /jobs/{id}", () => {
  test("200: what is absent stays, null resets, payload is replaced whole", async () => {
    const id = await made({ ...webhookCron, webhook_payload: { a: 1, b: 2 }, max_retries: 3 });
    const changed = await patch(id, { name: "Renamed", webhook_payload: { c: 3 } });
    expect(changed.status).toBe(200);
    expect(changed.json).toMatchObject({
      name: "Renamed",
      webhook_payload: { c: 3 },
      max_retries: 3,
      cron_expression: "0 3 * * *",
    });
    const kept = await patch(id, { cron_expression: "5 5 * * *" });
    expect(kept.json["webhook_payload"]).toEqual({ c: 3 });
    const reset = await patch(id, { webhook_payload: null, max_retries: null });
    expect(reset.json).toMatchObject({ webhook_payload: {}, max_retries: 0 });
  });

  test("200: another kind of job; the fields of the former kind go", async () => {
    const id = await made(webhookCron);
    const { name: _n, ...email } = emailOnce;
    const reply = await patch(id, email);
    expect(reply.status).toBe(200);
    expect(reply.json).toMatchObject({ type: "email", webhook_url: null, cron_expression: null });
  });

  test("200: a job whose run_at has passed can be renamed", async () => {
    const id = await made(emailOnce);
    await h.pool.query(
      `update jobs set spec = jsonb_set(spec, '{schedule,at}', '1600000000000') where id = $1`,
      [id],
    );
    const reply = await patch(id, { name: "Renamed" });
    expect(reply.status).toBe(200);
    expect((await patch(id, { run_at: "2020-01-01T00:00:00Z" })).status).toBe(400);
  });

  test.each([
    { name: "nothing", json: {}, field: "" },
    { name: "an unknown field", json: { id: "x" }, field: "id" },
    { name: "a required field reset", json: { webhook_url: null }, field: "webhook_url" },
    { name: "name null", json: { name: null }, field: "name" },
    { name: "another type without its fields", json: { type: "email" }, field: "email_to" },
    { name: "a field of the other kind", json: { email_to: "a@x.io" }, field: "email_to" },
    {
      name: "a refused URL",
      json: { webhook_url: "http://[::ffff:10.0.0.1]/" },
      field: "webhook_url",
    },
  ])("400: $name", async ({ json, field }) => {
    const reply = await patch(await made(), json);
    expect([reply.status, reply.json["code"]]).toEqual([400, "invalid_request"]);
    expect(reply.json["details"]).toContainEqual({ field, message: expect.any(String) });
  });

  test.each([
    {
      field: "status",
      says: "POST /jobs/{id}/pause pauses a job, POST /jobs/{id}/resume resumes it",
    },
    { field: "enabled", says: "POST /jobs/{id}/pause pauses a job" },
    { field: "constructor", says: "known are name, type," },
  ])("400: $field is not a field, and what is meant is said", async ({ field, says }) => {
    const reply = await patch(await made(), { [field]: "paused" });
    const message = expect.stringContaining(`is not a known field; ${says}`);
    expect(reply.json["details"]).toEqual([{ field, message }]);
  });

  test("404: another account's", async () => {
    expect((await patch(await made(), { name: "x" }, h.second.key)).status).toBe(404);
  });

  test("changes at the same time all arrive", async () => {
    const id = await made();
    const replies = await Promise.all([
      patch(id, { name: "A" }),
      patch(id, { max_retries: 2 }),
      patch(id, { timeout_seconds: 7 }),
    ]);
    expect(replies.map((reply) => reply.status)).toEqual([200, 200, 200]);
    expect((await get(id)).json).toMatchObject({ name: "A", max_retries: 2, timeout_seconds: 7 });
  });
});

describe("pause and resume", () => {
  test("200: paused, no next run; resumed, active again; both twice", async () => {
    const id = await made();
    for (const _ of [1, 2])
      expect((await act(id, "pause")).json).toMatchObject({ status: "paused", next_run_at: null });
    for (const _ of [1, 2])
      expect((await act(id, "resume")).json).toMatchObject({
        status: "active",
        next_run_at: expect.stringMatching(ISO),
      });
    expect((await act("job-none", "pause")).status).toBe(404);
    expect((await act("job-none", "resume")).status).toBe(404);
  });

  test("resume lifts the halt of a 410", async () => {
    const id = await made();
    await h.takeUp(h.first.account, id, { haltedGeneration: 1, startable: false });
    expect((await get(id)).json).toMatchObject({ status: "paused", halted: true });
    expect((await act(id, "resume")).json["status"]).toBe("active");
    expect((await get(id)).json["halted"]).toBe(false);
  });
});

describe("runs and executions", () => {
  test("POST /jobs/{id}/run 202, and the run becomes an execution of exactly these fields", async () => {
    const id = await made();
    await h.takeUp(h.first.account, id);
    const run = await act(id, "run");
    expect([run.status, run.json]).toEqual([202, { message: "run queued", job_id: id }]);
    await h.deliverOne(200);
    const reply = await h.request({ path: `/jobs/${id}/executions` });
    expect(reply.status).toBe(200);
    expect(JSON.parse(reply.text)).toEqual([
      {
        id: expect.any(String),
        job_id: id,
        status: "success",
        http_status: 200,
        duration_ms: 12,
        error_message: null,
        executed_at: expect.stringMatching(ISO),
        attempt: 1,
        trigger: "manual",
        scheduled_at: expect.stringMatching(ISO),
      },
    ]);
    expect((await get(id)).json).toMatchObject({
      last_status: "success",
      last_run_at: expect.stringMatching(ISO),
    });
  });

  test("a job that a 410 halted runs by hand, and stays halted", async () => {
    const id = await made();
    await h.takeUp(h.first.account, id, { haltedGeneration: 1, startable: false });
    expect((await act(id, "run")).status).toBe(202);
    await h.deliverOne(200);
    expect((await get(id)).json).toMatchObject({ status: "paused", last_status: "success" });
  });

  test("with an Idempotency-Key the job runs once", async () => {
    const id = await made();
    const job = await h.takeUp(h.first.account, id);
    const headers = { "Idempotency-Key": "run-1" };
    for (const _ of [1, 2]) expect((await act(id, "run", headers)).status).toBe(202);
    expect(await unfinishedRuns(h.pool, job.uid)).toHaveLength(1);
    await h.deliverOne(200);
  });

  test("a job that the scheduler takes up only now runs all the same", async () => {
    const id = await made();
    const run = act(id, "run");
    await h.takeUp(h.first.account, id);
    expect((await run).status).toBe(202);
    await h.deliverOne(200);
  });

  test("a job that is edited before the scheduler takes it up calls whom it is edited to", async () => {
    const id = await made();
    const tries = vi.spyOn(h.ledger, "runNow");
    const run = act(id, "run");
    await vi.waitFor(() => expect(tries).toHaveBeenCalled());
    await patch(id, { webhook_url: "http://127.0.0.1:9/" });
    const { uid } = await h.takeUp(h.first.account, id);
    expect((await run).status).toBe(202);
    tries.mockRestore();
    const { rows } = await h.pool.query<{ destination: string }>(
      "select destination from runs where job_uid = $1",
      [uid],
    );
    expect(rows).toEqual([{ destination: `${h.first.account} http://127.0.0.1:9` }]);
    await h.deliverOne(200);
  });

  test("400 for one that is larger than it may be, which only a resource can be", async () => {
    const refusal = { field: "webhook_payload", message: "must be at most 256 KiB and is 1 MiB" };
    const sound = await h.jobs.get(h.first.account, await made());
    if (!sound) throw new Error("not there");
    const { account, spec } = sound;
    if (account === null) throw new Error("no account");
    await h.jobs.create({ account, id: "large", spec: { ...spec, refusal } });
    await h.takeUp(account, "large", { startable: false });
    expect((await get("large")).json).toMatchObject({ status: "invalid", next_run_at: null });
    const reply = await act("large", "run");
    expect([reply.status, reply.json["details"]]).toEqual([400, [refusal]]);
  });

  test("400 for one whose schedule never fires, which only a resource can have", async () => {
    const sound = await h.jobs.get(h.first.account, await made());
    if (!sound) throw new Error("not there");
    const schedule = { kind: "cron", expression: "0 0 31 2 *", timeZone: "UTC" } as const;
    const { account } = h.first;
    await h.jobs.create({ account, id: "never", spec: { ...sound.spec, schedule } });
    await h.takeUp(account, "never", { startable: false });
    const reply = await act("never", "run");
    expect([reply.status, reply.json["details"]]).toMatchObject([
      400,
      [{ field: "cron_expression" }],
    ]);
  });

  test("503 when the scheduler does not take the job up; 404 for none", async () => {
    const reply = await act(await made(), "run");
    expect([reply.status, reply.json["code"]]).toEqual([503, "dependency_unavailable"]);
    expect(reply.headers.get("retry-after")).toBe("1");
    expect((await act("job-none", "run")).status).toBe(404);
  });

  test("limit, offset and status; newest first; include=missed; 400s", async () => {
    const id = await made();
    await h.takeUp(h.first.account, id);
    for (const status of [200, 500, 200]) {
      await act(id, "run");
      await h.deliverOne(status);
    }
    const list = async (query: string) =>
      JSON.parse((await h.request({ path: `/jobs/${id}/executions?${query}` })).text) as Record<
        string,
        unknown
      >[];
    const all = await list("");
    expect(all.map((each) => each["http_status"])).toEqual([200, 500, 200]);
    expect(await list("limit=1&offset=1")).toEqual([all[1]]);
    expect(await list("status=failed")).toEqual([all[1]]);
    expect(await list(`offset=${Number.MAX_SAFE_INTEGER}&limit=1000`)).toEqual([]);
    expect(await list(`offset=${Number.MAX_SAFE_INTEGER}&limit=1000&include=missed`)).toEqual([]);
    expect(all[1]?.["error_message"]).toBe("the receiver answered 500");
    const job = await h.jobs.get(h.first.account, id);
    if (!job) throw new Error("gone");
    const from = (await h.ledger.cursors([job.uid])).get(job.uid);
    if (!from) throw new Error("no cursor");
    const { jobUid: _uid, version: _version, ...to } = from;
    const at = h.clock.now();
    await h.ledger.apply([
      {
        job,
        spec: job.spec,
        from,
        to,
        create: [],
        replace: [],
        missed: [{ first: at - 60_000, last: at, count: 2, reason: "downtime" }],
      },
    ]);
    expect(await list("")).toHaveLength(3);
    const withMissed = await list("include=missed");
    expect(withMissed.map((each) => each["kind"])).toEqual(
      expect.arrayContaining(["missed", "execution"]),
    );
    const failedAndMissed = await list("include=missed&status=failed");
    expect(failedAndMissed.map((each) => each["kind"])).toEqual(["missed", "execution"]);
    expect(failedAndMissed[1]).toMatchObject({ http_status: 500 });
    expect(withMissed.find((each) => each["kind"] === "missed")).toEqual({
      id: expect.any(String),
      kind: "missed",
      job_id: id,
      reason: "downtime",
      count: 2,
      first_scheduled_at: expect.stringMatching(ISO),
      last_scheduled_at: expect.stringMatching(ISO),
    });
    for (const query of ["limit=0", "limit=1001", "offset=x", "status=ok", "include=all"])
      expect((await h.request({ path: `/jobs/${id}/executions?${query}` })).status).toBe(400);
  });

  test("200 and an empty array for a job that never ran; 404 without job and trace", async () => {
    const id = await made();
    const reply = await h.request({ path: `/jobs/${id}/executions` });
    expect([reply.status, reply.text]).toEqual([200, "[]"]);
    expect((await h.request({ path: "/jobs/job-none/executions" })).status).toBe(404);
    const others = await h.request({ path: `/jobs/${id}/executions`, key: h.second.key });
    expect(others.status).toBe(404);
  });
});

/** Records a span that was missed, and nothing else of the job. */
const missed = (id: string, more: { span?: string; at?: string } = {}) =>
  h.pool.query(
    `insert into missed_spans (id, account, job_id, job_uid, first_at, last_at, count, reason)
     values (coalesce($1, uuidv7()), $2, $3, gen_random_uuid(), $4, $4, 1, 'downtime')`,
    [more.span, h.first.account, id, more.at ?? "2026-11-21T03:00:00Z"],
  );

test("executions of a job of which only a missed time is left: 200, and 404 for others", async () => {
  await missed("only-missed");
  const path = "/jobs/only-missed/executions";
  expect(await h.request({ path })).toMatchObject({ status: 200, text: "[]" });
  expect((await h.request({ path: `${path}?include=missed` })).text).toContain("downtime");
  expect((await h.request({ path, key: h.second.key })).status).toBe(404);
});

test("executions and missed times of one moment are in the order of their ids, page by page", async () => {
  const at = new Date(h.clock.now()).toISOString();
  const ids = [1, 2, 3, 4].map((n) => `019aa4a0-0000-7000-8000-00000000000${n}`);
  const [first, second, third, fourth] = ids;
  for (const span of [first, third]) await missed("tied", { span, at });
  await h.pool.query(
    `insert into executions (id, account, job_id, job_uid, run_id, status, http_status, duration_ms,
                             executed_at, attempt, trigger, scheduled_at)
     select id, $2, 'tied', gen_random_uuid(), gen_random_uuid(), 'success', 200, 1, $3, 1, 'schedule', $3
       from unnest($1::uuid[]) as id`,
    [[second, fourth], h.first.account, at],
  );
  const page = async (offset: number) => {
    const path = `/jobs/tied/executions?include=missed&limit=1&offset=${offset}`;
    return JSON.parse((await h.request({ path })).text) as { id: string }[];
  };
  const pages = await Promise.all([0, 1, 2, 3].map(page));
  expect(pages.flat().map(({ id }) => id)).toEqual(ids.toReversed());
  const others = await h.request({ path: "/jobs/tied/executions", key: h.second.key });
  expect(others.status).toBe(404);
});

const del = (id: string, key = h.first.key) =>
  h.request({ method: "DELETE", path: `/jobs/${id}`, key });

describe("DELETE /jobs/{id}", () => {
  test("200 job deleted; gone at once; queued runs cancelled; history stays", async () => {
    const id = await made();
    const job = await h.takeUp(h.first.account, id);
    await act(id, "run");
    await h.deliverOne(200);
    await act(id, "run");
    const reply = await del(id);
    expect([reply.status, reply.json]).toEqual([200, { message: "job deleted" }]);
    expect(await unfinishedRuns(h.pool, job.uid)).toEqual([]);
    expect((await get(id)).status).toBe(404);
    expect((await del(id)).status).toBe(404);
    expect((await act(id, "run")).status).toBe(404);
    const history = await h.request({ path: `/jobs/${id}/executions` });
    expect(history.status).toBe(200);
    expect(JSON.parse(history.text)).toHaveLength(1);
  });

  test("404: another account's, which stays, with its runs", async () => {
    const id = await made();
    const job = await h.takeUp(h.first.account, id);
    await act(id, "run");
    expect((await del(id, h.second.key)).status).toBe(404);
    expect((await get(id)).status).toBe(200);
    expect(await unfinishedRuns(h.pool, job.uid)).toHaveLength(1);
    await h.deliverOne(200);
  });

  test("404 after a try that got no further than the store: its runs are cancelled", async () => {
    const id = await made();
    const job = await h.takeUp(h.first.account, id);
    await act(id, "run");
    await h.jobs.delete(job);
    expect((await del(id)).status).toBe(404);
    expect(await unfinishedRuns(h.pool, job.uid)).toEqual([]);
    expect((await h.ledger.cursors([job.uid])).get(job.uid)).toMatchObject({ deleted: true });
  });

  test("404 for one that goes by other hands meanwhile: its runs are cancelled", async () => {
    const id = await made();
    const job = await h.takeUp(h.first.account, id);
    await act(id, "run");
    const store = { ...h.jobs };
    const gone = vi.spyOn(h.jobs, "delete").mockImplementationOnce(async (asked) => {
      await store.delete(asked);
      throw new JobNotFound(`no job ${asked.id}`);
    });
    const reply = await del(id);
    gone.mockRestore();
    expect(reply.status).toBe(404);
    expect(await unfinishedRuns(h.pool, job.uid)).toEqual([]);
  });

  test("503 when the store is away: the job stays, with its runs", async () => {
    const id = await made();
    const job = await h.takeUp(h.first.account, id);
    await act(id, "run");
    const away = vi.spyOn(h.jobs, "delete").mockImplementationOnce(async () => {
      throw new DependencyUnavailable("kubernetes");
    });
    const reply = await del(id);
    away.mockRestore();
    expect(reply.status).toBe(503);
    expect((await h.ledger.cursors([job.uid])).get(job.uid)).toMatchObject({ deleted: false });
    expect(await unfinishedRuns(h.pool, job.uid)).toHaveLength(1);
    await h.deliverOne(200);
  });

  test.each([1, 2])(
    "404 for one whose id goes to a new job after the store was read %i times: that one stays",
    async (times) => {
      const { account } = h.first;
      const id = await made();
      const old = await h.takeUp(account, id);
      await h.jobs.delete(old);
      const store = { ...h.jobs };
      let read = 0;
      const reads = vi.spyOn(h.jobs, "get").mockImplementation(async (...asked) => {
        const found = await store.get(...asked);
        read += 1;
        if (read === times) {
          await store.create({ account, id, spec: old.spec });
          await h.takeUp(account, id);
        }
        return found;
      });
      const reply = await del(id);
      reads.mockRestore();
      expect(reply.status).toBe(404);
      expect((await h.ledger.cursors([old.uid])).get(old.uid)).toMatchObject({ deleted: true });
      expect((await act(id, "run")).status).toBe(202);
      await h.deliverOne(200);
    },
  );
});
