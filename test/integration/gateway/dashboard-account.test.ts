import { parse } from "yaml";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../../until.ts";
import { cronSpec } from "../../conformance/job-store.ts";
import { startScriptedServer } from "../mail/scripted-server.ts";
import { PASSWORD, newUser, visitor, type Visitor } from "./dashboard-visitor.ts";
import { startHarness, type Harness } from "./harness.ts";
import { sendLate } from "./late-body.ts";

const JOB = {
  name: "Nightly report",
  type: "webhook",
  schedule_type: "cron",
  cron_expression: "0 3 * * *",
  timezone: "Europe/Paris",
  webhook_url: "http://127.0.0.1:9/report",
  webhook_payload: { of: "the day: #1", yes: "no", n: 12 },
};

/** Sends half of a request, and the rest when it is told to. By then the caller's rights have been checked. */
async function half(request: {
  method: string;
  path: string;
  json: object;
  headers: Record<string, string>;
}) {
  const { headers } = request;
  const late = await sendLate(harness, {
    ...request,
    headers: { Origin: owner.origin, ...headers },
  });
  // Later requests have been answered: the caller of the first has been looked up, too.
  await harness.request({ path: "/jobs", key: null, headers });
  await owner.get("/session");
  return async () => (await late.rest()).status;
}

/** The counts of one hour or day of a chart. */
type Counts = Record<string, string | number>;

/** The sums over a whole chart, because an hour or a day may end while a test runs. */
function total(chart: readonly Counts[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const part of chart)
    for (const [name, value] of Object.entries(part))
      if (typeof value === "number") sums[name] = (sums[name] ?? 0) + value;
  return sums;
}

let harness: Harness;
let owner: Awaited<ReturnType<typeof newUser>>;
let member: Visitor;
let stranger: Visitor;
beforeAll(async () => {
  harness = await startHarness();
  const { first, second } = harness;
  const ours = { account: first.account };
  owner = await newUser(harness, { ...ours, email: "owner@example.com", admin: true });
  member = await newUser(harness, { ...ours, email: "member@example.com", role: "member" });
  stranger = await newUser(harness, { account: second.account, email: "second@example.com" });
});
afterAll(() => harness.close());

describe("API keys", () => {
  test("a new key works at once, and no longer when it is deleted", async () => {
    const made = await owner.post("/api-keys", { label: "<img onerror=alert(1)>" });
    expect(made.status).toBe(201);
    const raw = String(made.json["raw"]);
    expect((await harness.request({ path: "/jobs", key: raw })).status).toBe(200);
    const list = await owner.get("/api-keys");
    expect(list.text).not.toContain(raw);
    const { id } = made.json["key"] as { id: string };
    expect((await stranger.ask("DELETE", `/api-keys/${id}`)).status).toBe(404);
    expect((await owner.ask("DELETE", `/api-keys/${id}`)).status).toBe(200);
    expect((await harness.request({ path: "/jobs", key: raw })).status).toBe(401);
  });

  test("the log tells who did what to which key, and from where a sign-in failed", async () => {
    const made = await owner.post("/api-keys", { label: "short-lived" });
    const { id } = made.json["key"] as { id: string };
    await owner.ask("DELETE", `/api-keys/${id}`);
    await visitor(harness).signIn("nobody@example.com", "wrong password");
    const logged = (part: object) =>
      until(JSON.stringify(part), () =>
        harness.lines
          .map((line) => JSON.parse(line) as Record<string, unknown>)
          .find((line) => Object.entries(part).every(([name, value]) => line[name] === value)),
      );
    const deletion = await logged({ method: "DELETE", id });
    expect(deletion).toMatchObject({ user_id: owner.id, account: harness.first.account });
    expect(deletion).not.toHaveProperty("client");
    const refusal = await logged({ route: "/dashboard/api/session", status: "401" });
    expect(refusal).toMatchObject({ client: "127.0.0.1" });
  });

  test("one that is deleted while a request with it is on its way is refused", async () => {
    const made = await owner.post("/api-keys", { label: "slow" });
    const headers = { "X-API-Key": String(made.json["raw"]) };
    const ask = { method: "POST", path: "/jobs", json: { ...JOB, name: "too late" }, headers };
    const late = await half(ask);
    const { id } = made.json["key"] as { id: string };
    expect((await owner.ask("DELETE", `/api-keys/${id}`)).status).toBe(200);
    expect(await late()).toBe(401);
    expect((await harness.request({ path: "/jobs" })).text).not.toContain("too late");
  });
});

