import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  DASHBOARD_ENDPOINTS,
  type DashboardEndpoint,
  type DashboardOperation,
} from "../../../src/gateway/dashboard/endpoints.ts";
import {
  ENDPOINTS,
  type EndpointDefinition,
  type OperationId,
} from "../../../src/gateway/schema/endpoints.ts";
import { createApiKeys } from "../../../src/postgres/api-keys.ts";
import { createSessions } from "../../../src/postgres/sessions.ts";
import { startHarness, type Harness, type Reply, type Request } from "./harness.ts";

/** Who may call each route of the REST API. Repeated here on purpose: the table of the routes could be wrong. */
const REST: Record<OperationId, Rule<"key" | "anybody">> = {
  sendEmail: { for: "key" },
  sendOtp: { for: "key" },
  verifyOtp: { for: "key" },
  listLogs: { for: "key" },
  createJob: { for: "key" },
  listJobs: { for: "key" },
  getJob: { for: "key", of: "job" },
  updateJob: { for: "key", of: "job", json: { name: "taken over" } },
  deleteJob: { for: "key", of: "job" },
  pauseJob: { for: "key", of: "job" },
  resumeJob: { for: "key", of: "job" },
  runJob: { for: "key", of: "job" },
  listExecutions: { for: "key", of: "job" },
  health: { for: "anybody" },
  readiness: { for: "anybody" },
  openApi: { for: "anybody" },
};

/** The same for the dashboard's own API. */
const DASHBOARD: Record<
  DashboardOperation,
  Rule<"anybody" | "members" | "owners" | "administrators">
> = {
  signIn: { for: "anybody" },
  signInOptions: { for: "anybody" },
  beginSingleSignOn: { for: "anybody" },
  finishSingleSignOn: { for: "anybody" },
  getSession: { for: "members" },
  signOut: { for: "anybody" },
  signOutEverywhere: { for: "members" },
  changePassword: { for: "members" },
  findInvitation: { for: "anybody" },
  acceptInvitation: { for: "anybody" },
  overview: { for: "members" },
  listApiKeys: { for: "members" },
  createApiKey: { for: "owners" },
  deleteApiKey: { for: "owners", of: "key" },
  getSmtp: { for: "owners" },
  setSmtp: { for: "owners" },
  deleteSmtp: { for: "owners" },
  testSmtp: { for: "owners" },
  pageJobs: { for: "members" },
  checkJob: { for: "members" },
  bulkJobs: { for: "members" },
  createJob: { for: "members" },
  viewJob: { for: "members", of: "job" },
  updateJob: { for: "members", of: "job", json: { name: "taken over" } },
  deleteJob: { for: "members", of: "job" },
  pauseJob: { for: "members", of: "job" },
  resumeJob: { for: "members", of: "job" },
  runJob: { for: "members", of: "job" },
  listExecutions: { for: "members", of: "job" },
  listLogs: { for: "members" },
  otpOutcomes: { for: "members" },
  getSigningSecret: { for: "owners" },
  rotateSigningSecret: { for: "owners" },
  updateAccount: { for: "owners" },
  deleteAccount: { for: "owners" },
  listUsers: { for: "members" },
  updateUser: { for: "owners", of: "user", json: { role: "member" } },
  deleteUser: { for: "owners", of: "user" },
  invite: { for: "owners" },
  deleteInvitation: { for: "owners", of: "invitation" },
  listAccounts: { for: "administrators" },
  createAccount: { for: "administrators" },
  // For any account: that is what administrators are for.
  bindAccount: { for: "administrators" },
};

interface Rule<Who> {
  for: Who;
  /** What `{id}` names; a thing of another account does not exist for the caller. */
  of?: Thing;
  /** A body that would change something. */
  json?: object;
}
type Thing = "job" | "key" | "user" | "invitation";

const PASSWORD = "correct horse battery";
let h: Harness;
/** Ids of things of the account `first`, which nobody else may see or change. */
let things: Record<Thing, string>;
/** Texts that are the first account's alone. */
let marks: string[];
const MARK = "quince";
let keys: Record<"revoked" | "deleted", string>;

