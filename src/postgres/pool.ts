import {
  Pool as PgPool,
  TypeOverrides,
  types as builtIn,
  type Client,
  type ClientBase,
  type ClientConfig,
} from "pg";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import { isConnectionRefused, isBrokenConnection, translateError } from "./connection-errors.ts";
import { tolerateConnectionLimit } from "./connection-limit.ts";
import { DEADLOCK, READ_ONLY, sqlState } from "./sql-state.ts";
import { FailOnConnectClient } from "./fail-on-connect-client.ts";

/** A pool of pg whose `query` throws DependencyUnavailable for connection-class errors. */
export type Pool = PgPool;

/** A pool, or a client inside a transaction. */
export type Queryable = Pick<ClientBase, "query">;

export interface PoolOptions {
  url: string;
  /** Shown in pg_stat_activity. */
  applicationName: string;
  /** Most connections of this process; default 10. */
  max?: number;
  /** Errors of idle connections: the pool replaces them by itself. */
  onError?: (error: Error) => void;
  /** Called for each statement that fails with DependencyUnavailable. */
  onUnavailable?: () => void;
  /** Default 10 s. The client gives up 2 s later, so that a half-open server is noticed as well. */
  statementTimeoutMs?: number;
  /** Default 5 s, to wait for a lock. */
  lockTimeoutMs?: number;
  /** Default 5 s, to get a connection: from the pool or from the server. */
  connectTimeoutMs?: number;
  /**
   * `fixed`: statements use indexes, and named ones are planned once. For tables that are empty one second and hold
   * 100,000 rows the next: their statistics are always outdated, and a plan made for an empty queue reads and sorts
   * the whole of a full one for each claim.
   */
  plans?: "fixed";
  /**
   * A pool with the same plans, whose connections are used while the server does not give this one a single
   * connection.
   */
  lender?: Pool;
}

/**
 * How long to wait for a strong lock, behind which all others queue meanwhile. Long enough for an autovacuum to
 * give way: PostgreSQL ends it after deadlock_timeout, a second by default.
 */
export const BRIEF_LOCK_TIMEOUT = "1500ms";

const FIXED_PLANS = ["bitmapscan", "hashjoin", "mergejoin", "seqscan"]
  .map((method) => `enable_${method} = off`)
  // `byKey` looks like ranges that find a part of the table. Plans that look so expensive would be compiled each time.
  .concat("jit = off", "plan_cache_mode = force_generic_plan");

/** `PoolOptions.plans: "fixed"` for the rest of a transaction, whatever its pool does. */
export async function fixPlans(client: Queryable): Promise<void> {
  await client.query(FIXED_PLANS.map((setting) => `set local ${setting}`).join("; "));
}

/**
 * For long work on a session of its own. A limit of 0 in the client's configuration would not do: pg does not send
 * it, so that a limit of the role would stay. A server before 17 refuses this.
 */
export async function liftTimeLimits(client: Queryable): Promise<void> {
  await client.query(
    "set statement_timeout = 0; set lock_timeout = 0; set transaction_timeout = 0",
  );
}

/** `2026-11-21 12:00:00.123456+00` (sessions run in UTC) to epoch milliseconds, rounded down. */
function instantOf(text: string): number {
  if (text === last.text) return last.instant;
  if (text === before.text) return before.instant;
  const utc = text.endsWith("+00") ? `${text.slice(0, -3).replace(" ", "T")}Z` : text;
  const instant = Date.parse(utc);
  if (Number.isNaN(instant)) throw new RangeError(`not a finite UTC timestamp: ${text}`);
  before = last;
  last = { text, instant };
  return instant;
}

/**
 * Runs that fire together mostly have the same two moments, when they are due and when they were created: each is
 * parsed once.
 */
let last = { text: "", instant: Number.NaN };
let before = last;

function integerOf(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`int8 beyond 2^53: ${text}`);
  return value;
}

/**
 * How values come back: int8 as number (throws beyond 2^53), timestamptz as epoch milliseconds (an
 * Instant). Instants go in as `new Date(instant)`, or as ISO strings inside JSON.
 */
const types = new TypeOverrides();
types.setTypeParser(builtIn.builtins.INT8, integerOf);
types.setTypeParser(builtIn.builtins.TIMESTAMPTZ, instantOf);

/**
 * Settings of every session, whatever the defaults of server, database and role. Time zone and date style: see
 * `instantOf`. Isolation: statements rely on seeing what was committed while they waited for a row; other levels
 * fail then. Idle timeout: a session that listens is idle for long, and must not be closed for it. Float digits:
 * the clock comes as a float. Array nulls: columns with gaps are passed as arrays. Our time limits are in
 * `clientConfig`. A role's transaction_timeout is not lifted, and counts as an outage: a server older than 17 would
 * refuse the setting, so that we could not say that it is too old.
 */
const SESSION = [
  "timezone=UTC",
  "datestyle=ISO",
  "default_transaction_isolation=read\\ committed",
  "idle_session_timeout=0",
  "extra_float_digits=1",
  "array_nulls=on",
]
  .map((setting) => `-c ${setting}`)
  .join(" ");

/**
 * pg prefers the URL to our settings, so that the URL's `options` would replace ours: here they are joined. And pg
 * 8 checks the certificate in each of these modes, but warns that its next major version will not: `verify-full` is
 * what they mean now, and goes on meaning it.
 */