test("an API key's label has up to 100 characters, of however many code units", async () => {
  expect((await owner.post("/api-keys", { label: "🔔".repeat(100) })).status).toBe(201);
});
test.each([
  { what: "101 characters", label: "k".repeat(101), says: "100 characters" },
  { what: "a control character beyond ASCII", label: "a\u008d", says: "control characters" },
])("an API key's label is not $what", async ({ label, says }) => {
  const reply = await owner.post("/api-keys", { label });
  const details = [{ field: "label", message: expect.stringContaining(says) }];
  expect(reply).toMatchObject({ status: 400, json: { details } });
});

test("an account's time zone is one that jobs take too", async () => {
  const reply = await owner.ask("PATCH", "/account", { time_zone: "PST" });
  expect(reply).toMatchObject({ status: 400, json: { details: [{ field: "time_zone" }] } });
});

describe("SMTP settings", () => {
  const settings = {
    host: "127.0.0.1",
    port: 2525,
    username: "user",
    from: "noreply@example.com",
    tls: "starttls",
  };

  test("the password is never sent back, and is asked for again where it would go elsewhere", async () => {
    const saved = await stranger.post("/smtp", { ...settings, password: "s3cret-word" });
    expect(saved.status).toBe(200);
    expect((await stranger.get("/smtp")).text).not.toContain("s3cret-word");
    const kept = await stranger.post("/smtp", { ...settings, from: "other@example.com" });
    expect(kept.status).toBe(200);
    expect((await harness.settings.get(harness.second.account))?.password).toBe("s3cret-word");
    for (const change of [
      { host: "evil.example" },
      { port: 2526 },
      { username: "else" },
      { tls: "none" },
    ]) {
      for (const path of ["/smtp", "/smtp/test"]) {
        const to = path === "/smtp" ? {} : { to: "a@example.com" };
        const reply = await stranger.post(path, { ...settings, ...change, ...to });
        expect(reply).toMatchObject({ status: 400, json: { details: [{ field: "password" }] } });
      }
    }
  });

  test("a server that no mail would be sent to is refused", async () => {
    for (const [path, more] of [
      ["/smtp", {}],
      ["/smtp/test", { to: "a@example.com" }],
    ] as const)
      for (const [host, says] of [
        ["10.0.0.1", "10.0.0.1:2525 is not"],
        ["127.0.0.1:2525", "no port"],
      ] as const) {
        const server = { ...settings, password: "s3cret-word", host, ...more };
        expect(await stranger.post(path, server)).toMatchObject({
          status: 400,
          json: { details: [{ field: "host", message: expect.stringContaining(says) }] },
        });
      }
  });

  test("a test mail arrives; a failure shows the conversation", async () => {
    const works = {
      host: "127.0.0.1",
      port: harness.catcher.smtpPort,
      username: null,
      from: "noreply@example.com",
      tls: "none",
      to: "ada@example.com",
    };
    const sent = await owner.post("/smtp/test", works);
    expect(sent.json).toMatchObject({ accepted: true, error: null });
    const refused = await owner.post("/smtp/test", { ...works, tls: "starttls" });
    expect(refused.json).toMatchObject({ accepted: false });
    expect(refused.json["transcript"]).toEqual(
      expect.arrayContaining([expect.stringMatching(/^S: 220/)]),
    );
    const silent = await startScriptedServer({ END: null });
    const lost = await owner.post("/smtp/test", { ...works, port: silent.port });
    silent.close();
    expect(lost.json).toMatchObject({
      accepted: false,
      error: expect.stringContaining("the mail may have been sent all the same"),
    });
  });
});