const SIGNED_OUT = ["expired", "signed out", "removed", "of a deleted account"] as const;
const SIGNED_IN = ["member", "owner", "administrating member", "administrating owner"] as const;
type Person = (typeof SIGNED_OUT)[number] | (typeof SIGNED_IN)[number] | "stranger";
/** Those who get a new session for each request, because a request may end it. */
const users = new Map<Person, string>();
/** Session tokens of the others. */
const tokens = new Map<Person, string>();
let sessions: ReturnType<typeof createSessions>;

beforeAll(async () => {
  h = await startHarness();
  const { pool, first } = h;
  const apiKeys = createApiKeys({ pool });
  sessions = createSessions({ pool });

  const made = await h.request({
    method: "POST",
    path: "/jobs",
    json: {
      name: `job of ${MARK}`,
      type: "webhook",
      schedule_type: "cron",
      cron_expression: "0 3 * * *",
      webhook_url: `http://127.0.0.1:9/${MARK}`,
    },
  });
  const job = String(made.json["id"]);
  await h.takeUp(first.account, job);
  const mail = { to: `${MARK}@example.com`, subject: `mail of ${MARK}`, body: "…" };
  await h.request({ method: "POST", path: "/send", json: mail });

  const { rows } = await pool.query<{ id: string }>(
    "insert into accounts (name) values ('deleted') returning id",
  );
  const deleted = rows[0]?.id ?? "";
  const revoked = await apiKeys.create(first.account, "revoked");
  await apiKeys.delete(first.account, revoked.key.id);
  keys = { revoked: revoked.raw, deleted: (await apiKeys.create(deleted, "left")).raw };

  const known = async (
    who: Person,
    { account = first.account, ...rest }: { account?: string; admin?: true; role?: "member" } = {},
  ) => {
    const email = `${who.replaceAll(" ", ".")}.${account === first.account ? MARK : "other"}@example.com`;
    const { id } = await h.users.create({ account, email, password: PASSWORD, ...rest });
    users.set(who, id);
    return id;
  };
  await known("member", { role: "member" });
  const owner = await known("owner");
  await known("administrating member", { role: "member", admin: true });
  await known("administrating owner", { admin: true });
  await known("stranger", { account: h.second.account });
  await known("of a deleted account", { account: deleted });
  // As seen by another replica in the middle of the deletion: the rows still exist.
  await pool.query("update accounts set deleted_at = now() where id = $1", [deleted]);
  for (const who of ["expired", "signed out", "removed"] as const) {
    const id = await known(who);
    const token = (await sessions.create(id))?.token ?? "";
    if (who === "signed out") await sessions.delete(token);
    if (who === "removed") await pool.query("delete from users where id = $1", [id]);
    if (who === "expired")
      await pool.query("update sessions set expires_at = now() where user_id = $1", [id]);
    users.delete(who);
    tokens.set(who, token);
  }

  // The secret is created when it is first read.
  await ask("owner", { method: "GET", path: "/signing-secret" });
  const [key] = await apiKeys.list(first.account);
  const guest = { email: `guest.${MARK}@example.com`, role: "member" };
  const invited = await ask("owner", { method: "POST", path: "/invitations" }, { json: guest });
  const { id: invitation } = invited.json["invitation"] as { id: string };
  things = { job, key: key?.id ?? "", user: owner, invitation };
  marks = [MARK, first.account, key?.prefix ?? "", ...Object.values(things)];
  if (marks.includes("")) throw new Error("a mark that every text has");
});
afterAll(() => h.close());

const restRoutes = Object.entries(REST).map(([id, rule]) => {
  const endpoint: EndpointDefinition = ENDPOINTS[id as OperationId];
  return { name: `${endpoint.method} ${endpoint.path}`, endpoint, rule };
});
const dashboardRoutes = Object.entries(DASHBOARD).map(([id, rule]) => {
  const endpoint: DashboardEndpoint = DASHBOARD_ENDPOINTS[id as DashboardOperation];
  return { name: `${endpoint.method} ${endpoint.path}`, endpoint, rule };
});

test("every route has a rule, and every route that names something says what", () => {
  expect(Object.keys(REST).toSorted()).toEqual(Object.keys(ENDPOINTS).toSorted());
  expect(Object.keys(DASHBOARD).toSorted()).toEqual(Object.keys(DASHBOARD_ENDPOINTS).toSorted());
  const unsaid = [...restRoutes, ...dashboardRoutes].filter(
    ({ endpoint, rule }) => endpoint.path.includes("{id}") !== (rule.of !== undefined),
  );
  expect(unsaid.map(({ name }) => name)).toEqual(["POST /accounts/{id}/namespace"]);
});

