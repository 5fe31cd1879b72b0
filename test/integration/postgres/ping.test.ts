import { randomBytes } from "node:crypto";
import { afterEach, expect, test } from "vitest";
import { createFoundation } from "../../../cmd/foundation.ts";
import { readConfiguration } from "../../../src/configuration/configuration.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-down.ts";
import { parseKeyRing } from "../../../src/postgres/key-ring.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { admin } from "../../postgres/admin.ts";
import { createTestDatabase } from "../../postgres/database.ts";

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/** What a process stands on whose role has so many connections. */
async function foundationOf(connections: number) {
  const database = await createTestDatabase();
  ends.push(() => database.drop());
  const role = `few_${randomBytes(4).toString("hex")}`;
  await admin(
    database.url,
    `create role ${role} login password 'few' connection limit ${connections}`,
  );
  ends.push(() => admin(database.url, `drop role ${role}`));
  const url = new URL(database.url);
  url.username = role;
  url.password = "few";
  const foundation = createFoundation({
    program: "standalone",
    configuration: readConfiguration("standalone", {}),
    databaseUrl: url.href,
    keyRing: parseKeyRing(`k1:${Buffer.alloc(32, 1).toString("base64")}`),
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    log: createLogger({ level: "silent" }),
  });
  ends.push(() => foundation.close());
  return foundation;
}

test("PostgreSQL is up where there is a connection for requests and one for runs", async () => {
  const enough = await foundationOf(2);
  await enough.pingDatabase();
  const few = await foundationOf(1);
  await expect(few.pingDatabase()).rejects.toThrow(DependencyUnavailable);
});