describe("jobs", () => {
  test("made here, seen here: list, detail, manifest, history", async () => {
    const { account } = await harness.newAccount("seen", 9);
    const author = await newUser(harness, { account, email: "author@example.com" });
    const reader = await newUser(harness, { account, email: "reader@example.com", role: "member" });
    const made = await author.post("/jobs", JOB);
    expect(made.status).toBe(201);
    const id = String(made.json["id"]);
    await harness.takeUp(account, id);
    await author.post(`/jobs/${id}/run`);
    await harness.deliverOne(500);

    const list = await reader.get("/jobs?q=NIGHTLY&status=failing&sort=last_run");
    expect(list.json).toMatchObject({
      total: 1,
      counts: { active: 1 },
      jobs: [{ id, name: JOB.name, target: JOB.webhook_url, last_status: "failed" }],
    });
    expect((await author.get("/jobs?q=daily")).json).toMatchObject({ total: 0, jobs: [] });
    const view = await author.get(`/jobs/${id}`);
    expect(view.json).toMatchObject({ job: { id, webhook_payload: JOB.webhook_payload } });
    const manifest = parse(String(view.json["manifest"])) as { spec: { target: object } };
    expect(manifest.spec).toMatchObject({ name: JOB.name });

    const overview = await author.get("/overview?range=24h");
    expect(overview.json).toMatchObject({
      failing: { total: 1, jobs: [{ id, name: JOB.name }] },
      next_runs: [{ id }],
      first_steps: { smtp: true, job_created: true },
    });
    const hours = overview.json["activity"] as Counts[];
    expect(hours).toHaveLength(24);
    expect(total(hours)).toMatchObject({ runs_failed: 1 });
    for (const range of ["7d", "30d"]) {
      const days = (await author.get(`/overview?range=${range}`)).json["activity"] as Counts[];
      expect(total(days)).toMatchObject({ runs_failed: 1, runs_succeeded: 0 });
    }
  });

  test("a manifest comes with the values of its headers masked, too, unless it has none", async () => {
    const { account } = await harness.newAccount("maskers", 11);
    const author = await newUser(harness, { account, email: "masker@example.com" });
    const view = async (fields: object) => {
      const { id } = (await author.post("/jobs", { ...JOB, ...fields })).json;
      return (await author.get(`/jobs/${String(id)}`)).json;
    };
    const { manifest, manifest_masked: masked } = await view({
      webhook_headers: { Authorization: "Bearer hush", "X-Team": "hush" },
      webhook_payload: { note: "hush" },
    });
    expect(manifest).toContain("Authorization: Bearer hush\n");
    expect(masked).toBe(
      String(manifest).replace("Bearer hush", '"••••"').replace("Team: hush", 'Team: "••••"'),
    );
    expect(masked).not.toBe(manifest);
    expect(await view({})).toMatchObject({ manifest_masked: null });
  });

  test("who made a job is told by its id: a name that only begins like ours is somebody's", async () => {
    const { account } = await harness.newAccount("makers", 11);
    const reader = await newUser(harness, { account, email: "maker@example.com" });
    const id = String((await reader.post("/jobs", JOB)).json["id"]);
    await harness.jobs.create({ account, id: "job-nightly", spec: cronSpec() });
    expect((await reader.get(`/jobs/${id}`)).json).toMatchObject({ made_by: "rest" });
    expect((await reader.get("/jobs/job-nightly")).json).toMatchObject({ made_by: "kubectl" });
  });

  test("a job tells which of its headers come from Secrets: a copy made through the API lacks them", async () => {
    const { account } = await harness.newAccount("copiers", 11);
    const author = await newUser(harness, { account, email: "copier@example.com" });
    const headersFrom = [{ header: "Authorization", secretName: "token", secretKey: "value" }];
    const spec = cronSpec();
    const target = { ...spec.target, headersFrom } as typeof spec.target;
    await harness.jobs.create({ account, id: "nightly", spec: { ...spec, target } });
    const view = (await author.get("/jobs/nightly")).json;
    expect(view).toMatchObject({ secret_headers: ["Authorization"] });
    const { id } = (await author.post("/jobs", JOB)).json;
    expect((await author.get(`/jobs/${String(id)}`)).json).toMatchObject({ secret_headers: [] });
  });

  test("a paused job tells whether its spec suspends it or a 410 halted it", async () => {
    const { account } = await harness.newAccount("pausers", 11);
    const reader = await newUser(harness, { account, email: "pauser@example.com" });
    for (const suspended of [true, false]) {
      const id = String((await reader.post("/jobs", JOB)).json["id"]);
      if (suspended) await reader.post(`/jobs/${id}/pause`);
      else await harness.takeUp(account, id, { haltedGeneration: 1, startable: false });
      const job = { status: "paused", halted: !suspended };
      expect((await reader.get(`/jobs/${id}`)).json).toMatchObject({ job, suspended });
    }
  });

  test("checking a job says what is wrong and when it fires, and changes nothing", async () => {
    const before = (await owner.get("/jobs")).json["total"];
    const good = await owner.post("/jobs/check", JOB);
    expect(good.json["findings"]).toEqual([]);
    expect(good.json["fire_times"]).toHaveLength(10);
    const bad = await owner.post("/jobs/check", { ...JOB, name: "", webhook_url: "http://u:p@x/" });
    const fields = (bad.json["findings"] as { field: string }[]).map(({ field }) => field);
    expect(fields).toContain("name");
    expect(bad.json["fire_times"]).toHaveLength(10);
    const never = await owner.post("/jobs/check", { ...JOB, cron_expression: "0 0 31 2 *" });
    expect(never.json).toMatchObject({ findings: [{ field: "cron_expression" }], fire_times: [] });
    const payload = { id: JSON.rawJSON("9007199254740993") };
    const inexact = await owner.post("/jobs/check", { ...JOB, webhook_payload: payload });
    expect(inexact.json).toMatchObject({ findings: [{ field: "webhook_payload" }] });
    const headers = { ["h".repeat(900_000)]: "x" };
    const long = await owner.post("/jobs/check", { ...JOB, webhook_headers: headers });
    expect(long.json).toMatchObject({ findings: [{ field: expect.stringMatching(/^.{199}…$/) }] });
    expect((await owner.get("/jobs")).json["total"]).toBe(before);
  });

  test("several are paused at once; what cannot be is named", async () => {
    const made = await owner.post("/jobs", { ...JOB, name: "To pause" });
    const id = String(made.json["id"]);
    const reply = await member.post("/jobs/bulk", { action: "pause", ids: [id, "job-unknown"] });
    expect(reply.json).toEqual({
      changed: 1,
      failures: [{ id: "job-unknown", error: "job not found" }],
    });
    expect((await owner.get("/jobs?status=paused")).json).toMatchObject({ total: 1 });
  });
});

