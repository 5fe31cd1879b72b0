import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { metricValue } from "../metric-value.ts";
import { until } from "../until.ts";
import { caughtMail } from "./caught.ts";
import { call, startStandalone, type Standalone } from "./program.ts";
import { startReceiver, type Receiver } from "../receiver.ts";

interface JobAnswer {
  id: string;
  name: string;
  status: string;
}
interface ExecutionAnswer {
  job_id: string;
  status: string;
  http_status: number;
  error_message: string | null;
}

let directory: string;
let program: Standalone;
let receiver: Receiver;
let key = "";

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "carillon-e2e-"));
  receiver = await startReceiver();
  program = await startStandalone(directory);
  key = program.printed("API key") ?? "";
});

afterAll(async () => {
  program.signal("SIGTERM");
  await program.finished;
  await receiver.close();
  await rm(directory, { recursive: true, force: true });
});

async function createJob(body: Record<string, unknown>): Promise<JobAnswer> {
  const answer = await call(program.url, { key, method: "POST", path: "/jobs", body });
  expect(answer).toMatchObject({ status: 201, body: { status: "active" } });
  return answer.body as JobAnswer;
}

async function executions(id: string): Promise<ExecutionAnswer[]> {
  const path = `/jobs/${id}/executions`;
  return (await call(program.url, { key, path })).body as ExecutionAnswer[];
}

async function firstExecution(id: string, withinMs?: number): Promise<ExecutionAnswer> {
  return until(`an execution of ${id}`, async () => (await executions(id))[0], withinMs);
}

/** `name` with its labels, if it has any. */
async function metric(name: string): Promise<number> {
  const text = await (await fetch(program.printed("Metrics") ?? "")).text();
  return metricValue(text, `carillon_${name}`) ?? Number.NaN;
}

describe("a newcomer's first start", () => {
  test.each([
    { line: "API key", looksLike: /^svc_live_[A-Za-z0-9_-]{27,}$/ },
    { line: "Dashboard", looksLike: /^http:\/\/127\.0\.0\.1:\d+\/dashboard\/$/ },
    { line: "Sign in", looksLike: /^\S+@\S+ \S{8,}$/ },
    { line: "Mail catcher", looksLike: /^http:\/\/127\.0\.0\.1:\d+\/$/ },
    { line: "Ready", looksLike: /^http:\/\/127\.0\.0\.1:\d+$/ },
    { line: "Metrics", looksLike: /^http:\/\/127\.0\.0\.1:\d+\/metrics$/ },
  ])("prints on a line of its own: $line", ({ line, looksLike }) => {
    expect(program.printed(line)).toMatch(looksLike);
  });

  test("prints a curl that is ready to paste", () => {
    expect(program.stdout()).toMatch(
      new RegExp(`^  curl .*${key}.*/?send|^  curl .*send.*${key}`, "m"),
    );
  });

  test("keeps the encryption key to its owner", async () => {
    expect((await stat(join(directory, "encryption-keys"))).mode & 0o777).toBe(0o600);
  });

  test("says nothing on standard error", () => {
    expect(program.stderr()).toBe("");
  });

  test("shows the dashboard's page and the API's documentation", async () => {
    expect((await fetch(program.printed("Dashboard") ?? "")).status).toBe(200);
    expect((await fetch(`${program.url}/docs`)).status).toBe(200);
    expect((await fetch(`${program.url}/openapi.json`)).status).toBe(200);
  });
});

describe("email and passcodes", () => {
  test("POST /send is readable in the catcher and in the log", async () => {
    const to = "reader@example.com";
    const sent = await call(program.url, {
      key,
      method: "POST",
      path: "/send",
      body: { to, subject: "Grüße", body: "It works." },
    });
    expect(sent).toMatchObject({ status: 200, body: { to, subject: "Grüße", status: "sent" } });
    const mail = await caughtMail(program.catcherUrl, to);
    expect(mail.subject).toBe("Grüße");
    expect(mail.text.trim()).toBe("It works.");
    const logs = await call(program.url, { key, path: "/logs" });
    expect(logs.body).toMatchObject({ logs: [{ to, status: "sent" }], limit: 10, offset: 0 });
  });

  test("a passcode verifies once", async () => {
    const email = "otp@example.com";
    const sent = await call(program.url, {
      key,
      method: "POST",
      path: "/send/otp",
      body: { to: email },
    });
    expect(sent.status).toBe(200);
    const mail = await caughtMail(program.catcherUrl, email);
    const code = /\b\d{6}\b/.exec(mail.text)?.[0];
    const verify = { key, method: "POST", path: "/verify/otp", body: { email, code } };
    expect(await call(program.url, verify)).toMatchObject({
      status: 200,
      body: { verified: true, message: "OTP verified" },
    });
    expect(await call(program.url, verify)).toMatchObject({
      status: 400,
      body: { error: "invalid or expired OTP" },
    });
  });

  test("without a key there is nothing but 401", async () => {
    expect((await call(program.url, { path: "/jobs" })).status).toBe(401);
  });
});

