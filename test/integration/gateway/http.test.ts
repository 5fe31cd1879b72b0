import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import {
  DependencyUnavailable,
  LockHeld,
} from "../../../src/domain/ports/dependency-unavailable.ts";
import { JobOwned, VersionConflict } from "../../../src/domain/ports/job-store.ts";
import { ENDPOINTS, type EndpointDefinition } from "../../../src/gateway/schema/endpoints.ts";
import { startScriptedServer } from "../mail/scripted-server.ts";
import { startHarness, type Harness } from "./harness.ts";

/** Switches for what the gateway depends on. */
const world = {
  storeDown: false,
  logDown: false,
  logAsked: 0,
  /** The account whose counters in the log somebody has locked. */
  locked: undefined as string | undefined,
  owned: false,
  othersChanges: 0,
};

let h: Harness;
beforeAll(async () => {
  h = await startHarness({
    jobs: (jobs) => ({
      ...jobs,
      list: async (options) => {
        if (world.storeDown)
          throw new DependencyUnavailable("kubernetes", { cause: new Error("connection refused") });
        return jobs.list(options);
      },
      ping: async () => {
        if (world.storeDown)
          throw new DependencyUnavailable("kubernetes", { cause: new Error("connection refused") });
        await jobs.ping();
      },
      get: async (account, id) => {
        const job = await jobs.get(account, id);
        if (!job || !world.owned) return job;
        return { ...job, owner: { tool: "Argo CD", name: "team-a" } };
      },
      update: async (job, spec) => {
        if (world.othersChanges > 0) {
          world.othersChanges -= 1;
          throw new VersionConflict();
        }
        return jobs.update(job, spec);
      },
      delete: async (job) => {
        if (job.owner) throw new JobOwned(job.owner);
        await jobs.delete(job);
      },
    }),
    emailLog: (log) => ({
      ...log,
      append: async (entry) => {
        if (world.logDown)
          throw new DependencyUnavailable("postgres", { cause: new Error("connection lost") });
        if (entry.account === world.locked) throw new LockHeld("postgres");
        return log.append(entry);
      },
      ready: async (account) => {
        world.logAsked += 1;
        // Slow, so that other requests come meanwhile.
        if (world.logDown) await delay(500);
        if (world.logDown) throw new DependencyUnavailable("postgres");
        if (account === world.locked) {
          await delay(500);
          throw new LockHeld("postgres");
        }
        await log.ready(account);
      },
    }),
  });
});
afterAll(() => h.close());

const endpoints: EndpointDefinition[] = Object.values(ENDPOINTS);
const routes = endpoints.map((endpoint) => ({
  name: `${endpoint.method} ${endpoint.path}`,
  method: endpoint.method,
  path: endpoint.path.replace("{id}", "job-none"),
  authenticated: endpoint.authenticated,
  hasBody: endpoint.body !== undefined,
  example: ({ ...endpoint.body } as { examples?: object[] }).examples?.[0],
  documented: [endpoint.success.status],
}));
const api = routes.filter((route) => route.authenticated);
const withBody = routes.filter((route) => route.hasBody);
const WITH_KEY = ["POST /send", "POST /send/otp", "POST /jobs", "POST /jobs/{id}/run"];

describe.each(api)("$name", ({ name, method, path, hasBody, example }) => {
  const json = hasBody ? {} : undefined;
  test("401 with one text for a missing, malformed and wrong key, before anything else", async () => {
    const keys = [null, "", "nonsense", `svc_live_${"A".repeat(43)}`, `${h.first.key}x`];
    const replies = await Promise.all(
      keys.map((key) =>
        h.request({ method, path: `${path}?bad=1`, key, ...(hasBody ? { body: "{" } : {}) }),
      ),
    );
    for (const reply of replies) {
      expect(reply.status).toBe(401);
      expect(reply.json).toEqual({
        error: expect.stringContaining("missing or invalid API key: send"),
        code: "unauthorized",
      });
    }
  });
  test("400: an unknown query parameter", async () => {
    const reply = await h.request({ method, path: `${path}?bad=1`, json });
    expect([reply.status, reply.json["code"]]).toEqual([400, "invalid_request"]);
  });
  test("an Idempotency-Key that is none is refused only where one counts", async () => {
    const headers = { "Idempotency-Key": "k".repeat(257) };
    const { json: answer } = await h.request({ method, path, headers, json: example });
    const details = (answer["details"] ?? []) as { field: string }[];
    expect(details.some(({ field }) => field === "Idempotency-Key")).toBe(WITH_KEY.includes(name));
  });
  test("security headers, a request id and the rate on the answer", async () => {
    const { headers } = await h.request({ method, path, json });
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(headers.get("x-request-id")).toMatch(/^[0-9a-f]{32}$/);
    expect(headers.get("ratelimit-limit")).toBe("2000");
  });
});