test("an Idempotency-Key counts as it does with an API key: for a new job, and for a run", async () => {
  const keyed = (path: string, key: string, json?: object) =>
    owner.ask("POST", path, json, { "Idempotency-Key": key });
  const made = await keyed("/jobs", "made-once", JOB);
  const again = await keyed("/jobs", "made-once", JOB);
  expect([made.status, again.status, again.json["id"]]).toEqual([201, 201, made.json["id"]]);
  const path = `/jobs/${String(made.json["id"])}`;
  expect((await keyed(`${path}/run`, "k".repeat(257))).status).toBe(400);
  expect((await keyed(`${path}/pause`, "k".repeat(257))).status).toBe(200);
  await owner.ask("DELETE", path);
});

test("a second account sees and changes nothing of the first", async () => {
  const made = await owner.post("/jobs", JOB);
  const id = String(made.json["id"]);
  await harness.request({
    method: "POST",
    path: "/send",
    json: { to: "ada@example.com", subject: "private", body: "private" },
  });
  expect((await stranger.get("/jobs")).json).toMatchObject({ total: 0, counts: {} });
  expect((await stranger.get("/logs")).json).toMatchObject({ total: 0 });
  for (const [method, path] of [
    ["GET", `/jobs/${id}`],
    ["PATCH", `/jobs/${id}`],
    ["DELETE", `/jobs/${id}`],
    ["POST", `/jobs/${id}/pause`],
    ["POST", `/jobs/${id}/run`],
    ["GET", `/jobs/${id}/executions`],
  ] as const) {
    const reply = await stranger.ask(method, path, method === "PATCH" ? { name: "x" } : undefined);
    expect([reply.status, path]).toEqual([404, path]);
  }
  const overview = await stranger.get("/overview");
  expect(overview.json).toMatchObject({ jobs: {}, next_runs: [], failing: { total: 0, jobs: [] } });
  const users = (await owner.get("/users")).json["users"] as { id: string }[];
  expect((await stranger.ask("DELETE", `/users/${users[0]?.id}`)).status).toBe(404);
  expect((await stranger.get("/accounts")).status).toBe(403);
});

