import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { connect, type AddressInfo, type Server } from "node:net";
import { pipeline, type Duplex } from "node:stream";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KubeConfig, type Cluster, type User } from "@kubernetes/client-node";
import { afterEach, describe, expect, test } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { AnswerTooLarge, ApiError } from "../../../src/kubernetes/api-error.ts";
import { createKubernetesClient, type ApiCall } from "../../../src/kubernetes/client.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { createAuthority } from "../../network/certificates.ts";
import { until } from "../../until.ts";

/** The API server's answer to everything: an object with a kind. */
const THING = { kind: "Thing" };

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Reply {
  status: number;
  retryAfter?: string;
  /** How long the answer takes by the client's clock, in milliseconds. */
  takes?: number;
  body?: string;
  /** The body has no end. */
  goesOn?: boolean;
}

/**
 * A server that gives these answers one after the other, the last one again and again. `cut` closes the connection
 * without an answer, `hang` never answers.
 */
async function world(
  replies: readonly (Reply | "cut" | "hang")[],
  user: User = { name: "u" },
  options: {
    cluster?: Partial<Cluster>;
    random?: number;
    timeoutMs?: number;
    connections?: number;
  } = {},
) {
  const { cluster, random = 1, ...limits } = options;
  const seen: IncomingMessage[] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const reply = replies[Math.min(seen.length, replies.length - 1)] ?? "cut";
    seen.push(request);
    request.resume();
    if (reply === "hang") return;
    if (reply === "cut") {
      request.socket.destroy();
      return;
    }
    now += reply.takes ?? 0;
    if (reply.retryAfter !== undefined) response.setHeader("Retry-After", reply.retryAfter);
    response.statusCode = reply.status;
    const body = reply.body ?? JSON.stringify(THING);
    if (reply.goesOn) response.write(body);
    else response.end(body);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const kubeConfig = new KubeConfig();
  kubeConfig.loadFromClusterAndUser(
    { name: "c", server: `http://127.0.0.1:${port}/`, skipTLSVerify: true, ...cluster },
    user,
  );
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  let now = 0;
  const waits: number[] = [];
  const client = createKubernetesClient({
    kubeConfig,
    monotonic: () => now,
    timers: {
      // Timers fire at once, except long ones, such as that of a whole call, which never fire here.
      after: (ms, callback) => {
        if (ms >= 20_000) return { cancel: () => undefined };
        waits.push(ms);
        now += ms;
        const immediate = setImmediate(callback);
        return { cancel: () => clearImmediate(immediate) };
      },
    },
    random: () => random,
    metrics,
    userAgent: "test",
    ...limits,
  });
  closing.push(
    () => server.close(),
    () => server.closeAllConnections(),
    () => client.close(),
  );
  const later = (ms: number) => (now += ms);
  return { client, metrics, seen, waits, later, end: () => server.close() };
}

/** A server with TLS, whose certificate has this name. Returns what a kubeconfig says about it. */
async function secure(name: string) {
  const authority = createAuthority();
  const server = createTlsServer(authority.issue([name]), (_, response) =>
    response.end(JSON.stringify(THING)),
  );
  const caData = Buffer.from(authority.certificate).toString("base64");
  return { server: `https://${await listening(server)}`, caData, skipTLSVerify: false };
}

