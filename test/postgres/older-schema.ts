import { readdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { runner } from "node-pg-migrate";

const DIRECTORY = fileURLToPath(new URL("../../src/postgres/migrations/", import.meta.url));

/** Migrates an empty database up to the migration `last`, as an older program did. Returns the later migrations. */
export async function migrateUpTo(url: string, last: string): Promise<string[]> {
  const names = (await readdir(DIRECTORY)).map((file) => file.replace(/\.sql$/, "")).sort();
  const count = names.indexOf(last) + 1;
  if (count === 0) throw new Error(`there is no migration ${last}`);
  await runner({
    databaseUrl: url,
    dir: DIRECTORY,
    migrationsTable: "carillon_migrations",
    direction: "up",
    count,
    log: () => undefined,
  });
  return names.slice(count);
}