describe("roles", () => {
  const forbidden = [
    { method: "POST", path: "/api-keys", json: { label: "x" } },
    { method: "GET", path: "/smtp" },
    { method: "GET", path: "/signing-secret" },
    { method: "POST", path: "/signing-secret/rotate" },
    { method: "PATCH", path: "/account", json: { time_zone: "UTC" } },
    { method: "POST", path: "/account/delete", json: { password: PASSWORD, name: "first" } },
    { method: "POST", path: "/invitations", json: { email: "x@example.com", role: "owner" } },
    { method: "GET", path: "/accounts" },
  ];
  test.each(forbidden)("a member may not $method $path", async ({ method, path, json }) => {
    expect(await member.ask(method, path, json)).toMatchObject({
      status: 403,
      json: { code: "forbidden" },
    });
  });
});

describe("invitations", () => {
  test("a link makes one user, once", async () => {
    const invited = await owner.post("/invitations", {
      email: "new@example.com",
      role: "member",
      send: true,
    });
    expect(invited.json).toMatchObject({ mail: "sent", invitation: { email: "new@example.com" } });
    const token = String(invited.json["link"]).split("#")[1] ?? "";
    const guest = visitor(harness);
    expect((await guest.post("/invitation", { token })).json).toEqual({
      email: "new@example.com",
      role: "member",
      account: "first",
    });
    const short = await guest.post("/invitation/accept", { token, password: "short" });
    expect(short.status).toBe(400);
    const accepted = await guest.post("/invitation/accept", { token, password: PASSWORD });
    expect(accepted.json).toMatchObject({ user: { email: "new@example.com", role: "member" } });
    expect((await guest.get("/session")).status).toBe(200);
    const again = await visitor(harness).post("/invitation/accept", { token, password: PASSWORD });
    expect(again.status).toBe(404);
  });

  test("a link is shown although its mail could not be tried, because of something on our side", async () => {
    const { account } = await harness.newAccount("untried", harness.catcher.smtpPort);
    const theirs = await newUser(harness, { account, email: "untried@example.com" });
    const unreadable = "test:" + Buffer.alloc(64).toString("base64");
    await harness.pool.query(
      "update smtp_settings set username = 'u', password = $2, revision = uuidv7() where account = $1",
      [account, unreadable],
    );
    const asked = { email: "guest@example.com", role: "member", send: true };
    const invited = await theirs.post("/invitations", asked);
    expect(invited).toMatchObject({ status: 201, json: { mail: "internal error" } });
    const token = String(invited.json["link"]).split("#")[1] ?? "";
    expect((await visitor(harness).post("/invitation", { token })).status).toBe(200);
    expect(harness.lines.join("")).toContain("a secret does not open");
  });

  test("an administrator makes an account, whose owner comes by a link; the owner can delete it", async () => {
    const made = await owner.post("/accounts", { name: "third", owner_email: "third@example.com" });
    expect(made.status).toBe(201);
    const token = String(made.json["link"]).split("#")[1] ?? "";
    const third = visitor(harness);
    await third.post("/invitation/accept", { token, password: PASSWORD });
    const { raw } = (await third.post("/api-keys", { label: "k" })).json as { raw: string };
    await third.post("/jobs", JOB);
    const wrong = await third.post("/account/delete", { password: "no", name: "third" });
    expect(wrong.json).toMatchObject({ details: [{ field: "password" }] });
    expect(
      (await third.post("/account/delete", { password: PASSWORD, name: "third" })).status,
    ).toBe(200);
    expect((await third.get("/session")).status).toBe(401);
    expect((await harness.request({ path: "/jobs", key: raw })).status).toBe(401);
  });

  test("an owner whom the account cannot have is refused by the field that names them", async () => {
    const { users } = (await owner.get("/users")).json as { users: { email: string }[] };
    const taken = { name: "fourth", owner_email: users[0]?.email };
    const refused = await owner.post("/accounts", taken);
    expect(refused).toMatchObject({ status: 400, json: { details: [{ field: "owner_email" }] } });
    const made = await owner.post("/accounts", { ...taken, owner_email: "fourth@example.com" });
    expect(made.status).toBe(201);
  });

  test.each([
    { name: "removed", take: (id: string) => owner.ask("DELETE", `/users/${id}`) },
    { name: "demoted", take: (id: string) => patch(owner, id, { role: "member" }) },
  ])("of an owner who is $name are open no longer", async ({ name, take }) => {
    const { account } = harness.first;
    const email = `${name}@example.com`;
    const leaving = await newUser(harness, { account, email });
    const back = { email: `back-${email}`, role: "owner" };
    const links = await Promise.all([
      leaving.post("/invitations", back),
      owner.post("/invitations", { email: `other-${email}`, role: "member" }),
    ]);
    const [theirs, others] = links.map(({ json }) => String(json["link"]).split("#")[1] ?? "");
    const guest = visitor(harness);
    expect((await guest.post("/invitation", { token: theirs })).status).toBe(200);
    expect((await take(leaving.id)).status).toBe(200);
    expect((await guest.post("/invitation", { token: theirs })).status).toBe(404);
    const accepted = await guest.post("/invitation/accept", { token: theirs, password: PASSWORD });
    expect(accepted.status).toBe(404);
    expect((await owner.get("/users")).text).not.toContain(back.email);
    expect((await guest.post("/invitation", { token: others })).status).toBe(200);
    // Another owner may invite the same person.
    expect((await owner.post("/invitations", back)).status).toBe(201);
    expect((await owner.get("/users")).text).toContain(back.email);
  });

  test("the last owner cannot be removed", async () => {
    const { users } = (await owner.get("/users")).json as { users: { id: string; role: string }[] };
    const last = users.find(({ role }) => role === "owner");
    const removed = await owner.ask("DELETE", `/users/${last?.id}`);
    expect(removed).toMatchObject({ status: 409, json: { code: "last_owner" } });
  });
});

