import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import { createPool, type Pool, type PoolOptions } from "../../src/postgres/pool.ts";
import { admin } from "./admin.ts";

export interface TestDatabase {
  url: string;
  /** Opens a pool, which ends with the database. */
  pool(options?: Partial<PoolOptions>): Pool;
  drop(): Promise<void>;
}

/** The database's URL for another role. */
export function urlAs(databaseUrl: string, role: string, password: string): string {
  const url = new URL(databaseUrl);
  url.username = role;
  url.password = password;
  return url.href;
}

/**
 * A new, migrated database for one test file. To be dropped at its end, which also ends connections that are still open.
 */
export async function createTestDatabase(): Promise<TestDatabase> {
  return createDatabase("test", `template ${inject("postgresTemplate")}`);
}

/** An empty database, for tests of migrations. `options` are those of CREATE DATABASE. */
export async function createEmptyDatabase(options = ""): Promise<TestDatabase> {
  return createDatabase("empty", options);
}

async function createDatabase(kind: string, options: string): Promise<TestDatabase> {
  const adminUrl = inject("postgresAdminUrl");
  const name = `carillon_${kind}_${randomBytes(6).toString("hex")}`;
  await admin(adminUrl, `create database ${name} ${options}`);
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  const pools: Pool[] = [];
  return {
    url: url.href,
    pool: (options) => {
      const pool = createPool({ url: url.href, applicationName: "test", ...options });
      pools.push(pool);
      return pool;
    },
    drop: async () => {
      await Promise.all(pools.map((pool) => pool.end()));
      await admin(adminUrl, `drop database if exists ${name} with (force)`);
    },
  };
}