describe.each(withBody)("the body of $name", ({ method, path }) => {
  const send = (body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) =>
    h.request({ method, path, body, headers });
  test.each([
    { name: "no JSON", body: "{" },
    { name: "an array", body: "[]" },
    { name: "empty", body: "" },
    { name: "a key twice", body: '{"to":"a@x.io","to":"b@x.io"}' },
    { name: "NUL", body: '{"to":"\\u0000"}' },
    { name: "a lone surrogate", body: '{"to":"\\ud800"}' },
    { name: "not UTF-8", body: new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]) },
    { name: "65 levels", body: `{"a":${"[".repeat(64)}${"]".repeat(64)}}` },
  ])("400 invalid_json: $name", async ({ body }) => {
    const reply = await send(body);
    expect([reply.status, reply.json["code"]]).toEqual([400, "invalid_json"]);
  });
  test("400: no body, and so no type of it", async () => {
    const reply = await h.request({ method, path });
    expect([reply.status, reply.json["code"]]).toEqual([400, "invalid_json"]);
    expect(reply.json["error"]).toContain("the body is empty, and must be a JSON object");
  });
  test("400: __proto__ is an unknown field like any other", async () => {
    const reply = await send('{"__proto__":{"to":"a@x.io"}}');
    expect(reply.json["details"]).toContainEqual({
      field: "__proto__",
      message: expect.stringMatching(
        path === "/send/otp"
          ? /^is not a known field; known is to$/
          : /^is not a known field; known are /,
      ),
    });
  });
  test.each([
    { name: "a form", header: "Content-Type", value: "application/x-www-form-urlencoded" },
    { name: "text", header: "Content-Type", value: "text/plain" },
    { name: "no type", header: "Content-Type", value: "" },
    { name: "a CSP report", header: "Content-Type", value: "application/csp-report" },
    { name: "Latin-1", header: "Content-Type", value: "application/json; charset=iso-8859-1" },
    { name: "gzip", header: "Content-Encoding", value: "gzip" },
    { name: "an unknown encoding", header: "Content-Encoding", value: "x" },
  ])("415: $name", async ({ header, value }) => {
    const reply = await send("{}", { [header]: value });
    expect([reply.status, reply.json["code"]]).toEqual([415, "unsupported_media_type"]);
  });
  test.each(["identity", "Identity"])(
    "a charset of UTF-8 and an encoding of %s are taken",
    async (encoding) => {
      const headers = {
        "Content-Type": 'application/json; charset="UTF-8"',
        "Content-Encoding": encoding,
      };
      expect((await send("{}", headers)).json["code"]).toBe("invalid_request");
    },
  );
  test("413: a body over the limit", async () => {
    const limit = path === "/send" ? 24 : 1;
    const reply = await send(`{"a":"${"x".repeat(limit * 1_048_576)}"}`);
    expect([reply.status, reply.json["code"]]).toEqual([413, "payload_too_large"]);
  });
});

