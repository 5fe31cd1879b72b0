import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { createPool } from "../../../src/postgres/pool.ts";
import { startEmbeddedPostgres } from "../../../src/standalone/embedded-postgres.ts";
import { admin } from "../../postgres/admin.ts";

/** A hot standby, which follows nobody. */
async function startStandby() {
  const dataDir = await mkdtemp(join(tmpdir(), "carillon-test-standby-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const start = () => startEmbeddedPostgres({ dataDir, settings: { fsync: "off" } });
  await (await start()).stop();
  // PostgreSQL may run as another user, and opens it to write.
  await writeFile(join(dataDir, "data/standby.signal"), "", { mode: 0o666 });
  const server = await start();
  onTestFinished(() => server.stop());
  return server;
}

test.each([{ plans: undefined }, { plans: "fixed" as const }])(
  "a pool keeps no connection to a standby, not even to read (plans: $plans)",
  async ({ plans }) => {
    const { url } = await startStandby();
    const options = { url, applicationName: "test", max: 1 };
    const pool = createPool(plans ? { ...options, plans } : options);
    onTestFinished(() => pool.end());
    await expect(pool.query("select 1")).rejects.toThrow(DependencyUnavailable);
    expect(pool.totalCount).toBe(0);
    await admin(url, "select pg_promote()");
    await expect(pool.query("select 1")).resolves.toMatchObject({ rowCount: 1 });
  },
);
