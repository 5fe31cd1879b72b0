import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { createMetrics, type Metrics } from "../../../src/telemetry/metrics.ts";
import { startHealthServer, type HealthServer } from "../../../src/telemetry/health-server.ts";
import { createDependencyChecks, createReadiness } from "../../../src/telemetry/readiness.ts";

let server: HealthServer | undefined;
afterEach(() => {
  server?.close();
});

async function start(
  checks: Record<string, () => Promise<void>>,
  options: Parameters<typeof createReadiness>[1] = {},
  metrics: Pick<Metrics, "render"> = createMetrics({
    version: "1.0.0",
    program: "gateway",
    nodeMetrics: false,
  }),
) {
  server = await startHealthServer({
    host: "127.0.0.1",
    port: 0,
    metrics,
    readiness: createReadiness(createDependencyChecks(checks), options),
  });
  const base = `http://127.0.0.1:${server.port}`;
  return (path: string, init?: RequestInit) => fetch(base + path, init);
}

test("serves the metrics in Prometheus' text format", async () => {
  const get = await start({});
  const response = await get("/metrics");
  expect(response.headers.get("content-type")).toMatch(/^text\/plain; version=0.0.4/);
  expect(await response.text()).toContain(
    'carillon_build_info{version="1.0.0",program="gateway"} 1',
  );
});

test("is alive before it is ready, and stays ready when a dependency fails later", async () => {
  let up = false;
  const get = await start({
    postgres: async () => {
      if (!up) throw new Error("connection refused");
    },
  });
  expect((await get("/healthz")).status).toBe(200);

  const starting = await get("/readyz");
  expect(starting.status).toBe(503);
  expect(await starting.json()).toEqual({ status: "starting", dependencies: { postgres: "down" } });

  up = true;
  expect(await (await get("/readyz")).json()).toMatchObject({ status: "ready" });

  up = false;
  const degraded = await get("/readyz");
  expect(degraded.status).toBe(200);
  expect(await degraded.json()).toEqual({ status: "degraded", dependencies: { postgres: "down" } });
});

test("is ready for a database that answers late, and says that it does", async () => {
  vi.useFakeTimers();
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const ready = createReadiness(
    createDependencyChecks({
      postgres: () => new Promise((resolve) => setTimeout(resolve, 1_000)),
      jobs: async () => undefined,
    }),
  );
  const asked = async () => {
    const report = ready();
    await vi.advanceTimersByTimeAsync(1_000);
    return (await report).status;
  };
  expect(await asked()).toBe("starting");
  expect(await asked()).toBe("degraded");
});

test("says what is optional, and is ready without it", async () => {
  const checks = {
    postgres: async () => undefined,
    namespaces: async () => {
      throw new Error("forbidden");
    },
  };
  const get = await start(checks, { optional: ["namespaces"] });
  const response = await get("/readyz");
  expect(response.status).toBe(200);
  const dependencies = { postgres: "up", namespaces: "down" };
  expect(await response.json()).toEqual({ status: "degraded", dependencies });
});

test("probes that overlap ask once", async () => {
  let asked = 0;
  const ready = createReadiness(
    createDependencyChecks({
      postgres: async () => {
        asked += 1;
      },
    }),
  );
  await Promise.all([ready(), ready()]);
  expect(asked).toBe(1);
  await ready();
  expect(asked).toBe(2);
});

test("knows nothing else", async () => {
  const get = await start({});
  expect((await get("/")).status).toBe(404);
  expect((await get("/healthz", { method: "HEAD" })).status).toBe(200);
  const refused = await get("/readyz", { method: "POST" });
  expect([refused.status, refused.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
});

test("a query changes nothing", async () => {
  const get = await start({});
  expect((await get("/healthz?from=prober")).status).toBe(200);
});

test("metrics that cannot be written are a 500, not silence", async () => {
  const get = await start({}, {}, { render: () => Promise.reject(new Error("no")) });
  expect((await get("/metrics")).status).toBe(500);
});
