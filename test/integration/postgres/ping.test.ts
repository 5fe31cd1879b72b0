import { afterEach, expect, test } from "vitest";
import { createFoundation } from "../../../cmd/foundation.ts";
import { readConfiguration } from "../../../src/configuration/configuration.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { parseKeyRing } from "../../../src/postgres/key-ring.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { addressOf, startTcpProxy } from "../../network/tcp-proxy.ts";
import { admin } from "../../postgres/admin.ts";
import { createTestDatabase } from "../../postgres/database.ts";
import { createLimitedRole } from "../../postgres/limited-role.ts";

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/** The foundation of a process whose role has so many connections. */
async function foundationOf(connections: number) {
  const database = await createTestDatabase();
  ends.push(() => database.drop());
  const role = await createLimitedRole(database.url, connections);
  ends.push(() => role.drop());
  const proxy = await startTcpProxy({ target: () => addressOf(role.url) });
  ends.push(() => proxy.close());
  const url = new URL(role.url);
  url.port = String(proxy.port);
  const foundation = createFoundation({
    program: "standalone",
    configuration: readConfiguration("standalone", {}),
    databaseUrl: url.href,
    keyRing: parseKeyRing(`k1:${Buffer.alloc(32, 1).toString("base64")}`),
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    log: createLogger({ level: "silent" }),
  });
  ends.push(() => foundation.close());
  /** Changes the role, also for its open connections. */
  const alter = async (to: string) => {
    const { username } = new URL(role.url);
    await admin(database.url, `alter role ${username} ${to}`);
    const theirs = `from pg_stat_activity where usename = '${username}'`;
    await admin(database.url, `select pg_terminate_backend(pid, 5000) ${theirs}`);
  };
  const isConnected = async () => {
    const sessions = `select from pg_stat_activity where usename = '${new URL(role.url).username}'`;
    return (await admin(database.url, sessions)).length > 0;
  };
  return { ...foundation, alter, proxy, isConnected };
}

test("PostgreSQL is up where there is a connection for requests and one for runs", async () => {
  const enough = await foundationOf(2);
  await enough.pingDatabase();
  const few = await foundationOf(1);
  await expect(few.pingDatabase()).rejects.toThrow(DependencyUnavailable);
});

test("each scrape says whether PostgreSQL is up at that time", async () => {
  const { metrics, alter } = await foundationOf(2);
  expect((await metrics.render()).text).toMatch(/^carillon_database_up 1$/m);
  await alter("nologin");
  expect((await metrics.render()).text).toMatch(/^carillon_database_up 0$/m);
});

test("a scrape says that PostgreSQL is down where it hangs for longer than the scrape waits", async () => {
  const { metrics, proxy, isConnected } = await foundationOf(2);
  expect((await metrics.render()).text).toMatch(/^carillon_database_up 1$/m);
  proxy.hang();
  expect((await metrics.render()).text).toMatch(/^carillon_database_up 0$/m);
  proxy.heal();
  // PostgreSQL takes a moment to notice that the connections are gone, and the role may have no more than these.
  await expect.poll(isConnected).toBe(false);
  expect((await metrics.render()).text).toMatch(/^carillon_database_up 1$/m);
});

test("a ping that ends after a newer one does not count any more", async () => {
  const { metrics, proxy } = await foundationOf(4);
  const up = async () => (await metrics.databaseUp.get()).values[0]?.value;
  await metrics.render();
  proxy.forsake();
  await metrics.render();
  expect(await up()).toBe(0);
  await metrics.render();
  expect(await up()).toBe(1);
  proxy.cut();
  const failed = async () => (await metrics.databaseFailures.get()).values[0]?.value ?? 0;
  await expect.poll(failed).toBeGreaterThan(0);
  expect(await up()).toBe(1);
});

test("one that answers and takes no writes is not up, and what fails for it is counted", async () => {
  const { metrics, pool, pingDatabase, alter } = await foundationOf(2);
  expect((await metrics.render()).text).toMatch(/^carillon_database_failures_total 0$/m);
  await alter("set default_transaction_read_only = on");
  await expect(pingDatabase()).rejects.toThrow(DependencyUnavailable);
  const write = pool.query("delete from accounts");
  await expect(write).rejects.toThrow(DependencyUnavailable);
  const { text } = await metrics.render();
  expect(text).toMatch(/^carillon_database_up 0$/m);
  expect(text).toMatch(/^carillon_database_failures_total [1-9]/m);
});