test.each([
  { connection: "keep-alive", key: true, status: 413 },
  { connection: "close", key: true, status: 413 },
  { connection: "close", key: false, status: 401 },
  { connection: "keep-alive", key: true, header: "Expect: tea", status: 417 },
  { connection: "keep-alive", key: true, header: `X-Long: ${"x".repeat(20_000)}`, status: 431 },
  { connection: "keep-alive", key: true, header: "no header", status: 400 },
])(
  "$status comes to a client that reads nothing before it has sent all: Connection: $connection",
  async (row) => {
    const socket = connect(h.port, "127.0.0.1");
    const size = 1_048_576;
    const chunk = `${size.toString(16)}\r\n${"x".repeat(size)}\r\n`;
    const headers = [
      "POST /send HTTP/1.1",
      "Host: x",
      `X-API-Key: ${row.key ? h.first.key : "none"}`,
      "Content-Type: application/json",
      "Transfer-Encoding: chunked",
      `Connection: ${row.connection}`,
      ...(row.header === undefined ? [] : [row.header]),
    ];
    socket.on("error", () => undefined);
    socket.write(`${headers.join("\r\n")}\r\n\r\n`);
    for (let sent = 0; sent < 40; sent += 1)
      await new Promise<void>((resolve, reject) => {
        socket.write(chunk, (error) => (error ? reject(error) : resolve()));
      });
    socket.write("0\r\n\r\n");
    let text = "";
    socket.setEncoding("utf8").on("data", (piece: string) => {
      text += piece;
      if (row.connection === "keep-alive") socket.end();
    });
    await once(socket, "close");
    expect(text).toContain(`HTTP/1.1 ${row.status} `);
  },
);

test("400 speaks of what was sent: a query parameter, an empty address", async () => {
  const listed = await h.request({ path: "/jobs?limit=5" });
  expect(listed.json["details"]).toEqual([
    { field: "limit", message: expect.stringMatching(/^is not a known query parameter; known /) },
  ]);
  const json = { to: "", subject: "Hello", body: "Hello." };
  const sent = await h.request({ method: "POST", path: "/send", json });
  expect(sent.json["details"]).toContainEqual({ field: "to", message: "must not be empty" });
});

describe("routing", () => {
  test.each([
    "/nothing",
    "/jobs/a/b/c",
    "//jobs",
    "/jobs/%zz/x",
    "/dashboard/x",
    // RFC 9110, 4.2.3: the letters of a path differ by case.
    "/Jobs",
    "/jobs/x/Executions",
    "/HEALTHZ",
    "/Docs",
    "/Dashboard/",
  ])("404 in shape: %s", async (path) => {
    const reply = await h.request({ path });
    expect([reply.status, reply.json]).toEqual([
      404,
      { error: expect.stringContaining("no such route"), code: "not_found" },
    ]);
  });
  test.each([
    { method: "GET", path: "/send", allow: ["POST"] },
    { method: "PUT", path: "/jobs/x", allow: ["HEAD", "GET", "PATCH", "DELETE"] },
    { method: "DELETE", path: "/jobs", allow: ["POST", "HEAD", "GET"] },
    { method: "PROPFIND", path: "/logs", allow: ["HEAD", "GET"] },
  ])("405 with Allow: $method $path", async ({ method, path, allow }) => {
    const reply = await h.request({ method, path, key: null });
    expect([reply.status, reply.json["code"]]).toEqual([405, "method_not_allowed"]);
    expect((reply.headers.get("allow") ?? "").split(", ").toSorted()).toEqual(allow.toSorted());
  });
  test("404, whatever the method: PROPFIND /nothing", async () => {
    const reply = await h.request({ method: "PROPFIND", path: "/nothing", key: null });
    expect([reply.status, reply.json["code"], reply.headers.get("allow")]).toEqual([
      404,
      "not_found",
      null,
    ]);
  });
  test("HEAD answers as GET does, without a body", async () => {
    const reply = await h.request({ method: "HEAD", path: "/jobs" });
    expect([reply.status, reply.text]).toEqual([200, ""]);
    expect((await h.request({ method: "HEAD", path: "/jobs", key: null })).status).toBe(401);
  });
  test("OPTIONS lists the methods", async () => {
    const reply = await h.request({ method: "OPTIONS", path: "/send", key: null });
    expect([reply.status, reply.text, reply.headers.get("allow")]).toEqual([204, "", "POST"]);
    const nowhere = await h.request({ method: "OPTIONS", path: "/nothing", key: null });
    expect([nowhere.status, nowhere.json["code"]]).toEqual([404, "not_found"]);
  });
});

/** Sends raw bytes. Returns all that comes back until the server closes the connection. */
async function raw(bytes: string): Promise<string> {
  const socket = connect(h.port, "127.0.0.1");
  socket.setEncoding("utf8");
  let text = "";
  socket.on("data", (chunk: string) => {
    text += chunk;
  });
  socket.write(bytes);
  await once(socket, "close");
  return text;
}

