import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Job } from "../../../src/domain/job.ts";
import { collectGarbage } from "../../collect-garbage.ts";
import { cronSpec } from "../../conformance/job-store.ts";
import { metricValue } from "../../metric-value.ts";
import { until } from "../../until.ts";
import { startHarness, type Harness } from "./harness.ts";

/** More than the sockets of a connection hold: the rest of a list stays with the gateway while nobody reads it. */
const MANY = 50_000;
/** The answers have room for a list and a half. */
const BODY_BYTES = 4_000_000;

/** What the store lists. */
let listed: () => Promise<Job[]>;
let h: Harness;
beforeAll(async () => {
  h = await startHarness({
    bodyBytes: BODY_BYTES,
    jobs: (jobs) => ({ ...jobs, list: async () => ({ jobs: await listed(), position: "" }) }),
  });
});
afterAll(() => h.close());

/** Sends a request, or many, whose answers are read only when `resume` is called. */
async function askWithoutReading(request: string) {
  const socket = connect(h.port, "127.0.0.1");
  await once(socket, "connect");
  socket.write(request);
  await once(socket, "readable");
  return socket;
}

test("an account that does not read its answers is given no more large ones; others are", async () => {
  const spec = cronSpec();
  if (spec.target.kind === "webhook") spec.target.payload = JSON.stringify("x".repeat(10_000));
  const { account, key } = h.first;
  const job = await h.jobs.create({ account, id: "large", spec });
  listed = async () => Array<Job>(MANY).fill(job);
  const unread = await askWithoutReading(
    `GET /jobs HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nConnection: close\r\n\r\n`,
  );
  try {
    const list = (of: string) => h.request({ path: "/jobs", key: of });
    const refused = await list(key);
    expect(refused.status).toBe(429);
    expect(refused.json).toMatchObject({ code: "rate_limited" });
    // The change is made: an answer that refuses it would be wrong.
    const change = h.request({ method: "POST", path: "/jobs/large/pause", key });
    await expect(change).rejects.toThrow("fetch failed");
    expect((await h.jobs.get(account, "large"))?.spec.suspend).toBe(true);
    expect((await h.request({ path: "/jobs/none", key })).status).toBe(404);
    expect((await list(h.second.key)).status).toBe(200);
    unread.resume();
    await once(unread, "end");
    expect((await list(key)).status).toBe(200);
  } finally {
    unread.destroy();
  }
});

test("a list whose client has gone away takes no room", async () => {
  const job = await h.jobs.create({ account: h.first.account, id: "gone", spec: cronSpec() });
  const jobs = Array<Job>(MANY).fill(job);
  const [begun, read] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  listed = async () => {
    begun.resolve();
    await read.promise;
    return jobs;
  };
  const { key } = h.first;
  const socket = connect(h.port, "127.0.0.1");
  socket.write(`GET /jobs HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`);
  await begun.promise;
  socket.destroy();
  await until("its client is gone", async () => (await h.inFlight()) === 0);
  read.resolve();
  // Of an account with an answer in memory, a list would find no room.
  for (const _ of [1, 2]) expect((await h.request({ path: "/jobs", key })).status).toBe(200);
});

test("the document of the API is in memory once, however many do not read it", async () => {
  const path = "/openapi.json";
  await h.request({ path, key: null });
  const answers = async () => {
    const { text } = await h.metrics.render();
    const ended = `carillon_http_requests_total{method="GET",route="${path}",status="200"}`;
    return {
      ended: metricValue(text, ended),
      begun: metricValue(text, "carillon_http_requests_in_flight"),
    };
  };
  collectGarbage();
  const before = process.memoryUsage().arrayBuffers;
  const requests = `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(100);
  const readers = await Promise.all(Array.from({ length: 10 }, () => askWithoutReading(requests)));
  let last: number | undefined;
  await until("the sockets are full", async () => {
    const { ended, begun } = await answers();
    const more = ended !== last;
    last = ended;
    return !more && begun === readers.length;
  });
  collectGarbage();
  const kept = process.memoryUsage().arrayBuffers - before;
  for (const reader of readers) reader.destroy();
  expect(kept / readers.length).toBeLessThan(200_000);
});
