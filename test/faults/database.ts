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
  // A run that ends without its end must not leave a database behind, in a group of its own as it is.
  for (const pid of servers) {
    try {
      process.kill(pid, "SIGQUIT");
    } catch {
      // Ended by itself.
    }
  }
});

/** The suite's own PostgreSQL: nobody else uses it, so it can be damaged. */
export interface FaultyDatabase {
  /** Where it listens now; another port after each restart. */
  address(): { host: string; port: number };
  /** A URL of the same database by way of another address. */
  urlVia(port: number): string;
  /** `crash` ends every backend on the spot: recovery from the log follows. */
  stop(how: "fast" | "crash"): Promise<void>;
  start(): Promise<void>;
  /** What a demoted primary does: it answers, and refuses every write. */
  readOnly(on: boolean): Promise<void>;
  /** The suite's own way in, past every fault but the server's. Follows restarts. */
  pool(): Pool;
  close(): Promise<void>;
}

export async function startFaultyDatabase(directory: string): Promise<FaultyDatabase> {
  const settings = {
    // No machine crashes here, only processes: what the kernel has is safe without syncing.
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
  // Ends it harder should it not obey.
  await delay(100);
  await stopPostmaster({ pid, data: `${directory}/data`, pgCtl: "", fastMs: 1_000 });
}

/** The suite's own wish must come true, however long the server takes after what was done to it. */
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
