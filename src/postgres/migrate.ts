import { fileURLToPath } from "node:url";
import { readdir } from "node:fs/promises";
import type { Client } from "pg";
import { inBatches, type Batches } from "./batches.ts";
import {
  BRIEF_LOCK_TIMEOUT,
  createClient,
  liftTimeLimits,
  type Pool,
  type Queryable,
} from "./pool.ts";
import { isBrokenConnection, withTranslatedErrors } from "./connection-errors.ts";
import { DEADLOCK, LOCK_NOT_AVAILABLE, sqlState } from "./sql-state.ts";

const DIRECTORY = fileURLToPath(new URL("migrations/", import.meta.url));
const TABLE = "carillon_migrations";

/** The database was migrated by a newer release that this one cannot work with. */
export class DatabaseTooNew extends Error {
  override name = "DatabaseTooNew";
}

/** The database lacks migrations of this release: `npm run migrate` brings them. */
export class DatabaseTooOld extends Error {
  override name = "DatabaseTooOld";
}

/** The PostgreSQL server itself is older than what the migrations are written for. */
export class ServerTooOld extends Error {
  override name = "ServerTooOld";
}

/** The database has an encoding that cannot hold every text. */
export class DatabaseNotUtf8 extends Error {
  override name = "DatabaseNotUtf8";
}

/** DATABASE_URL's role could not make monthly partitions, for instance after a restore by another role. */
export class RoleTooWeak extends Error {
  override name = "RoleTooWeak";
}

/** A migration could not be applied, though PostgreSQL is there. Those before it were. */
export class MigrationFailed extends Error {
  override name = "MigrationFailed";
  constructor(cause: unknown) {
    // node-pg-migrate puts a stack into some of its messages.
    const [reason = ""] = (cause instanceof Error ? cause.message : String(cause)).split("\n");
    super(`the migration failed: ${reason}${remedyFor(reason)}`, { cause });
  }
}

/** Told by the message: node-pg-migrate wraps some errors without their SQLSTATE. */
function remedyFor(reason: string): string {
  if (/permission denied/.test(reason))
    return ": the role of DATABASE_URL must be allowed to create tables, as the database's owner is";
  if (/^relation .* already exists/.test(reason))
    return ": it is somebody else's, or of a dump that was restored without its data. Take an empty database, or restore the whole dump into one";
  return "";
}

/** The first with uuidv7(). */
const LEAST_SERVER = 18;

export interface MigrateOptions {
  url: string;
  /** The version of this program, `major.minor.patch`. */
  appVersion: string;
  onProgress?: Progress;
  /** Ends the migration, whatever it waits for: PostgreSQL rolls back the one under way. */
  signal?: AbortSignal;
}

/**
 * Brings the schema up to this release: plain SQL files in order, each once and in a transaction of its own, under an
 * advisory lock (several processes at once are safe: the others wait, then find nothing to do). Programs may run
 * meanwhile: waiting for locks holds them up for a moment at a time, and otherwise only the migration's own work does.
 * Forward only; an older release keeps working on a migrated database unless `min_app_version` in carillon_meta says
 * otherwise.
 *
 * Changes nothing and throws DatabaseTooNew when `min_app_version` is above this release, ServerTooOld on an older
 * PostgreSQL, DatabaseNotUtf8 in another encoding, and RoleTooWeak when the role could not make monthly partitions.
 */
export async function migrate(options: MigrateOptions): Promise<{ applied: string[] }> {
  const client = createClient({
    url: options.url,
    applicationName: "carillon migrate",
    statementTimeoutMs: 0,
    connectTimeoutMs: 10_000,
  });
  const leave = (): void => {
    void client.end();
  };
  return withTranslatedErrors(async () => {
    options.signal?.throwIfAborted();
    // The signal cannot end this: pg would wait for ever for a client that ends while it connects.
    await client.connect();
    options.signal?.addEventListener("abort", leave);
    try {
      options.signal?.throwIfAborted();
      await refuseOldServer(client);
      // A large table takes its time.
      await liftTimeLimits(client);
      await dieWithUs(client);
      // Set here, because start-up options may not get through PgBouncer.
      await client.query(`set lock_timeout = '${BRIEF_LOCK_TIMEOUT}'`);
      await refuseOtherEncoding(client);
      await refuseWeakRole(client);
      await refuseNewer(client, options.appVersion);
      const onProgress = onceEach(options.onProgress);
      const applied: string[] = [];
      await givingWay({ client, onProgress }, async () => {
        if ((await pending(client)).length > 0) await apply({ client, onProgress, applied });
      });
      // Somebody newer may have migrated while we waited for the lock.
      await refuseNewer(client, options.appVersion);
      await givingWay({ client, onProgress }, () => forgetOtherClusters(client));
      return { applied };
    } finally {
      options.signal?.removeEventListener("abort", leave);
      await client.end().catch(() => undefined);
    }
  });
}

/**
 * Without this the server would go on with a statement, and lock its tables until the end, long after this process has
 * ended. Not every system on which PostgreSQL runs can check a connection.
 */
