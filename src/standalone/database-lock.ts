import { setTimeout as delay } from "node:timers/promises";
import { withTranslatedErrors } from "../postgres/connection-errors.ts";
import { createClient } from "../postgres/pool.ts";
import { StartProblem } from "../configuration/start-problem.ts";

/** The advisory lock: two numbers that nobody else in the database uses. */
const LOCK = [0x6361_7269, 0x6c6c_6f6e];
/** PostgreSQL notices a killed holder when its connection breaks; across a network that may take a moment. */
const WAIT_MS = 3_000;
const RETRY_MS = 100;
/** Milliseconds between tries to get a lost lock back. */
const AGAIN_MS = 1_000;
/** A connection to a server that vanished looks healthy: a statement at this interval finds out. */
const CHECK_MS = 15_000;
/**
 * The same, for PostgreSQL's side of the connection. When our machine loses its power, the connection does not end,
 * and by the system's defaults PostgreSQL would keep the lock for two hours. Until then no other standalone would
 * start, nor this one after a reboot.
 */
const KEEPALIVE =
  "set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3";

export interface DatabaseLock {
  release(): Promise<void>;
}

type Client = ReturnType<typeof createClient>;

/**
 * Takes the database for this standalone alone, by an advisory lock that lives as long as its connection. Throws
 * StartProblem when another standalone has it. When the connection breaks, as at every restart of PostgreSQL, the
 * lock is taken again on a new one, until `release`.
 */
export async function lockDatabase(options: {
  url: string;
  /** The connection broke: another standalone may take the database from now on. */
  onLost: (error: Error) => void;
  /** Another standalone has taken it. Called once for each loss; the lock is waited for. */
  onTaken: () => void;
  /** The lock is ours again. */
  onHeld: () => void;
}): Promise<DatabaseLock> {
  const { url, onLost, onTaken, onHeld } = options;
  const end = new AbortController();
  const released = end.signal;
  let client = open(url);
  await withTranslatedErrors(() => connect(client));
  const deadline = performance.now() + WAIT_MS;
  while (!(await tryLock(client))) {
    if (performance.now() > deadline) {
      await client.end();
      throw new StartProblem(
        "another Carillon standalone is running on this database: stop it, or use another DATABASE_URL",
      );
    }
    await delay(RETRY_MS);
  }
  void keep();

  async function keep(): Promise<void> {
    while (!released.aborted) {
      const error = await untilBroken(client);
      if (released.aborted) return;
      onLost(error);
      await regain();
    }
  }

  async function regain(): Promise<void> {
    let told = false;
    for (; !released.aborted; await delay(AGAIN_MS)) {
      client = open(url);
      try {
        await connect(client);
        for (; !released.aborted; await delay(AGAIN_MS)) {
          if (await tryLock(client)) {
            onHeld();
            return;
          }
          if (!told) onTaken();
          told = true;
        }
      } catch {
        // PostgreSQL is still away, which the users of the database report.
        client.end().catch(() => undefined);
      }
    }
  }

  return {
    async release() {
      end.abort();
      await client.end();
    },
  };
}

function open(url: string): Client {
  return createClient({ url, applicationName: "carillon standalone lock" });
}

async function connect(client: Client): Promise<void> {
  await client.connect();
  await client.query(KEEPALIVE);
}

async function tryLock(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ held: boolean }>(
    "select pg_try_advisory_lock($1, $2) as held",
    LOCK,
  );
  return rows[0]?.held === true;
}

function untilBroken(client: Client): Promise<Error> {
  return new Promise((resolve) => {
    let cause = new Error("the connection has ended");
    const check = setInterval(() => {
      client.query("select 1").catch(() => {
        client.end().catch(() => undefined);
      });
    }, CHECK_MS);
    client.once("error", (error) => (cause = error));
    client.once("end", () => {
      clearInterval(check);
      resolve(cause);
    });
  });
}
