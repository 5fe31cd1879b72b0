import { afterEach, expect, test } from "vitest";
import { createFoundation } from "../../../cmd/foundation.ts";
import { readConfiguration } from "../../../src/configuration/configuration.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-down.ts";
import { parseKeyRing } from "../../../src/postgres/key-ring.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { admin } from "../../postgres/admin.ts";
import { createTestDatabase } from "../../postgres/database.ts";
import { createLimitedRole } from "../../postgres/limited-role.ts";

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/** What a process stands on whose role has so many connections. */
async function foundationOf(connections: number) {
  const database = await createTestDatabase();
  ends.push(() => database.drop());
  const role = await createLimitedRole(database.url, connections);
  ends.push(() => role.drop());
  const foundation = createFoundation({
    program: "standalone",
    configuration: readConfiguration("standalone", {}),
    databaseUrl: role.url,
    keyRing: parseKeyRing(`k1:${Buffer.alloc(32, 1).toString("base64")}`),
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    log: createLogger({ level: "silent" }),
  });
  ends.push(() => foundation.close());
  const lose = async () => {
    const { username } = new URL(role.url);
    await admin(database.url, `alter role ${username} nologin`);
    const theirs = `from pg_stat_activity where usename = '${username}'`;
    await admin(database.url, `select pg_terminate_backend(pid, 5000) ${theirs}`);
  };
  const readOnly = async () => {
    const { username } = new URL(role.url);
    await admin(database.url, `alter role ${username} set default_transaction_read_only = on`);
    const theirs = `from pg_stat_activity where usename = '${username}'`;
    await admin(database.url, `select pg_terminate_backend(pid, 5000) ${theirs}`);
  };
  return { ...foundation, lose, readOnly };
}

test("PostgreSQL is up where there is a connection for requests and one for runs", async () => {
  const enough = await foundationOf(2);
  await enough.pingDatabase();
  const few = await foundationOf(1);
  await expect(few.pingDatabase()).rejects.toThrow(DependencyUnavailable);
});

test("each scrape says whether PostgreSQL is up at that time", async () => {
  const { metrics, lose } = await foundationOf(2);
  expect((await metrics.render()).text).toMatch(/^carillon_database_up 1$/m);
  await lose();
  expect((await metrics.render()).text).toMatch(/^carillon_database_up 0$/m);
});

test("one that answers and takes no writes is not up, and what fails for it is counted", async () => {
  const { metrics, pool, pingDatabase, readOnly } = await foundationOf(2);
  expect((await metrics.render()).text).toMatch(/^carillon_database_failures_total 0$/m);
  await readOnly();
  await expect(pingDatabase()).rejects.toThrow(DependencyUnavailable);
  const write = pool.query("delete from accounts");
  await expect(write).rejects.toThrow(DependencyUnavailable);
  const { text } = await metrics.render();
  expect(text).toMatch(/^carillon_database_up 0$/m);
  expect(text).toMatch(/^carillon_database_failures_total [1-9]/m);
});