async function dieWithUs(client: Client): Promise<void> {
  await client.query("set client_connection_check_interval = '1s'").catch((error: unknown) => {
    if (sqlState(error) !== INVALID_PARAMETER_VALUE) throw error;
  });
}

const INVALID_PARAMETER_VALUE = "22023";

type Progress = (line: string) => void;

/** Reports each line once: what is tried again is not reported again. */
function onceEach(onProgress: Progress | undefined): Progress {
  const told = new Set<string>();
  return (line) => {
    if (told.has(line)) return;
    told.add(line);
    onProgress?.(line);
  };
}

/**
 * Applies the pending migrations, adding the name of each to `applied`. Each has a transaction of its own: one that
 * has to give way does not undo those before it, and none keeps its tables locked while the next one waits for
 * others, whose holder may be waiting for the former.
 */
async function apply(request: {
  client: Client;
  onProgress: Progress;
  applied: string[];
}): Promise<void> {
  const { client, onProgress, applied } = request;
  const schema = await schemaOf(client, TABLE);
  // Loaded only when there is work: it brings a TypeScript loader along.
  const { PG_MIGRATE_LOCK_ID, runner } = await import("node-pg-migrate");
  const next = async (): Promise<string | undefined> => {
    const [migration] = await runner({
      dbClient: client,
      dir: DIRECTORY,
      migrationsTable: TABLE,
      migrationsSchema: schema,
      direction: "up",
      count: 1,
      singleTransaction: true,
      // The check compares the times at which migrations were applied: after a clock was set back it would fail for
      // ever.
      checkOrder: false,
      noLock: true,
      logger: {
        info: (line) => {
          const name = /^> - (.+)$/.exec(line)?.[1];
          if (name !== undefined) onProgress(`Migrating the database: ${name}`);
        },
        warn: () => undefined,
        // It logs the whole text of the migration, and then throws PostgreSQL's error anyway.
        error: () => undefined,
      },
    }).catch((cause: unknown) => {
      throw isBrokenConnection(cause) ? cause : new MigrationFailed(cause);
    });
    return migration?.name;
  };
  // The runner takes this lock for each migration. Here one process holds it for all of them.
  await client.query("select pg_advisory_lock($1)", [PG_MIGRATE_LOCK_ID]);
  try {
    await numberOnward(client);
    for (let name = await next(); name !== undefined; name = await next()) applied.push(name);
  } finally {
    // If this fails, the session has ended, and the lock with it.
    await client
      .query("select pg_advisory_unlock($1)", [PG_MIGRATE_LOCK_ID])
      .catch(() => undefined);
  }
}

/**
 * Logical replication brings the table's rows, but not how far its sequence has come: it would give out the numbers of
 * migrations that are there.
 */
async function numberOnward(client: Queryable): Promise<void> {
  if (await tableExists(client, TABLE))
    await client.query(
      `select setval(pg_get_serial_sequence('${TABLE}', 'id'), max(id)) from ${TABLE}`,
    );
}

/**
 * ALTER TABLE waits for every transaction that has read the table (a backup: for its whole length), and all later
 * ones wait behind it, even to read. So each try waits only for the session's lock_timeout, lets the others
 * through, and begins again, as often as it takes; after a deadlock, too.
 */
async function givingWay(
  request: { client: Queryable; onProgress: Progress },
  work: () => Promise<void>,
): Promise<void> {
  const { client, onProgress } = request;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!IN_THE_WAY.has(sqlState(error))) throw error;
      onProgress(
        "Waiting for another migration, or for a transaction that holds a table, as a backup does",
      );
      await client.query("select pg_sleep(4)");
    }
  }
}

const IN_THE_WAY = new Set<string | undefined>([LOCK_NOT_AVAILABLE, DEADLOCK]);

/**
 * For processes that do not migrate: throws DatabaseTooNew or DatabaseTooOld when this release cannot
 * run on the schema as it is, and DatabaseNotUtf8 and RoleTooWeak as `migrate` does: a dump may have been restored since.
 */
export async function checkSchema(request: { pool: Pool; appVersion: string }): Promise<void> {
  await refuseOtherEncoding(request.pool);
  await refuseWeakRole(request.pool);
  await refuseNewer(request.pool, request.appVersion);
  const missing = await pending(request.pool);
  if (missing.length > 0)
    throw new DatabaseTooOld(
      `the database lacks ${missing.length} migration(s) of this release (${missing.join(", ")}): run npm run migrate first (in the image: cmd/migrate.ts)`,
    );
}

async function pending(database: Queryable): Promise<string[]> {
  const names = (await readdir(DIRECTORY))
    .filter((file) => file.endsWith(".sql"))
    .map((file) => file.slice(0, -".sql".length))
    .sort();
  if (!(await tableExists(database, TABLE))) return names;
  const { rows } = await database.query<{ name: string }>(`select name from ${TABLE}`);
  const done = new Set(rows.map((row) => row.name));
  return names.filter((name) => !done.has(name));
}