const patch = (who: Visitor, id: string, json: object, headers = {}) =>
  who.ask("PATCH", `/users/${id}`, json, headers);

async function idOf(email: string): Promise<string> {
  const { users } = (await owner.get("/users")).json as { users: { id: string; email: string }[] };
  return users.find((user) => user.email === email)?.id ?? "none";
}

describe("a role", () => {
  test("changes in place, and counts at once in sessions that are open", async () => {
    const id = await idOf("member@example.com");
    const smtp = async () => (await member.get("/smtp")).status;
    expect(await smtp()).toBe(403);
    const promoted = await patch(owner, id, { role: "owner" });
    expect(promoted).toMatchObject({ status: 200, json: { id, role: "owner" } });
    expect(await smtp()).toBe(200);
    expect((await patch(owner, id, { role: "member" })).json).toMatchObject({ role: "member" });
    expect(await smtp()).toBe(403);
    expect((await member.get("/session")).json).toMatchObject({ user: { role: "member" } });
  });

  test("that is taken away while a request is on its way counts for that, too", async () => {
    const email = "leaving@example.com";
    const leaving = await newUser(harness, { account: harness.first.account, email });
    const headers = { Cookie: leaving.cookie() ?? "" };
    const ask = { method: "POST", path: "/dashboard/api/api-keys", headers };
    const demoted = await half({ ...ask, json: { label: "demoted" } });
    expect((await patch(owner, leaving.id, { role: "member" })).status).toBe(200);
    expect(await demoted()).toBe(403);
    expect((await patch(owner, leaving.id, { role: "owner" })).status).toBe(200);
    const removed = await half({ ...ask, json: { label: "removed" } });
    expect((await owner.ask("DELETE", `/users/${leaving.id}`)).status).toBe(200);
    expect(await removed()).toBe(401);
    expect((await owner.get("/api-keys")).text).not.toMatch(/demoted|removed/);
  });

  test("of the last owner stays", async () => {
    const id = await idOf("owner@example.com");
    const reply = await patch(owner, id, { role: "member" });
    expect(reply).toMatchObject({
      status: 409,
      json: {
        code: "last_owner",
        error: "the user is the account's last owner: make somebody else an owner first",
      },
    });
    expect((await owner.get("/smtp")).status).toBe(200);
  });

  test("is the owners' to change, in their own account, from the dashboard", async () => {
    const id = await idOf("member@example.com");
    expect((await patch(member, id, { role: "owner" })).status).toBe(403);
    expect((await patch(stranger, id, { role: "owner" })).status).toBe(404);
    expect((await patch(visitor(harness), id, { role: "owner" })).status).toBe(401);
    expect((await patch(owner, id, { role: "admin" })).status).toBe(400);
    expect((await patch(owner, id, { role: "owner", admin: true })).status).toBe(400);
    const elsewhere = await patch(owner, id, { role: "owner" }, { Origin: "https://evil.example" });
    expect(elsewhere).toMatchObject({ status: 403, json: { code: "cross_origin" } });
    expect((await member.get("/session")).json).toMatchObject({ user: { role: "member" } });
  });
});