describe("what is not valid HTTP", () => {
  const cases = [
    { name: "garbage", bytes: "nonsense\r\n\r\n", status: 400, code: "malformed_request" },
    {
      name: "no Host",
      bytes: "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n",
      status: 400,
      code: "malformed_request",
    },
    {
      name: "two Hosts",
      bytes: "GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\nConnection: close\r\n\r\n",
      status: 400,
      code: "malformed_request",
    },
    {
      name: "two lengths",
      bytes:
        "POST /send HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
      status: 400,
      code: "malformed_request",
    },
    {
      name: "headers of 20 KB",
      bytes: `GET / HTTP/1.1\r\nHost: x\r\nX-A: ${"a".repeat(20_000)}\r\n\r\n`,
      status: 431,
      code: "headers_too_large",
      says: "at most 16 KiB in all",
    },
    {
      name: "an expectation",
      bytes: "POST /send HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 0\r\n\r\n",
      status: 417,
      code: "expectation_failed",
      says: "send 100-continue or none",
    },
    {
      name: "a tunnel",
      bytes: "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
      status: 405,
      code: "method_not_allowed",
    },
    {
      name: "a target that is no path",
      bytes: "GET jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
      status: 400,
      code: "malformed_request",
    },
    {
      name: "a target that is no URL",
      bytes: "GET http://[::1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
      status: 400,
      code: "malformed_request",
    },
  ];
  test.each(cases)("$status in JSON: $name", async ({ bytes, status, code, says = "" }) => {
    const text = await raw(bytes);
    const [head = "", body = ""] = text.split("\r\n\r\n");
    expect(head.split(" ")[1]).toBe(String(status));
    expect(head.toLowerCase()).toContain("content-type: application/json");
    const json = body.slice(body.indexOf("{"), body.lastIndexOf("}") + 1);
    expect(JSON.parse(json)).toEqual({ error: expect.stringContaining(says), code });
  });
});

