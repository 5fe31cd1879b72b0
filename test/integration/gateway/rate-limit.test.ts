import { afterAll, beforeAll, expect, test } from "vitest";
import { startHarness, type Harness } from "./harness.ts";

let h: Harness;
beforeAll(async () => {
  h = await startHarness({ limits: { perSecond: 0.01, burst: 2 } });
});
afterAll(() => h.close());

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
