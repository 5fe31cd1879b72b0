import { afterEach, beforeEach, expect, test } from "vitest";
import { openApiDocument } from "../../../src/gateway/openapi.ts";
import { startHarness, type Harness } from "./harness.ts";
import { sendLate } from "./late-body.ts";

let h: Harness;
beforeEach(async () => {
  h = await startHarness({ limits: { perSecond: 0.01, burst: 2 } });
});
afterEach(() => h.close());

test("429 with Retry-After once the key's bucket is empty; other keys and open routes go on", async () => {
  expect((await h.request({ path: "/jobs" })).headers.get("ratelimit-remaining")).toBe("1");
  expect((await h.request({ path: "/jobs" })).status).toBe(200);
  const reply = await h.request({ path: "/jobs" });
  expect([reply.status, reply.json["code"]]).toEqual([429, "rate_limited"]);
  expect(Number(reply.headers.get("retry-after"))).toBeGreaterThan(50);
  expect(reply.headers.get("ratelimit-remaining")).toBe("0");
  expect((await h.request({ path: "/jobs", key: h.second.key })).status).toBe(200);
  expect((await h.request({ path: "/healthz" })).status).toBe(200);
  expect((await h.metrics.render()).text).toContain("carillon_http_rate_limited_total 1");
});

test("a request whose body comes late counts once, although its key is looked up again", async () => {
  const headers = { "X-API-Key": h.first.key };
  const late = await sendLate(h, { method: "POST", path: "/jobs", json: {}, headers });
  // A later request has been answered: the key of the first has been looked up, too.
  await h.request({ path: "/jobs", key: h.second.key });
  const reply = await late.rest();
  expect([reply.status, reply.headers.get("ratelimit-remaining")]).toEqual([400, "1"]);
});

test("what an answer says of the rate is in the document, for each status", async () => {
  const { responses } = openApiDocument({ version: "1" }).paths["/jobs/{id}"]?.["get"] ?? {};
  const ask = async (path: string, key: string | null = h.second.key) => {
    const { status, headers } = await h.request({ path, key });
    const said = [...headers.keys()].filter((name) => name.startsWith("ratelimit-"));
    const declared = Object.keys(responses?.[status]?.headers ?? {}).map((name) =>
      name.toLowerCase(),
    );
    expect(declared.filter((name) => name.startsWith("ratelimit-"))).toEqual(said);
    return status;
  };
  expect(await ask("/jobs/none?x=1")).toBe(400);
  await ask("/jobs/none");
  expect(await ask("/jobs/none")).toBe(429);
  expect(await ask("/jobs/none", null)).toBe(401);
});