describe("an administrator of the installation", () => {
  test("is not an ordinary owner's to remove or demote, and the last one is nobody's", async () => {
    const { account } = harness.first;
    const plain = await newUser(harness, { account, email: "plain@example.com" });
    const id = await idOf("owner@example.com");
    const deletion = { password: PASSWORD, name: "first" };
    const changes = (who: Visitor) => [
      () => who.ask("DELETE", `/users/${id}`),
      () => patch(who, id, { role: "member" }),
      () => who.post("/account/delete", deletion),
    ];
    for (const change of changes(plain))
      expect(await change()).toMatchObject({
        status: 403,
        json: {
          code: "forbidden",
          error: "only administrators of the installation may remove or demote an administrator",
        },
      });
    for (const change of changes(owner))
      expect(await change()).toMatchObject({ status: 409, json: { code: "last_administrator" } });
    expect((await owner.get("/accounts")).status).toBe(200);
    expect((await owner.ask("DELETE", `/users/${plain.id}`)).status).toBe(200);
  });
});

const keep = (days: number | null) => owner.ask("PATCH", "/account", { retention_days: days });

test("an account keeps no more of its history than the installation does", async () => {
  expect((await keep(90)).json).toMatchObject({ retention_days: 90 });
  expect(await keep(91)).toMatchObject({
    status: 400,
    json: { details: [{ field: "retention_days", message: expect.stringContaining("most 90") }] },
  });
  expect((await keep(null)).json).toMatchObject({ retention_days: null });
});

test("without a cluster there is nothing to bind an account to", async () => {
  const { accounts } = (await owner.get("/accounts")).json as { accounts: { id: string }[] };
  const path = `/accounts/${accounts[0]?.id}/namespace`;
  const reply = await owner.post(path, { namespace: "team-a" });
  expect(reply).toMatchObject({ status: 400, json: { details: [{ field: "namespace" }] } });
  const account = { name: "Bound", namespace: "team-a", owner_email: "bound@example.com" };
  const made = await owner.post("/accounts", account);
  expect(made).toMatchObject({ status: 400, json: { details: [{ field: "namespace" }] } });
  expect((await member.post(path, { namespace: "team-a" })).status).toBe(403);
  expect((await stranger.post(path, { namespace: "team-a" })).status).toBe(403);
});

test("passcodes are counted by how they ended", async () => {
  const to = "otp@example.com";
  const send = () => harness.request({ method: "POST", path: "/send/otp", json: { to } });
  const verify = (code: string) =>
    harness.request({ method: "POST", path: "/verify/otp", json: { email: to, code } });
  await send();
  for (const code of ["000000", "000001"]) await verify(code);
  await send();
  const [newest] = harness.catcher.messages().filter((mail) => JSON.stringify(mail).includes(to));
  const code = /\b\d{6}\b/.exec(newest?.text ?? "")?.[0] ?? "none";
  expect((await verify(code)).status).toBe(200);
  const reply = await owner.get("/otp?days=7");
  const days = reply.json["days"] as Counts[];
  expect(total(days)).toMatchObject({ sent: 2, verified: 1, refused: 2, burnt: 0 });
  expect(reply.text).not.toContain(code);
});

test("the signing secret is shown and rotated", async () => {
  const before = (await owner.get("/signing-secret")).json["secrets"] as { secret: string }[];
  expect(before).toEqual([{ secret: expect.stringMatching(/^whsec_/), valid_until: null }]);
  const { secret, old_valid_until: end } = (await owner.post("/signing-secret/rotate")).json;
  expect((await owner.get("/signing-secret")).json["secrets"]).toEqual([
    { secret, valid_until: null },
    { secret: before[0]?.secret, valid_until: end },
  ]);
});
