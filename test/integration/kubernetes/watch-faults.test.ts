import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from "vitest";
import { createReflector } from "../../../src/controller/reflector.ts";
import { PositionExpired, type JobStore } from "../../../src/domain/ports/job-store.ts";
import { specFromResource } from "../../../src/kubernetes/scheduled-job.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { connect, createNamespace, installCrd, jobStore } from "../../kubernetes/cluster.ts";
import { anotherControlPlane } from "../../kubernetes/control-plane.ts";
import { startHttpProxy, type HttpProxy } from "../../kubernetes/http-proxy.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import type { OwnControlPlane } from "../../kubernetes/own-control-plane.ts";
import { realTime } from "../../kubernetes/real-time.ts";
import { addressOf, startTcpProxy, type TcpProxy } from "../../network/tcp-proxy.ts";
import { until } from "../../until.ts";

const SPEC = specFromResource(
  { schedule: { cron: "0 3 * * *" }, webhook: { url: "https://example.com/" } },
  "job",
);

/**
 * A reflector follows the API server through a damaged wire, while jobs are created, changed and deleted past it. It
 * never resyncs by itself, so all that it knows in the end comes from watches, and from lists after faults.
 */
describe.runIf(inject("tokenSecret") !== "")("watching through faults", () => {
  let controlPlane: OwnControlPlane;
  let namespace: string;
  let direct: JobStore;
  let account: string;
  const accountNamespaces = namespaceAccounts([]);
  const closing: (() => unknown)[] = [];

  beforeAll(async () => {
    controlPlane = await anotherControlPlane();
    const client = connect(controlPlane.kubeconfig);
    await installCrd(client);
    namespace = (await createNamespace(client, "faults")).name;
    account = accountNamespaces.bind(namespace);
    direct = jobStore(client, accountNamespaces);
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  afterAll(async () => {
    await controlPlane?.stop();
  });

  /** Starts a reflector through the proxy at `server`, and returns what it knows. */
  async function follow(server: string, inactivityMs = 60_000) {
    const client = connect(controlPlane.kubeconfig, { server });
    const { metrics } = client;
    const jobs = jobStore(client, accountNamespaces, { inactivityMs });
    const log = createLogger({ level: "silent" });
    const reflector = createReflector({ jobs, ...realTime, log, resyncMs: 3_600_000 / 1.25 });
    const known = new Map<string, number>();
    const counts = { lists: 0, listed: 0 };
    const end = new AbortController();
    const running = reflector.run(
      {
        listing() {
          counts.lists += 1;
        },
        changed(job) {
          known.set(job.uid, Math.max(job.generation, known.get(job.uid) ?? 0));
        },
        deleted(uid) {
          known.delete(uid);
        },
        listed(uids) {
          counts.listed += 1;
          for (const uid of known.keys()) if (!uids.has(uid)) known.delete(uid);
        },
        stale: () => undefined,
      },
      end.signal,
    );
    closing.push(async () => {
      end.abort();
      await running;
      await client.close();
    });
    await until("the first list", () => counts.listed > 0);
    return { known, counts, metrics };
  }

  let serial = 0;
  /** Creates, changes and deletes jobs; some stay. */
  async function churn(rounds: number): Promise<void> {
    for (let i = 0; i < rounds; i += 1) {
      const id = `job-${(serial += 1)}`;
      const job = await direct.create({ account, id, spec: SPEC });
      if (i % 2 === 0) await direct.update(job, { ...SPEC, name: `changed ${i}` });
      if (i % 3 === 0) {
        const now = await direct.get(account, id);
        if (now) await direct.delete(now);
      }
    }
  }

  async function converges(known: ReadonlyMap<string, number>, within = 20_000): Promise<void> {
    const { jobs } = await direct.list({ account, limit: 10_000 });
    const truth = new Map(jobs.map((job) => [job.uid, job.generation]));
    const same = () =>
      known.size === truth.size &&
      [...truth].every(([uid, generation]) => known.get(uid) === generation);
    await until(() => `${known.size} jobs known, ${truth.size} there`, same, within);
    expect(Object.fromEntries(known)).toEqual(Object.fromEntries(truth));
  }

  async function tcp(): Promise<TcpProxy & { url: string }> {
    const proxy = await startTcpProxy({ target: () => addressOf(controlPlane.server) });
    closing.push(() => proxy.close());
    return Object.assign(proxy, { url: `https://127.0.0.1:${proxy.port}` });
  }

  async function http(): Promise<HttpProxy> {
    const proxy = await startHttpProxy({ server: controlPlane.server, ca: controlPlane.ca() });
    closing.push(() => proxy.close());
    return proxy;
  }

  test("connections are cut again and again: taken up from the last position", async () => {
    const proxy = await tcp();
    const { known, counts } = await follow(proxy.url);
    for (let i = 0; i < 5; i += 1) {
      const writing = churn(6);
      const before = proxy.accepted;
      proxy.cut();
      await writing;
      await until("a new connection", () => proxy.accepted > before);
    }
    await converges(known);
    expect(counts.lists).toBe(1);
  });

  test("the peer vanishes without a word: noticed by the silence", async () => {
    const proxy = await tcp();
    const { known, counts, metrics } = await follow(proxy.url, 1_500);
    await churn(6);
    await converges(known);
    proxy.hang();
    const silences = await ends(metrics, "inactive");
    await churn(6);
    await until("the inactivity timer", async () => (await ends(metrics, "inactive")) > silences);
    proxy.heal();
    await converges(known);
    expect(counts.lists).toBe(1);
  });

  test("an API server that has nothing to say is watched again, and not listed", async () => {
    const { known, counts, metrics } = await follow(controlPlane.server, 300);
    await until("silence, time and again", async () => (await ends(metrics, "inactive")) > 2);
    await churn(3);
    await converges(known);
    expect(counts.lists).toBe(1);
  });

  test("a silent watch is taken up where it was, not where it began", async () => {
    const proxy = await http();
    const { known, metrics } = await follow(proxy.url, 1_000);
    await churn(3);
    await converges(known);
    const watches = () =>
      proxy.seen
        .filter(({ path }) => path.includes("watch=true"))
        .map(({ path }) => new URL(path, proxy.url).searchParams.get("resourceVersion"));
    const [silences, began] = [await ends(metrics, "inactive"), watches().length];
    await until("silence", async () => (await ends(metrics, "inactive")) > silences);
    await until("another watch", () => watches().length > began);
    expect(Number(watches().at(-1))).toBeGreaterThan(Number(watches()[0]));
  });

  test("watches that end as soon as they have begun are not begun again all the time", async () => {
    const proxy = await http();
    proxy.decide((_method, path) => (path.includes("watch=true") ? { status: 200 } : undefined));
    const { known } = await follow(proxy.url);
    const watches = () => proxy.seen.filter(({ path }) => path.includes("watch=true"));
    await until("five watches", () => watches().length >= 5);
    const [first, , , , fifth] = watches().map(({ at }) => at);
    // The pauses are 100, 200, 400 and 800 ms, of each of which half is random.
    expect((fifth ?? 0) - (first ?? 0)).toBeGreaterThan(700);
    proxy.decide(undefined);
    await churn(3);
    await converges(known);
  });

  test("a position that etcd has not come to, as after a restore, is not waited for: a list", async () => {
    const client = connect(controlPlane.kubeconfig);
    closing.push(() => client.close());
    const jobs = jobStore(client, accountNamespaces);
    const events = jobs.watch("4000000000", new AbortController().signal);
    await expect(events[Symbol.asyncIterator]().next()).rejects.toThrow(PositionExpired);
  });

  test("etcd is restored within seconds: what it has is listed before it comes to the number again", async () => {
    const { known, counts } = await follow(controlPlane.server);
    await churn(6);
    await controlPlane.backup();
    // More writes than an API server makes by itself at its start.
    await Promise.all(Array.from({ length: 15 }, () => churn(10)));
    await converges(known);
    await controlPlane.restore();
    await converges(known);
    expect(counts.lists).toBeGreaterThan(1);
  });

  test("a slow wire delays, and loses nothing", async () => {
    const proxy = await tcp();
    const { known, counts } = await follow(proxy.url);
    proxy.slow({ bytes: 700, everyMs: 5 });
    await churn(20);
    await converges(known, 30_000);
    expect(counts.lists).toBe(1);
  });

  test("the position is compacted away while nobody watches: listed again", async () => {
    const proxy = await tcp();
    const { known, counts, metrics } = await follow(proxy.url);
    await churn(6);
    await converges(known);
    proxy.hang();
    await churn(6);
    await controlPlane.compact();
    await controlPlane.restart();
    proxy.heal();
    await converges(known, 30_000);
    expect(counts.lists).toBeGreaterThan(1);
    expect(await ends(metrics, "expired")).toBeGreaterThan(0);
  });

  const BURSTS: { title: string; status: number; headers: Record<string, string> }[] = [
    { title: "429 with Retry-After", status: 429, headers: { "retry-after": "1" } },
    { title: "500", status: 500, headers: {} },
    { title: "503 without a Status", status: 503, headers: { "content-type": "text/html" } },
  ];
  test.each(BURSTS)("a burst of $title: backs off and goes on", async ({ status, headers }) => {
    const proxy = await http();
    const { known, counts } = await follow(proxy.url, 1_000);
    await churn(3);
    const refused: number[] = [];
    proxy.decide((_method, path) => {
      if (!path.includes("scheduledjobs") || refused.length >= 4) return undefined;
      refused.push(performance.now());
      return { status, headers, body: "busy" };
    });
    await churn(6);
    await until("four refusals", () => refused.length >= 4, 30_000);
    await converges(known, 30_000);
    // Both the reflector and the client's own retries wait as long as the server asks for.
    const asked = Number(headers["retry-after"] ?? 0) * 1_000;
    for (const [index, at] of refused.slice(1).entries())
      expect(at - (refused[index] ?? 0)).toBeGreaterThanOrEqual(asked);
    expect(counts.lists).toBeLessThanOrEqual(2);
  });

  test("a watch that is refused waits for as long as the server asks for", async () => {
    const proxy = await http();
    const refused: number[] = [];
    proxy.decide((_method, path) => {
      if (!path.includes("watch=true") || refused.length >= 3) return undefined;
      refused.push(performance.now());
      return { status: 429, headers: { "retry-after": "1" }, body: "busy" };
    });
    const { known } = await follow(proxy.url);
    await churn(3);
    await converges(known);
    const waits = refused.map((at, index) => at - (refused[index - 1] ?? -Infinity));
    expect(waits).toHaveLength(3);
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(1_000);
  });

  test("garbage in the stream: listed again", async () => {
    const proxy = await http();
    const { known, counts, metrics } = await follow(proxy.url);
    proxy.injectIntoWatch("<html>not an event</html>\n");
    await churn(6);
    await until("a second list", () => counts.lists > 1);
    await converges(known);
    expect(await ends(metrics, "malformed")).toBe(1);
  });

  test("the API server restarts: taken up, or listed again, and nothing lost", async () => {
    const { known, counts } = await follow(controlPlane.server);
    await churn(6);
    await controlPlane.restart();
    await churn(6);
    await converges(known, 30_000);
    expect(counts.lists).toBeLessThanOrEqual(2);
  });
});

/** How many watches have ended for this reason. */
async function ends(
  metrics: { render(): Promise<{ text: string }> },
  reason: string,
): Promise<number> {
  const { text } = await metrics.render();
  const line = text
    .split("\n")
    .find((each) => each.startsWith(`carillon_kubernetes_watch_ends_total{reason="${reason}"}`));
  return Number(line?.split(" ").at(-1) ?? 0);
}
