import { setTimeout as delay } from "node:timers/promises";
import { createClient, createPool, type Pool } from "../../src/postgres/pool.ts";
import { migrate } from "../../src/postgres/migrate.ts";
import {
  startEmbeddedPostgres,
  type EmbeddedPostgres,
} from "../../src/standalone/embedded-postgres.ts";
import { stopPostmaster } from "../../src/standalone/postmaster.ts";
import { addressOf } from "../network/tcp-proxy.ts";

const ADMIN_WITHIN_MS = 60_000;

const servers = new Set<number>();
process.once("exit", () => {
  // An interrupted run must not leave a server behind. It has a process group of its own, so it gets no signal.
  for (const pid of servers) {
    try {
      process.kill(pid, "SIGQUIT");
    } catch {
      // It has ended already.
    }
  }
});

/** The suite's own PostgreSQL: nobody else uses it, so it can be damaged. */
export interface FaultyDatabase {
  /** Where it listens now: after each restart on another port. */
  address(): { host: string; port: number };
  /** The database's URL by way of another port, that of a wire. */
  urlVia(port: number): string;
  /** `crash` ends every backend at once; the next start recovers from the log. */
  stop(how: "fast" | "crash"): Promise<void>;
  start(): Promise<void>;
  /** Makes it behave as a demoted primary, which answers and refuses every write. */
  readOnly(on: boolean): Promise<void>;
  /** The suite's own pool, past the wires: only faults of the server itself affect it. A new one after each restart. */
  pool(): Pool;
  close(): Promise<void>;
}

export async function startFaultyDatabase(directory: string): Promise<FaultyDatabase> {
  const settings = {
    // Only processes crash here, not the machine: what has been written to the kernel is safe without syncing.
    fsync: "off",
    max_connections: "150",
  };
  const launch = async (): Promise<EmbeddedPostgres> => {
    const started = await startEmbeddedPostgres({ dataDir: directory, settings });
    servers.add(started.pid);
    return started;
  };
  let server = await launch();
  await migrate({ url: server.url, appVersion: "999.0.0" });
  let pool = open(server.url);

  return {
    address: () => addressOf(server.url),
    urlVia: (port) => {
      const url = new URL(server.url);
      url.port = String(port);
      return url.href;
    },
    stop: async (how) => {
      if (how === "fast") await server.stop();
      else await crash(server.pid, directory);
      servers.delete(server.pid);
    },
    start: async () => {
      await pool.end();
      server = await launch();
      pool = open(server.url);
    },
    readOnly: async (on) => {
      await admin(server.url, [
        `alter system set default_transaction_read_only = ${on ? "on" : "off"}`,
        "select pg_reload_conf()",
      ]);
    },
    pool: () => pool,
    close: async () => {
      await pool.end();
      await server.stop();
      servers.delete(server.pid);
    },
  };
}

function open(url: string): Pool {
  return createPool({ url, applicationName: "carillon faults", max: 2, onError: () => undefined });
}

async function crash(pid: number, directory: string): Promise<void> {
  process.kill(pid, "SIGQUIT");
  // Ends it with more force if it does not obey.
  await delay(100);
  await stopPostmaster({ pid, data: `${directory}/data`, pgCtl: "", fastMs: 1_000 });
}

/** Tries again until the statements succeed: after a fault the server may need a while until it accepts them. */
async function admin(url: string, statements: readonly string[]): Promise<void> {
  const deadline = performance.now() + ADMIN_WITHIN_MS;
  for (;;) {
    const client = createClient({ url, applicationName: "carillon faults" });
    try {
      await client.connect();
      await client.query("set default_transaction_read_only = off");
      for (const statement of statements) await client.query(statement);
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await delay(200);
    } finally {
      await client.end().catch(() => undefined);
    }
  }
}