async function listening(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  closing.push(() => server.close());
  await once(server, "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const GET: ApiCall = { verb: "get", resource: "things", path: "/things/a" };
const TOO_LARGE = JSON.stringify({ kind: "Status", message: "etcdserver: request is too large" });
const NOT_FOUND = JSON.stringify({ kind: "Status", reason: "NotFound", code: 404 });
const POST: ApiCall = { verb: "create", resource: "things", path: "/things", body: {} };

describe("what is asked for again, and when", () => {
  const backoff = [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000];
  test.each([
    {
      name: "a GET that met a 500",
      call: GET,
      replies: [{ status: 500 }, { status: 200 }],
      waits: [100],
    },
    { name: "a GET that was cut off", call: GET, replies: ["cut", { status: 200 }], waits: [100] },
    {
      name: "a GET that met a proxy without its API server",
      call: GET,
      replies: [
        { status: 404, body: "default backend - 404" },
        { status: 404, body: "<h1>404 page not found</h1>" },
        { status: 404, body: '{"message":"no route"}' },
        { status: 200 },
      ],
      waits: [100, 200, 400],
    },
    {
      name: "a GET that met a proxy which has people sign in, or says that all is well",
      call: GET,
      replies: [
        { status: 302, body: "" },
        { status: 200, body: "{}" },
        { status: 200, body: "null" },
        { status: 200, body: '{"kind":7}' },
        { status: 200, body: "<h1>Sign in</h1>" },
        { status: 200 },
      ],
      waits: [100, 200, 400, 800, 1_600],
    },
    {
      name: "a GET of what every API server has",
      call: { ...GET, path: "/api/v1/namespaces/a" },
      replies: [{ status: 404, body: "404 page not found\n" }, { status: 200 }],
      waits: [100],
    },
    {
      name: "a change that was refused for now",
      call: POST,
      replies: [{ status: 429 }, { status: 503 }, { status: 201 }],
      waits: [100, 200],
    },
    {
      name: "a change whose server says when, as long as it says",
      call: POST,
      replies: [{ status: 500, retryAfter: "2" }, { status: 201 }],
      waits: [2_000],
    },
    {
      name: "what a server says of the time in ways that it should not",
      call: GET,
      replies: [
        { status: 429, retryAfter: "soon" },
        { status: 429, retryAfter: "-1" },
        { status: 200 },
      ],
      waits: [100, 200],
    },
    {
      name: "once, when the credentials were refused",
      call: POST,
      replies: [{ status: 401 }, { status: 201 }],
      waits: [],
    },
  ] as const)("$name", async ({ call, replies, waits }) => {
    const made = await world(replies);
    await expect(made.client.call(call)).resolves.toEqual(THING);
    expect(made.seen).toHaveLength(replies.length);
    expect(made.waits).toEqual(waits);
  });

  test.each([1, 0])("ten times at most, less and less often: random %d", async (random) => {
    const made = await world([{ status: 500 }], { name: "u" }, { random });
    await expect(made.client.call(GET)).rejects.toThrow(DependencyUnavailable);
    expect(made.seen).toHaveLength(10);
    expect(made.waits).toEqual(backoff.map((ms) => (random === 1 ? ms : ms / 2)));
  });

  test.each([
    { name: "connection", elsewhere: async () => ({}) },
    { name: "such server", elsewhere: async () => ({ server: "http://nowhere.invalid" }) },
    {
      name: "certificate that can be believed",
      elsewhere: async () => ({ ...(await secure("127.0.0.1")), caData: "" }),
    },
  ])("a change as well, when there was no $name", async ({ elsewhere }) => {
    const cluster = await elsewhere();
    const made = await world([{ status: 200 }], { name: "u" }, { cluster });
    made.end();
    await expect(made.client.call(POST)).rejects.toThrow(DependencyUnavailable);
    expect(made.waits).toEqual(backoff);
  });

  test("not when that would take too long, which is passed on", async () => {
    const made = await world([{ status: 429, retryAfter: "60" }]);
    await expect(made.client.call(GET)).rejects.toMatchObject({
      name: "DependencyUnavailable",
      retryAfterSeconds: 60,
    });
    expect(made.seen).toHaveLength(1);
  });
});

describe("what is not asked for again", () => {
  test.each([
    { name: "a change that met a 500", call: POST, reply: { status: 500 } },
    { name: "a change that was cut off", call: POST, reply: "cut" },
    { name: "a change that no API server answers", call: POST, reply: { status: 404, body: "" } },
    { name: "a change that was sent away", call: POST, reply: { status: 302, body: "" } },
    { name: "a change of which nothing is told", call: POST, reply: { status: 201, body: "{}" } },
  ] as const)("$name: its outcome is unknown", async ({ call, reply }) => {
    const made = await world([reply]);
    await expect(made.client.call(call)).rejects.toThrow(DependencyUnavailable);
    expect(made.seen).toHaveLength(1);
  });

  test("what its caller gave up, with the caller's reason, a change too", async () => {
    const made = await world([{ status: 200 }]);
    const reason = new Error("the caller left");
    for (const call of [GET, POST])
      await expect(made.client.call({ ...call, signal: AbortSignal.abort(reason) })).rejects.toBe(
        reason,
      );
  });

  test("what is not wanted any more before a try, and what is before the first is not asked for at all", async () => {
    const made = await world([{ status: 503 }]);
    let tries = 0;
    const reason = new Error("not any more");
    const beforeTry = () => {
      tries += 1;
      if (tries > 2) throw reason;
    };
    for (const asked of [2, 2]) {
      await expect(made.client.call({ ...POST, beforeTry })).rejects.toBe(reason);
      expect(made.seen).toHaveLength(asked);
    }
  });

  test("what its caller gives up while the server is being waited for", async () => {
    const made = await world([{ status: 429, retryAfter: "25" }]);
    const leaving = new AbortController();
    const called = made.client.call({ ...GET, signal: leaving.signal });
    called.catch(() => undefined);
    await until("the server has been asked", () => made.seen.length > 0);
    const reason = new Error("the caller left");
    leaving.abort(reason);
    await expect(called).rejects.toBe(reason);
    expect(made.seen).toHaveLength(1);
  });

  test.each([
    { limits: { client: 5_000 }, counts: 5_000 },
    { limits: { call: 7_000 }, counts: 7_000 },
    { limits: { client: 5_000, call: 7_000 }, counts: 7_000 },
  ])("what takes longer than the time for it, $limits", async ({ limits, counts }) => {
    const { client: timeoutMs, call } = limits as { client?: number; call?: number };
    const options = timeoutMs === undefined ? {} : { timeoutMs };
    const made = await world(["hang"], { name: "u" }, options);
    const asked = { ...GET, signal: new AbortController().signal };
    const within = call === undefined ? asked : { ...asked, timeoutMs: call };
    await expect(made.client.call(within)).rejects.toThrow(DependencyUnavailable);
    expect(made.waits[0]).toBe(counts);
  });

  test.each([
    { status: 404, body: NOT_FOUND, times: 1 },
    // Of a kind that is not served.
    { status: 404, body: "404 page not found\n", times: 1 },
    { status: 401, body: "", times: 2 },
    // Of what etcd does not store, now or later.
    { status: 500, body: TOO_LARGE, times: 1 },
  ])("a refusal, $status: $body", async ({ status, body, times }) => {
    const made = await world([{ status, body }]);
    const error: unknown = await made.client.call(GET).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ApiError);
    expect(made.seen).toHaveLength(times);
  });
});

test("an answer may have as many bytes as its caller says, and is asked for once if it has more", async () => {
  const made = await world([{ status: 200, body: '{"kind":"ü"}' }]);
  await expect(made.client.call({ ...GET, mostBytes: 13 })).resolves.toEqual({ kind: "ü" });
  await expect(made.client.call({ ...GET, mostBytes: 12 })).rejects.toThrow(AnswerTooLarge);
  expect(made.seen).toHaveLength(2);
});

test("the bytes of an answer are told, of a refusal none", async () => {
  const made = await world([
    { status: 503 },
    { status: 200, body: '{"kind":"ü"}' },
    { status: 409 },
  ]);
  const sizes: number[] = [];
  const sized: ApiCall = { ...GET, onSize: (bytes) => sizes.push(bytes) };
  await made.client.call(sized);
  await expect(made.client.call(sized)).rejects.toThrow(ApiError);
  expect(sizes).toEqual([13]);
});

/** The Authorization header of each request. */
const shown = ({ seen }: { seen: IncomingMessage[] }) =>
  seen.map(({ headers }) => headers.authorization);

test("a name and a password", async () => {
  const made = await world([{ status: 200 }], { name: "u", username: "ann", password: "p:w" });
  await made.client.call(GET);
  expect(shown(made)).toEqual([`Basic ${btoa("ann:p:w")}`]);
});

/** A client in a pod, which has made a call with its first token, and has a second one since. */
async function pod(replies: readonly (Reply | "cut")[]) {
  const folder = await mkdtemp(join(tmpdir(), "carillon-token-"));
  closing.push(() => rm(folder, { recursive: true }));
  const tokenFile = join(folder, "token");
  await writeFile(tokenFile, "first");
  const authProvider = { name: "tokenFile", config: { tokenFile } };
  const made = await world(replies, { name: "pod", authProvider });
  await made.client.call(GET);
  await writeFile(tokenFile, "second\n");
  return made;
}

describe("a token in a file that is replaced, as a pod's", () => {
  test("counts as soon as the one before is refused", async () => {
    const made = await pod([{ status: 200 }, { status: 401 }, { status: 200 }]);
    await made.client.call(GET);
    expect(shown(made)).toEqual(["Bearer first", "Bearer first", "Bearer second"]);
  });

  test("counts as soon as a connection has broken: what the server shows may be new as well", async () => {
    const made = await pod([{ status: 200 }, "cut", { status: 200 }]);
    await made.client.call(GET);
    expect(shown(made)).toEqual(["Bearer first", "Bearer first", "Bearer second"]);
  });

  test("counts within ten seconds", async () => {
    const made = await pod([{ status: 200 }]);
    made.later(9_000);
    await made.client.call(GET);
    made.later(1_000);
    await made.client.call(GET);
    expect(shown(made)).toEqual(["Bearer first", "Bearer first", "Bearer second"]);
  });
});

/** A client with a plugin that gives another token each time, without an expiry. */
async function plugin(replies: readonly (Reply | "cut")[]) {
  const folder = await mkdtemp(join(tmpdir(), "carillon-plugin-"));
  closing.push(() => rm(folder, { recursive: true }));
  const script = `
    const { appendFileSync, readFileSync } = require("node:fs");
    const [, asked] = process.argv;
    appendFileSync(asked, "x");
    const token = "token-" + readFileSync(asked, "utf8").length;
    console.log(JSON.stringify({ status: { token } }));`;
  const exec = { command: process.execPath, args: ["-e", script, join(folder, "asked")] };
  return world(replies, { name: "u", exec });
}

describe("a token of a kubeconfig's plugin", () => {
  test("is another one once it has been refused, in a watch too", async () => {
    const made = await plugin([{ status: 200 }, { status: 401 }, { status: 200 }, { status: 401 }]);
    await made.client.call(GET);
    await made.client.call(GET);
    const signal = AbortSignal.timeout(10_000);
    const watch = { resource: "things", path: "/things", query: {}, signal, inactivityMs: 20_000 };
    for (let n = 0; n < 2; n += 1) await expect(made.client.watch(watch)).rejects.toThrow(ApiError);
    expect(shown(made)).toEqual([1, 1, 2, 2, 3].map((n) => `Bearer token-${n}`));
  });

  test("is the same one after an outage, and later: who is asked may be slow, or a person", async () => {
    const made = await plugin([{ status: 200 }, { status: 200 }, "cut", { status: 200 }]);
    await Promise.all([made.client.call(GET), made.client.call(GET)]);
    await made.client.call(GET);
    made.later(60_000);
    await made.client.call(GET);
    expect(new Set(shown(made))).toEqual(new Set(["Bearer token-1"]));
  });
});

describe("a kubeconfig's plugin that hangs", () => {
  test("is waited for as long as a call may take, or a watch be silent, and heard when it answers after all", async () => {
    const folder = await mkdtemp(join(tmpdir(), "carillon-plugin-"));
    closing.push(() => rm(folder, { recursive: true }));
    const script = `
      const { existsSync } = require("node:fs");
      const [, released] = process.argv;
      const answer = () => console.log(JSON.stringify({ status: { token: "at-last" } }));
      const look = () => (existsSync(released) ? answer() : setTimeout(look, 10));
      look();`;
    const released = join(folder, "released");
    const exec = { command: process.execPath, args: ["-e", script, released] };
    const made = await world([{ status: 200 }], { name: "u", exec }, { timeoutMs: 10_000 });
    for (const call of [GET, POST])
      await expect(made.client.call(call)).rejects.toThrow(DependencyUnavailable);
    const { signal } = new AbortController();
    const watch = { resource: "things", path: "/things", query: {}, signal, inactivityMs: 10_000 };
    await expect(made.client.watch(watch)).rejects.toThrow(DependencyUnavailable);
    expect(made.seen).toHaveLength(0);
    await writeFile(released, "");
    await made.client.call({ ...GET, timeoutMs: 30_000 });
    expect(shown(made)).toEqual(["Bearer at-last"]);
  });
});

test.each([
  [{ verb: "patch" }, "application/merge-patch+json"],
  [{ verb: "patch", patch: "json" }, "application/json-patch+json"],
  [{ verb: "apply" }, "application/apply-patch+yaml"],
] as const)("%j is sent as %s, without what was not asked for", async (how, type) => {
  const made = await world([{ status: 200 }]);
  await made.client.call({ ...GET, ...how, body: {}, query: { limit: 1, continue: undefined } });
  const [request] = made.seen;
  expect(request?.method).toBe("PATCH");
  expect(request?.url).toBe("/things/a?limit=1");
  expect(request?.headers).toMatchObject({ "content-type": type, "user-agent": "test" });
});

test("a connection stays while nothing changes that it was opened with", async () => {
  const made = await world([{ status: 200 }], { name: "u" }, { connections: 1 });
  for (let n = 0; n < 3; n += 1) {
    await made.client.call(GET);
    made.later(10_000);
  }
  expect(new Set(made.seen.map(({ socket }) => socket)).size).toBe(1);
});

test("a body that is nested deeper than the stack is sent", async () => {
  let body: unknown = [];
  for (let depth = 0; depth < 20_000; depth += 1) body = [body];
  const made = await world([{ status: 201 }]);
  await expect(made.client.call({ ...POST, body })).resolves.toEqual(THING);
  expect(made.seen[0]?.headers["content-length"]).toBe("40002");
});

test("letters that arrive in two parts are whole", async () => {
  const letters = "é".repeat(1_000_000);
  const { client } = await world([{ status: 200, body: JSON.stringify({ kind: letters }) }]);
  const { kind } = await client.call<{ kind: string }>(GET);
  expect(kind === letters).toBe(true);
});

test("each exchange is counted and timed, in seconds", async () => {
  const made = await world([{ status: 500, takes: 250 }, "cut", { status: 200, takes: 250 }]);
  await made.client.call(GET);
  const { text } = await made.metrics.render();
  for (const status of ["500", "error", "200"])
    expect(text).toContain(
      `carillon_kubernetes_requests_total{verb="get",resource="things",status="${status}"} 1\n`,
    );
  const labels = 'verb="get",resource="things"';
  expect(text).toContain(`carillon_kubernetes_request_duration_seconds_sum{${labels}} 0.5\n`);
});

async function callAt(cluster: Partial<Cluster>): Promise<unknown> {
  const { client } = await world([], { name: "u" }, { cluster });
  return client.call(GET);
}

describe("what a kubeconfig says of the way to its server", () => {
  test("the name in its certificate is another", async () => {
    const cluster = await secure("api.example");
    await expect(callAt({ ...cluster, tlsServerName: "api.example" })).resolves.toEqual(THING);
  });

  test("it is behind a proxy", async () => {
    const asked: (string | undefined)[] = [];
    const proxy = createServer();
    proxy.on("connect", ({ url }: IncomingMessage, socket: Duplex) => {
      asked.push(url);
      const [host, port] = url?.split(":") ?? [];
      const way = connect(Number(port), host, () => socket.write("HTTP/1.1 200 OK\r\n\r\n"));
      pipeline(socket, way, socket, () => undefined);
    });
    const proxyUrl = `http://${await listening(proxy)}`;
    const cluster = await secure("127.0.0.1");
    await expect(callAt({ ...cluster, proxyUrl })).resolves.toEqual(THING);
    expect(asked).toEqual([cluster.server.slice("https://".length)]);
  });

  test("it is behind a proxy of a kind that we do not speak to", async () => {
    const cluster = { ...(await secure("127.0.0.1")), proxyUrl: "socks5://127.0.0.1:1080" };
    const message = expect.stringContaining("a SOCKS proxy") as unknown;
    await expect(callAt(cluster)).rejects.toMatchObject({ cause: { cause: { message } } });
  });
});

describe("a watch", () => {
  const open = { resource: "things", path: "/things", query: { watch: "true" } };
  const begin = async (reply: Reply | "hang", signal = new AbortController().signal) => {
    const made = await world([reply]);
    return made.client.watch({ ...open, signal, inactivityMs: 100 });
  };

  test.each([
    { reply: { status: 429, retryAfter: "7" }, error: { retryAfterSeconds: 7 } },
    { reply: { status: 503 }, error: { name: "DependencyUnavailable" } },
    { reply: { status: 410 }, error: { code: 410 } },
    { reply: { status: 302 }, error: { name: "DependencyUnavailable" } },
    { reply: "hang", error: { name: "DependencyUnavailable" } },
  ] as const)("that is answered with $reply", async ({ reply, error }) => {
    await expect(begin(reply)).rejects.toMatchObject(error);
  });

  test("that its caller gives up, with the caller's reason", async () => {
    const reason = new Error("the caller left");
    await expect(begin("hang", AbortSignal.abort(reason))).rejects.toBe(reason);
  });

  test.each([
    { what: "is given up", inactivityMs: 60_000, givenUp: true, end: { message: "enough" } },
    { what: "falls silent", inactivityMs: 100, end: { code: "UND_ERR_BODY_TIMEOUT" } },
  ])("that $what ends, although its body does not", async ({ inactivityMs, givenUp, end }) => {
    const made = await world([{ status: 200, goesOn: true }]);
    const leaving = new AbortController();
    const body = await made.client.watch({ ...open, signal: leaving.signal, inactivityMs });
    if (givenUp) leaving.abort(new Error("enough"));
    await expect(body.text()).rejects.toMatchObject(end);
  });
});