// RFC 9112, 3.2.2: a server must accept it; RFC 3986, 3.1: a scheme in any case.
test.each(["http", "https", "HTTP", "Https"])(
  "a target in absolute form: %s://x/healthz",
  async (scheme) => {
    const text = await raw(
      `GET ${scheme}://x/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
    );
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
  },
);

test.each([
  { encoding: "gzip, chunked", code: "unsupported_media_type" },
  { encoding: "identity, chunked", code: "unsupported_media_type" },
  { encoding: "gzip\r\nTransfer-Encoding: chunked", code: "unsupported_media_type" },
  { encoding: "Chunked", code: "invalid_request" },
])("a body with Transfer-Encoding: $encoding is answered $code", async ({ encoding, code }) => {
  const headers = [
    "POST /send HTTP/1.1",
    "Host: x",
    `X-API-Key: ${h.first.key}`,
    "Content-Type: application/json",
    `Transfer-Encoding: ${encoding}`,
    "Connection: close",
  ];
  const text = await raw(`${headers.join("\r\n")}\r\n\r\n2\r\n{}\r\n0\r\n\r\n`);
  expect(text).toContain(`"code":"${code}"`);
});

describe("service routes need no key", () => {
  test("GET /healthz, /readyz, /openapi.json", async () => {
    const [health, ready, openApi] = await Promise.all(
      ["/healthz", "/readyz", "/openapi.json"].map((path) => h.request({ path, key: null })),
    );
    expect([health?.status, health?.json]).toEqual([200, { status: "ok" }]);
    expect([ready?.status, ready?.json]).toEqual([
      200,
      { status: "ready", dependencies: { jobs: "up" } },
    ]);
    expect([openApi?.status, openApi?.json["openapi"]]).toEqual([200, "3.1.1"]);
  });
  test.each(["/docs", "/dashboard/", "/dashboard"])("GET %s is a page", async (path) => {
    const reply = await h.request({ path, key: null });
    expect(reply.status).toBe(200);
    expect(reply.headers.get("content-type")).toContain("text/html");
    expect(reply.headers.get("content-security-policy")).toContain("style-src 'sha256-");
  });
  test("GET / points at the documentation", async () => {
    expect((await h.request({ path: "/", key: null })).json).toMatchObject({ docs: "/docs" });
  });
});

describe("when something is down", () => {
  // Waits until the gateway has found the log in order again.
  afterEach(() =>
    h.request({
      method: "POST",
      path: "/send",
      json: { to: "a@example.com", subject: "s", body: "b" },
    }),
  );

  test("503 with Retry-After; /readyz keeps 200 and says what is down", async () => {
    expect((await h.request({ path: "/readyz" })).status).toBe(200);
    world.storeDown = true;
    const reply = await h.request({ path: "/jobs" });
    const ready = await h.request({ path: "/readyz" });
    world.storeDown = false;
    expect([reply.status, reply.json["code"]]).toEqual([503, "dependency_unavailable"]);
    expect(reply.headers.get("retry-after")).toBe("1");
    expect(reply.text).not.toContain("refused");
    expect([ready.status, ready.json]).toEqual([
      200,
      { status: "degraded", dependencies: { jobs: "down" } },
    ]);
  });

  test("one line for an outage, however many requests it fails", async () => {
    world.storeDown = true;
    for (let i = 0; i < 5; i += 1) await h.request({ path: "/jobs" });
    world.storeDown = false;
    const warnings = h.lines.filter((line) => line.includes('"dependency unavailable"'));
    // Warnings about other tests' outages do not count.
    expect(warnings.filter((line) => line.includes("kubernetes is unavailable"))).toHaveLength(1);
  });

  test("a mail that was accepted and could not be logged keeps its Idempotency-Key", async () => {
    const headers = { "Idempotency-Key": "unlogged" };
    const json = { to: "a@example.com", subject: "s", body: "b" };
    world.logDown = true;
    const reply = await h.request({ method: "POST", path: "/send", json, headers });
    world.logDown = false;
    expect([reply.status, reply.json["code"]]).toEqual([503, "sent_not_logged"]);
    const again = await h.request({ method: "POST", path: "/send", json, headers });
    expect([again.status, again.json["code"]]).toEqual([409, "outcome_unknown"]);
  });

  test("a mail that may have been sent, and could not be logged, keeps its Idempotency-Key", async () => {
    const server = await startScriptedServer({ END: null });
    const { account, key } = h.brokenSmtp;
    const from = "noreply@example.com";
    const open = { username: null, password: null, from, tls: "none" } as const;
    await h.settings.set(account, { ...open, host: "127.0.0.1", port: server.port });
    const headers = { "Idempotency-Key": "unlogged and unknown" };
    const json = { to: "a@example.com", subject: "s", body: "b" };
    world.logDown = true;
    const reply = await h.request({ method: "POST", path: "/send", key, json, headers });
    world.logDown = false;
    const again = await h.request({ method: "POST", path: "/send", key, json, headers });
    server.close();
    expect([again.status, again.json["code"]]).toEqual([409, "outcome_unknown"]);
    expect(server.seen.mails).toBe(1);
    expect([reply.status, reply.json["code"]]).toEqual([500, "smtp_failed"]);
    expect(reply.json["error"]).toContain("the mail may have been sent all the same");
  });

  test("without a key, who tries again gives nobody the mail again while nothing can be written", async () => {
    const json = { to: "once@example.com", subject: "s", body: "b" };
    const send = async () => {
      const { status, json: said } = await h.request({ method: "POST", path: "/send", json });
      return [status, said["code"]];
    };
    expect(await send()).toEqual([200, undefined]);
    world.logDown = true;
    const replies = [await send()];
    const asked = world.logAsked;
    replies.push(...(await Promise.all([send(), send()])));
    world.logDown = false;
    expect(replies).toEqual([
      [503, "sent_not_logged"],
      [503, "dependency_unavailable"],
      [503, "dependency_unavailable"],
    ]);
    // Only one request has asked: the question holds a connection for as long as it takes.
    expect(world.logAsked).toBe(asked + 1);
    expect(await send()).toEqual([200, undefined]);
    const { json: log } = await h.request({ path: "/logs?to=once@example.com" });
    expect(log["total"]).toBe(2);
  });

  test("nobody else's mails wait for the log of an account that somebody holds a lock on", async () => {
    const json = { to: "a@example.com", subject: "s", body: "b" };
    const send = async (key: string) => {
      const { status, json: said } = await h.request({ method: "POST", path: "/send", key, json });
      return [status, said["code"]];
    };
    world.locked = h.second.account;
    const first = [await send(h.second.key)];
    const tried = Promise.all([send(h.second.key), send(h.second.key)]);
    const others = [await send(h.first.key), await send(h.first.key)];
    const replies = [...first, ...(await tried), await send(h.second.key)];
    world.locked = undefined;
    expect(others).toEqual([
      [200, undefined],
      [200, undefined],
    ]);
    expect(replies).toEqual([
      [503, "sent_not_logged"],
      [503, "dependency_unavailable"],
      [503, "dependency_unavailable"],
      [503, "dependency_unavailable"],
    ]);
    expect(await send(h.second.key)).toEqual([200, undefined]);
  });
});

async function pathOfNewJob(): Promise<string> {
  const { json } = await h.request({
    method: "POST",
    path: "/jobs",
    json: {
      name: "x",
      type: "webhook",
      schedule_type: "cron",
      cron_expression: "@daily",
      webhook_url: "https://example.com/",
    },
  });
  return `/jobs/${String(json["id"])}`;
}

test.each([
  { others: 4, status: 200, left: 0 },
  { others: 100, status: 409, left: 95 },
])(
  "a job that others change $others times meanwhile: $status",
  async ({ others, status, left }) => {
    const path = await pathOfNewJob();
    world.othersChanges = others;
    const reply = await h.request({ method: "PATCH", path, json: { name: "y" } });
    expect([reply.status, world.othersChanges]).toEqual([status, left]);
    world.othersChanges = 0;
  },
);

test("a job that a GitOps tool manages: 409 for every change, and the owner's name", async () => {
  const path = await pathOfNewJob();
  await h.request({ method: "POST", path: `${path}/pause` });
  world.owned = true;
  const replies = [
    await h.request({ method: "PATCH", path, json: { name: "y" } }),
    await h.request({ method: "DELETE", path }),
    await h.request({ method: "POST", path: `${path}/pause` }),
    await h.request({ method: "POST", path: `${path}/resume` }),
  ];
  world.owned = false;
  for (const reply of replies) {
    expect([reply.status, reply.json["code"]]).toEqual([409, "job_owned"]);
    expect(reply.json["error"]).toContain("Argo CD (team-a)");
  }
  expect((await h.request({ path })).json).toMatchObject({ name: "x", status: "paused" });
});

test("such a job is resumed from the halt of a 410, however often it is asked for", async () => {
  const path = await pathOfNewJob();
  const id = path.slice("/jobs/".length);
  await h.takeUp(h.first.account, id, { haltedGeneration: 1, startable: false });
  world.owned = true;
  const replies = [];
  for (const _ of [1, 2]) replies.push(await h.request({ method: "POST", path: `${path}/resume` }));
  world.owned = false;
  for (const { status, json } of replies)
    expect({ status, json }).toMatchObject({
      status: 200,
      json: { status: "active", halted: false },
    });
});

test("requests are counted by pattern and status, and logged without secrets", async () => {
  await h.request({ path: "/jobs/job-none?secret=1" }).catch(() => undefined);
  await h.request({ path: "/jobs/job-none" });
  const { text } = await h.metrics.render();
  expect(text).toContain(
    'carillon_http_requests_total{method="GET",route="/jobs/{id}",status="404"}',
  );
  expect(text).toMatch(
    /^carillon_http_request_duration_seconds_count\{method="GET",route="\/jobs\/\{id\}",status="404"\} [1-9]/m,
  );
  expect(text).not.toContain("job-none");
  const lines = h.lines.join("");
  expect(lines).toContain('"route":"/jobs/{id}"');
  expect(lines).not.toContain(h.first.key);
  expect(lines).not.toContain("secret=1");
});

test("a request whose client goes away before its answer is counted as 499, not as a 404", async () => {
  const socket = connect(h.port, "127.0.0.1");
  await once(socket, "connect");
  socket.write(
    `POST /send HTTP/1.1\r\nHost: x\r\nX-API-Key: ${h.first.key}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{`,
  );
  await expect.poll(h.inFlight).toBe(1);
  socket.destroy();
  await expect.poll(h.inFlight).toBe(0);
  const { text } = await h.metrics.render();
  expect(text).toMatch(
    /^carillon_http_requests_total\{method="POST",route="\/send",status="499"\} [1-9]/m,
  );
});