async function refuseOldServer(database: Queryable): Promise<void> {
  const { rows } = await database.query<{ version: string }>(
    "select current_setting('server_version') as version",
  );
  const version = rows[0]?.version ?? "";
  if (Number.parseInt(version) < LEAST_SERVER)
    throw new ServerTooOld(
      `the server of DATABASE_URL is PostgreSQL ${version}: Carillon needs ${LEAST_SERVER} or newer`,
    );
}

/** Otherwise single texts would fail later, for instance when the log of a mail that has been sent is written. */
async function refuseOtherEncoding(database: Queryable): Promise<void> {
  const { rows } = await database.query<{ name: string; encoding: string }>(
    "select current_database() as name, current_setting('server_encoding') as encoding",
  );
  for (const { name, encoding } of rows)
    if (encoding !== "UTF8")
      throw new DatabaseNotUtf8(
        `the database ${name} of DATABASE_URL has the encoding ${encoding}: Carillon needs UTF8 (CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0)`,
      );
}

/**
 * Monthly partitions can be made only by a role that owns the table and may create tables in its schema. With rights to
 * read and write alone, everything would work until the months that the owner has made are over.
 */
async function refuseWeakRole(database: Queryable): Promise<void> {
  const { rows } = await database.query<
    Record<"role" | "owner" | "schema", string> & { owns: boolean; makes: boolean }
  >(
    `select current_user as role, pg_get_userbyid(relowner) as owner, current_schema() as schema,
            pg_has_role(relowner, 'usage') as owns,
            has_schema_privilege(current_schema(), 'create') as makes
       from pg_class where oid = to_regclass('executions')`,
  );
  for (const { role, owner, schema, owns, makes } of rows) {
    if (!owns)
      throw new RoleTooWeak(
        `the tables belong to the role ${owner}, and ${role} of DATABASE_URL has to own them: ALTER TABLE ... OWNER TO, for each, or restore the dump with pg_restore --no-owner --role=${role}`,
      );
    if (!makes)
      throw new RoleTooWeak(
        `the role ${role} of DATABASE_URL has to make a table for each month, and may make none: GRANT CREATE ON SCHEMA ${schema} TO ${role}`,
      );
  }
}

async function refuseNewer(database: Queryable, appVersion: string): Promise<void> {
  if (!(await tableExists(database, "carillon_meta"))) return;
  const { rows } = await database.query<{ value: string }>(
    "select value from carillon_meta where key = 'min_app_version'",
  );
  const least = rows[0]?.value;
  if (least !== undefined && compareVersions(appVersion, least) < 0)
    throw new DatabaseTooNew(
      `this is Carillon ${appVersion}, but the database needs ${least} or newer: upgrade this program`,
    );
}

/**
 * Replaces transaction ids that pg_dump brought from another server, and that this one has not reached yet.
 * Otherwise those who watch jobs would think for each position that deletions since then have been purged, and list
 * all jobs again and again.
 */
export async function forgetOtherClusters(
  database: Queryable,
  batches: Batches = {},
): Promise<void> {
  const unknown = ">= pg_snapshot_xmax(pg_current_snapshot())";
  const { rows } = await database.query<{ restored: boolean }>(
    `select exists (select from jobs where changed_xid ${unknown})
            or (select value::xid8 ${unknown} from carillon_meta where key = 'jobs_purged_xid')
            as restored`,
  );
  if (rows[0]?.restored !== true) return;
  await inBatches(batches, async (limit) => {
    const { rowCount } = await database.query(
      `update jobs set changed_xid = pg_current_xact_id()
        where uid = any(array(select uid from jobs where changed_xid ${unknown} limit $1))`,
      [limit],
    );
    return rowCount ?? 0;
  });
  await database.query(
    `update carillon_meta set value = '0' where key = 'jobs_purged_xid' and value::xid8 ${unknown}`,
  );
}

/** The table's schema; if there is no such table, the first schema of the search path, where all tables are made. */
async function schemaOf(database: Queryable, table: string): Promise<string> {
  const { rows } = await database.query<{ schema: string | null }>(
    `select coalesce(
       (select nspname from pg_class join pg_namespace n on n.oid = relnamespace
         where pg_class.oid = to_regclass($1)),
       current_schema()) as schema`,
    [table],
  );
  const schema = rows[0]?.schema;
  if (!schema)
    throw new MigrationFailed(
      "no schema of the search_path (SHOW search_path, as the role of DATABASE_URL) is there, or may be used by this role: CREATE SCHEMA, GRANT USAGE, or another search_path",
    );
  return schema;
}

async function tableExists(database: Queryable, name: string): Promise<boolean> {
  const { rows } = await database.query<{ found: boolean }>(
    "select to_regclass($1) is not null as found",
    [name],
  );
  return rows[0]?.found === true;
}

/** Compares by numbers; a pre-release counts as its release, so that release candidates can be tried. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [numbersOf(a), numbersOf(b)];
  for (let i = 0; i < 3; i += 1) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function numbersOf(version: string): number[] {
  return version
    .replace(/[-+].*$/, "")
    .split(".")
    .map(Number);
}
