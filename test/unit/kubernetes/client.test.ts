import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KubeConfig, type User } from "@kubernetes/client-node";
import { afterEach, describe, expect, test } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-down.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import { createKubernetesClient, type ApiCall } from "../../../src/kubernetes/client.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Reply {
  status: number;
  retryAfter?: string;
}

/** A server that answers one thing after the other, the last for ever; `cut` closes without an answer. */
async function world(replies: readonly (Reply | "cut")[], user: User = { name: "u" }) {
  const seen: IncomingMessage[] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const reply = replies[Math.min(seen.length, replies.length - 1)] ?? "cut";
    seen.push(request);
    request.resume();
    if (reply === "cut") {
      request.socket.destroy();
      return;
    }
    if (reply.retryAfter !== undefined) response.setHeader("Retry-After", reply.retryAfter);
    response.statusCode = reply.status;
    response.end("{}");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const kubeConfig = new KubeConfig();
  kubeConfig.loadFromClusterAndUser(
    { name: "c", server: `http://127.0.0.1:${port}/`, skipTLSVerify: true },
    user,
  );
  let now = 0;
  const waits: number[] = [];
  const client = createKubernetesClient({
    kubeConfig,
    monotonic: () => now,
    timers: {
      // The time of a whole call never runs out here; pauses are over at once.
      after: (ms, callback) => {
        if (ms === 30_000) return { cancel: () => undefined };
        waits.push(ms);
        now += ms;
        const immediate = setImmediate(callback);
        return { cancel: () => clearImmediate(immediate) };
      },
    },
    random: () => 1,
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    userAgent: "test",
  });
  closing.push(
    () => server.close(),
    () => client.close(),
  );
  const later = (ms: number) => (now += ms);
  return { client, seen, waits, later, end: () => server.close() };
}

const GET: ApiCall = { verb: "get", resource: "things", path: "/things/a" };
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
      name: "what a server says of the time in a way that it should not",
      call: GET,
      replies: [{ status: 429, retryAfter: "soon" }, { status: 200 }],
      waits: [100],
    },
    {
      name: "once, when the credentials were refused",
      call: POST,
      replies: [{ status: 401 }, { status: 201 }],
      waits: [],
    },
  ] as const)("$name", async ({ call, replies, waits }) => {
    const made = await world(replies);
    await expect(made.client.call(call)).resolves.toEqual({});
    expect(made.seen).toHaveLength(replies.length);
    expect(made.waits).toEqual(waits);
  });

  test("ten times at most, less and less often", async () => {
    const made = await world([{ status: 500 }]);
    await expect(made.client.call(GET)).rejects.toThrow(DependencyUnavailable);
    expect(made.seen).toHaveLength(10);
    expect(made.waits).toEqual(backoff);
  });

  test("a change as well, when there was no connection", async () => {
    const made = await world([{ status: 200 }]);
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

  test.each([
    { status: 404, times: 1 },
    { status: 401, times: 2 },
  ])("a refusal, $status", async ({ status, times }) => {
    const made = await world([{ status }]);
    const error: unknown = await made.client.call(GET).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ApiError);
    expect(made.seen).toHaveLength(times);
  });
});

/** The credentials of each request. */
const shown = ({ seen }: { seen: IncomingMessage[] }) =>
  seen.map(({ headers }) => headers.authorization);

/** Which has made a call with its first token, and has a second one since. */
async function pod(replies: readonly Reply[]) {
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

  test("counts within ten seconds", async () => {
    const made = await pod([{ status: 200 }]);
    made.later(9_000);
    await made.client.call(GET);
    made.later(1_000);
    await made.client.call(GET);
    expect(shown(made)).toEqual(["Bearer first", "Bearer first", "Bearer second"]);
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
  expect(request?.headers["content-type"]).toBe(type);
});