const withKey = restRoutes.filter(({ rule }) => rule.for === "key");
const withoutKey = restRoutes.filter(({ rule }) => rule.for === "anybody");
const open = dashboardRoutes.filter(({ rule }) => rule.for === "anybody");
const closed = dashboardRoutes.filter(({ rule }) => rule.for !== "anybody");
const ofAnAccount = closed.filter(({ rule }) => rule.for !== "administrators");
const reading = dashboardRoutes.filter(({ endpoint }) => endpoint.method === "GET");
const changing = dashboardRoutes.filter(({ endpoint }) => endpoint.method !== "GET");

describe("the REST API", () => {
  test.each(withoutKey)("$name is for anybody", async (route) => {
    for (const { status } of await strangers(route)) expect(status).toBe(200);
  });

  test.each(withKey)("$name is for the holder of a live key", async (route) => {
    const before = await fingerprint();
    for (const reply of await strangers(route)) expect(codeOf(reply)).toBe("unauthorized");
    expect(await fingerprint()).toEqual(before);
    expect(codeOf(await rest(route, { path: PROBE }))).toBe("invalid_request");
  });

  test.each(withKey)("$name shows and changes nothing of another account", async (route) => {
    expect(await tracesOf(() => rest(route, { key: h.second.key }))).toEqual(NONE);
  });

  test.each(withKey.filter(({ rule }) => rule.of))("$name finds no other's", async (route) => {
    expect(codeOf(await rest(route, { key: h.second.key }))).toBe("not_found");
  });
});

describe("the dashboard's API", () => {
  test.each(open)("$name is for anybody", async (route) => {
    for (const reply of await signedOut(route))
      expect(["signed_out", "forbidden"]).not.toContain(codeOf(reply));
  });

  test.each(closed)("$name is for $rule.for", async (route) => {
    const before = await fingerprint();
    for (const reply of await signedOut(route)) expect(codeOf(reply)).toBe("signed_out");
    for (const who of SIGNED_IN.filter((each) => !mayCall(each, route)))
      expect([who, codeOf(await dashboard(who, route))]).toEqual([who, "forbidden"]);
    expect(await fingerprint()).toEqual(before);
    for (const who of SIGNED_IN.filter((each) => mayCall(each, route)))
      expect([who, codeOf(await dashboard(who, route, { path: PROBE }))]).toEqual([
        who,
        "invalid_request",
      ]);
  });

  test.each(changing)("$name is not for a page of another site", async (route) => {
    const before = await fingerprint();
    for (const headers of ELSEWHERE)
      expect(codeOf(await dashboard("administrating owner", route, { headers }))).toBe(
        "cross_origin",
      );
    expect(await fingerprint()).toEqual(before);
  });

  // A GET needs no origin, so it must be harmless. (What a provider sends people back to is one: `state` and
  // a cookie stand for the origin there.)
  test.each(reading)("$name changes nothing", async (route) => {
    const before = await fingerprint();
    await dashboard("administrating owner", route);
    expect(await fingerprint()).toEqual(before);
  });

  test.each(ofAnAccount)("$name shows and changes nothing of another account", async (route) => {
    expect(await tracesOf(() => dashboard("stranger", route))).toEqual(NONE);
  });

  test.each(ofAnAccount.filter(({ rule }) => rule.of))("$name finds no other's", async (route) => {
    expect(codeOf(await dashboard("stranger", route))).toBe("not_found");
  });
});

const ELSEWHERE: Record<string, string>[] = [
  { Origin: "https://evil.example" },
  { Origin: "null" },
  { Origin: "" },
  { "Sec-Fetch-Site": "same-site" },
];

/** A parameter that no route has: it is refused after the caller's rights are checked, and before anything is done. */
const PROBE = "?no-such-parameter=1";

type RestRoute = (typeof restRoutes)[number];
type DashboardRoute = (typeof dashboardRoutes)[number];

