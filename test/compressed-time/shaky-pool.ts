import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../../src/domain/ports/clock.ts";
import { translated } from "../../src/postgres/connection-errors.ts";
import type { Pool, Queryable } from "../../src/postgres/pool.ts";
import { between } from "../faults/seeded-random.ts";

/** What becomes of a process's statements; changed while they run. */
export interface Fate {
  /** Its process is no more: nobody hears an answer. */
  dead: boolean;
  /** Some statements fail, before or after they have had their effect. */
  failing: boolean;
  /** Calls back for each that did. */
  onFailed: () => void;
}

/** One in 250 fails before PostgreSQL hears of it, and one in 250 when it is done. */
const FAILING = 0.004;

type Ask = (...args: unknown[]) => Promise<unknown>;

/**
 * The same pool, whose statements take some milliseconds longer, at times many, both on the way there and back: what
 * several processes do meets in every order. It shakes what our modules ask for, `pool.query` and clients with promises,
 * not what pg does inside; a rollback passes, which is what PostgreSQL does by itself when a connection is lost.
 */
export function shaken(pool: Pool, options: { fate: Fate; random: Random }): Pool {
  const { fate, random } = options;
  const never = new Promise<never>(() => undefined);

  /** A dead process's `await` never comes back, also not with an error. */
  async function alive<T>(work: () => Promise<T>): Promise<T> {
    if (fate.dead) return never;
    try {
      return await work();
    } finally {
      if (fate.dead) await never;
    }
  }

  function maybeFail(when: string): void {
    if (!fate.failing || random() >= FAILING) return;
    fate.onFailed();
    throw Object.assign(new Error(`the connection broke ${when}`), { code: "ECONNRESET" });
  }

  function shaking(ask: Ask): Ask {
    return async (...args) => {
      await alive(async () => {
        if (random() < 0.25) await delay(between(random, 0, 15));
        if (random() < 0.01) await delay(between(random, 20, 150));
      });
      maybeFail("before the statement");
      const answer = await alive(() => ask(...args));
      maybeFail("after the statement");
      if (random() < 0.1) await alive(() => delay(between(random, 0, 15)));
      return answer;
    };
  }

  const query = shaking(pool.query.bind(pool));
  pool.query = (async (...args: unknown[]) => {
    try {
      return await query(...args);
    } catch (error) {
      throw translated(error);
    }
  }) as typeof pool.query;

  const shakenClients = new WeakSet<object>();
  const connect = pool.connect.bind(pool) as () => Promise<Queryable>;
  const connectForPg = pool.connect.bind(pool) as (...args: unknown[]) => unknown;
  pool.connect = ((...args: unknown[]) => {
    // With a callback: pg's own `pool.query`, which is shaken as a whole.
    if (args.length > 0) return connectForPg(...args);
    return alive(async () => {
      const client = await connect();
      if (shakenClients.has(client)) return client;
      shakenClients.add(client);
      const plain = client.query.bind(client) as Ask;
      const shaky = shaking(plain);
      client.query = ((...statement: unknown[]) =>
        typeof statement.at(-1) === "function" || statement[0] === "rollback"
          ? plain(...statement)
          : shaky(...statement)) as typeof client.query;
      return client;
    });
  }) as typeof pool.connect;

  pool.on("connect", (client) => {
    // Opened while its process was dying.
    if (fate.dead) void client.end();
  });
  return pool;
}