describe("jobs", () => {
  test("a one-time job calls the receiver on time", async () => {
    const runAt = new Date(Date.now() + 2_000);
    const job = await createJob({
      name: "once",
      type: "webhook",
      schedule_type: "one_time",
      run_at: runAt.toISOString(),
      webhook_url: `${receiver.url}/once`,
      webhook_payload: { hello: "world" },
    });
    const call = await until("the call", () => receiver.received.find((r) => r.path === "/once"));
    expect(call).toMatchObject({ method: "POST", body: '{"hello":"world"}' });
    expect(call.headers).toMatchObject({
      "content-type": "application/json",
      "carillon-job-id": job.id,
    });
    expect(call.at).toBeGreaterThanOrEqual(runAt.getTime());
    // A wide limit: the machine may be busy, and the benchmarks measure lateness.
    expect(call.at).toBeLessThan(runAt.getTime() + 10_000);
    expect(await firstExecution(job.id)).toMatchObject({
      job_id: job.id,
      status: "success",
      http_status: 200,
      error_message: null,
    });
  });

  test("a cron job calls the receiver at the minute", { timeout: 90_000 }, async () => {
    const job = await createJob({
      name: "every minute",
      type: "webhook",
      schedule_type: "cron",
      cron_expression: "* * * * *",
      webhook_url: `${receiver.url}/cron`,
    });
    const call = await until(
      "the call",
      () => receiver.received.find((r) => r.path === "/cron"),
      75_000,
    );
    expect(call.body).toBe("{}");
    expect(call.at % 60_000).toBeLessThan(10_000);
    expect(await firstExecution(job.id)).toMatchObject({ status: "success", http_status: 200 });
  });

  test("an email job arrives", async () => {
    const to = "job@example.com";
    const job = await createJob({
      name: "mail",
      type: "email",
      schedule_type: "one_time",
      run_at: new Date(Date.now() + 1_500).toISOString(),
      email_to: to,
      email_subject: "From a job",
      email_body: "On time.",
    });
    expect(await caughtMail(program.catcherUrl, to)).toMatchObject({ subject: "From a job" });
    expect(await firstExecution(job.id)).toMatchObject({ status: "success", http_status: 200 });
  });

  test("deletion keeps the history", async () => {
    const job = await createJob({
      name: "short-lived",
      type: "webhook",
      schedule_type: "one_time",
      run_at: new Date(Date.now() + 2_000).toISOString(),
      webhook_url: `${receiver.url}/deleted`,
    });
    await firstExecution(job.id);
    const path = `/jobs/${job.id}`;
    expect(await call(program.url, { key, method: "DELETE", path })).toMatchObject({
      status: 200,
      body: { message: "job deleted" },
    });
    expect((await call(program.url, { key, path })).status).toBe(404);
    expect(await executions(job.id)).toHaveLength(1);
  });
});

describe("its metrics", () => {
  test("are in seconds, and of now", async () => {
    const reconciles = await metric("reconcile_duration_seconds_count");
    expect(reconciles).toBeGreaterThan(0);
    const mean = (await metric("reconcile_duration_seconds_sum")) / reconciles;
    expect(mean).toBeGreaterThan(0);
    expect(mean).toBeLessThan(2);
    // Both clocks are this machine's.
    expect(Math.abs(await metric("clock_offset_seconds"))).toBeLessThan(2);
    const retention = await metric('retention_last_success_timestamp_seconds{of="history"}');
    expect(Math.abs(retention - Date.now() / 1_000)).toBeLessThan(3_600);
    const idle = await metric('database_pool_connections{state="idle"}');
    const used = await metric('database_pool_connections{state="used"}');
    expect(idle).toBeGreaterThanOrEqual(0);
    expect(idle + used).toBeGreaterThan(0);
    expect(idle + used).toBeLessThan(100);
  });

  test("tell for how long the oldest due run has waited", async () => {
    const url = (await readFile(join(directory, "database-url"), "utf8")).trim();
    const client = new Client({ connectionString: url });
    await client.connect();
    const runAt = Date.now() + 4_000;
    const job = await createJob({
      name: "held up",
      type: "webhook",
      schedule_type: "one_time",
      run_at: new Date(runAt).toISOString(),
      webhook_url: `${receiver.url}/held-up`,
    });
    await client.query("begin");
    await until("its run is locked", async () => {
      const { rowCount } = await client.query("select from runs where job_id = $1 for update", [
        job.id,
      ]);
      return rowCount === 1;
    });
    const age = await until("it is overdue", async () => {
      const seconds = await metric("run_queue_oldest_age_seconds");
      return seconds > 0.5 && seconds;
    });
    expect(age).toBeLessThanOrEqual((Date.now() - runAt) / 1_000);
    await client.query("rollback");
    await client.end();
    expect(await firstExecution(job.id)).toMatchObject({ status: "success" });
    expect(await metric("run_queue_oldest_age_seconds")).toBe(0);
  });
});

describe("another start", () => {
  test("after SIGTERM, which ends it with 0, everything is as it was", async () => {
    const before = await call(program.url, { key, path: "/jobs" });
    const begun = performance.now();
    program.signal("SIGTERM");
    expect((await program.finished).code).toBe(0);
    expect(performance.now() - begun).toBeLessThan(30_000);

    const catcher = program.catcherUrl;
    program = await startStandalone(directory);
    expect(program.printed("API key")).toBeUndefined();
    expect(program.catcherUrl).toBe(catcher);
    expect(names(await call(program.url, { key, path: "/jobs" }))).toEqual(names(before));
    console.info(`second start: ready after ${Math.round(program.readyMs)} ms`);
  });

  test("after kill -9 it comes up by itself, and jobs run", async () => {
    program.signal("SIGKILL");
    await program.finished;
    program = await startStandalone(directory);
    const job = await createJob({
      name: "after the kill",
      type: "webhook",
      schedule_type: "one_time",
      run_at: new Date(Date.now() + 2_000).toISOString(),
      webhook_url: `${receiver.url}/after-kill`,
    });
    expect(await firstExecution(job.id)).toMatchObject({ status: "success" });
  });
});

function names(answer: { body: unknown }): string[] {
  return (answer.body as JobAnswer[]).map((job) => job.name);
}