/** Sends a request, by default with the first account's key. */
function rest({ endpoint, rule }: RestRoute, more: Partial<Request> = {}): Promise<Reply> {
  const path = pathOf(endpoint, rule) + (more.path ?? "");
  return h.request({ method: endpoint.method, ...bodyOf(endpoint, rule), ...more, path });
}

function dashboard(
  who: Person | null,
  { endpoint, rule }: DashboardRoute,
  more: Partial<Request> = {},
): Promise<Reply> {
  const path = pathOf(endpoint, rule) + (more.path ?? "");
  return ask(who, { method: endpoint.method, path }, { ...bodyOf(endpoint, rule), ...more });
}

/** The replies to everybody without a valid key. */
async function strangers(route: RestRoute): Promise<Reply[]> {
  const token = await tokenOf("administrating owner");
  return Promise.all([
    rest(route, { key: null }),
    rest(route, { key: keys.revoked }),
    rest(route, { key: keys.deleted }),
    rest(route, { key: token }),
    rest(route, { key: null, headers: { Cookie: `carillon_session=${token}` } }),
    rest(route, { key: null, headers: { Authorization: `Bearer ${h.first.key}` } }),
  ]);
}

/** The replies to everybody without a valid session. */
function signedOut(route: DashboardRoute): Promise<Reply[]> {
  return Promise.all([
    dashboard(null, route),
    dashboard(null, route, { key: h.first.key }),
    dashboard(null, route, { headers: { Cookie: `carillon_session=${h.first.key}` } }),
    ...SIGNED_OUT.map((who) => dashboard(who, route)),
  ]);
}

function mayCall(who: (typeof SIGNED_IN)[number], { rule }: DashboardRoute): boolean {
  if (rule.for === "owners") return who.endsWith("owner");
  return rule.for !== "administrators" || who.startsWith("administrating");
}

function pathOf({ path }: { path: string }, { of }: { of?: Thing }): string {
  return path.replace("{id}", of === undefined ? h.first.account : things[of]);
}

function bodyOf(endpoint: { body?: unknown }, { json }: { json?: object }): Pick<Request, "json"> {
  if (json !== undefined) return { json };
  return endpoint.body === undefined ? {} : { json: {} };
}

const NONE = { shown: [], changed: [] };

/** What a call reveals and changes of the first account. */
async function tracesOf(
  call: () => Promise<Reply>,
): Promise<{ shown: string[]; changed: string[] }> {
  const before = await fingerprint();
  const { text } = await call();
  const after = await fingerprint();
  return {
    shown: marks.filter((mark) => text.includes(mark)),
    changed: Object.keys(after).filter((table) => after[table] !== before[table]),
  };
}

/** Sends a request of the dashboard, by default from its own origin. */
async function ask(
  who: Person | null,
  { method, path }: { method: string; path: string },
  more: Partial<Request> = {},
): Promise<Reply> {
  return h.request({
    key: null,
    ...more,
    method,
    path: `/dashboard/api${path}`,
    headers: {
      ...(method === "GET" ? {} : { Origin: `http://127.0.0.1:${h.port}` }),
      ...(who === null ? {} : { Cookie: `carillon_session=${await tokenOf(who)}` }),
      ...more.headers,
    },
  });
}

async function tokenOf(who: Person): Promise<string> {
  const user = users.get(who);
  return user === undefined
    ? (tokens.get(who) ?? "")
    : ((await sessions.create(user))?.token ?? "");
}

function codeOf({ json, status }: Reply): unknown {
  return json["code"] ?? status;
}

/** A hash of all rows of the first account in the database, except when its keys were used. */
async function fingerprint(): Promise<Record<string, string>> {
  const { rows: tables } = await h.pool.query<{ name: string; column: string }>(
    `select table_name as name, column_name as column from information_schema.columns
      where table_schema = 'public'
        and (column_name = 'account' or (table_name, column_name) = ('accounts', 'id'))`,
  );
  const found: Record<string, string> = {};
  for (const { name, column } of tables) {
    const { rows } = await h.pool.query<{ hash: string }>(
      `select md5(coalesce(string_agg(r, E'\\n' order by r), '')) as hash
         from (select (to_jsonb(t) - 'last_used_at')::text as r from ${name} t
                where ${column} = $1) rows`,
      [h.first.account],
    );
    found[name] = rows[0]?.hash ?? "";
  }
  return found;
}