function connectionString(url: string): string {
  const at = url.indexOf("?");
  if (at === -1) return url;
  const query = new URLSearchParams(url.slice(at + 1));
  const own = query.get("options");
  if (own !== null) query.set("options", `${own} ${SESSION}`);
  const checked = ["prefer", "require", "verify-ca"].includes(query.get("sslmode") ?? "");
  if (checked && query.get("uselibpqcompat") !== "true") query.set("sslmode", "verify-full");
  return `${url.slice(0, at)}?${query.toString()}`;
}

/**
 * How often a password may be hashed (the server's scram_iterations when it was set). 600,000 times are recommended,
 * which take 0.3 s; pg takes up to 100,000.
 */
const SCRAM_ITERATIONS = 2_000_000;

export function clientConfig(
  options: PoolOptions,
): ClientConfig & { /** Not in the types of pg yet. */ scramMaxIterations: number } {
  const statementTimeout = options.statementTimeoutMs ?? 10_000;
  return {
    connectionString: connectionString(options.url),
    application_name: options.applicationName,
    types,
    options: SESSION,
    statement_timeout: statementTimeout,
    // A server behind a cut network never answers: unacknowledged data is not covered by keep-alive.
    query_timeout: statementTimeout === 0 ? 0 : statementTimeout + 2_000,
    lock_timeout: options.lockTimeoutMs ?? 5_000,
    // A client that stands still in a transaction holds locks that keep leases from being renewed: far less than a
    // lease.
    idle_in_transaction_session_timeout: 10_000,
    connectionTimeoutMillis: options.connectTimeoutMs ?? 5_000,
    scramMaxIterations: SCRAM_ITERATIONS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
}

export function createPool(options: PoolOptions): Pool {
  const pool = new PgPool({
    ...clientConfig(options),
    Client: FailOnConnectClient,
    max: options.max ?? 10,
    idleTimeoutMillis: 30_000,
    allowExitOnIdle: false,
    ...preparing(options.plans === "fixed" ? FIXED_PLANS : []),
  });
  // Without a listener an idle connection that dies would end the process.
  pool.on("error", (error) => options.onError?.(error));
  pool.on("connect", (client) => {
    connectedBefore.add(pool.options.connectionString);
    // A checked-out connection can die between two statements; the next statement reports it.
    client.on("error", () => undefined);
  });
  tolerateConnectionLimit(pool, options.lender);
  const query = pool.query.bind(pool) as (...args: unknown[]) => Promise<unknown>;
  pool.query = (async (...args: unknown[]) => {
    try {
      return await query(...args);
    } catch (error) {
      throw failureOf(pool, error);
    }
  }) as typeof pool.query;
  if (options.onUnavailable) unavailable.set(pool, options.onUnavailable);
  return pool;
}

/**
 * Databases to which this process has had a connection, in any of its pools: some pools have their first one hours
 * later.
 */
const connectedBefore = new Set<string | undefined>();

/**
 * A refusal of the first connection means a wrong password or the like, and is reported as it is. A process that
 * was let in before waits for an operator, as in any other outage: passwords are changed, and databases are
 * restored.
 */
function failureOf(pool: Pool, error: unknown): unknown {
  const failure =
    connectedBefore.has(pool.options.connectionString) && isConnectionRefused(error)
      ? new DependencyUnavailable("postgres", { cause: error })
      : translateError(error);
  if (failure instanceof DependencyUnavailable) unavailable.get(pool)?.();
  return failure;
}

/** `PoolOptions.onUnavailable`. */
const unavailable = new WeakMap<Pool, () => void>();

/**
 * What is done with a connection before it is used. Settings are not start-up options, which PgBouncer would refuse. A
 * standby is refused: who only reads would stay with one to which the name led for a moment, as while a failover moves
 * it, to see what it has of the past and never hear that it takes no writes.
 */
function preparing(settings: readonly string[]) {
  return {
    onConnect: async (client: ClientBase): Promise<void> => {
      const { rows } = await client.query<{ standby: boolean }>(
        "select pg_is_in_recovery() as standby",
      );
      if (rows[0]?.standby === true)
        throw Object.assign(new Error("the server is a standby"), { code: READ_ONLY });
      if (settings.length > 0)
        await client.query(settings.map((setting) => `set ${setting}`).join("; "));
    },
  };
}

/** One client, outside any pool: for LISTEN and for locks that live as long as their session. */
export function createClient(options: PoolOptions): Client {
  const client = new FailOnConnectClient(clientConfig(options));
  client.on("error", (error) => options.onError?.(error));
  return client;
}

const ATTEMPTS = 4;

/**
 * Runs `work` in one READ COMMITTED transaction: commits when it resolves, rolls back when it throws.
 * Connection-class errors come out as DependencyUnavailable. Keep it short and off the network; it runs
 * again when PostgreSQL chose it as the victim of a deadlock.
 */
export async function transaction<T>(
  pool: Pool,
  work: (client: Queryable) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await transactOnce(pool, work);
    } catch (error) {
      if (sqlState(error) !== DEADLOCK || attempt === ATTEMPTS) throw failureOf(pool, error);
    }
  }
}

async function transactOnce<T>(pool: Pool, work: (client: Queryable) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query("begin");
    const result = await work(client);
    await client.query("commit");
    return result;
  } catch (error) {
    // The connection is closed, which ends the transaction: a rollback would only wait for as long once more.
    if (isBrokenConnection(error)) broken = error as Error;
    else
      await client.query("rollback").catch((rollback: unknown) => {
        broken = rollback instanceof Error ? rollback : new Error("rollback failed");
      });
    throw error;
  } finally {
    client.release(broken);
  }
}
