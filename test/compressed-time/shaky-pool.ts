import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../../src/domain/ports/clock.ts";
import { translateError } from "../../src/postgres/connection-errors.ts";
import type { Pool, Queryable } from "../../src/postgres/pool.ts";
import { between } from "../faults/seeded-random.ts";

/** What becomes of a process's statements. It is changed while they run. */
export interface Fate {
  /** The process has been killed: nobody gets an answer. */
  dead: boolean;
  /** Some statements fail, before or after they have taken effect. */
  failing: boolean;
  /** It is cut off from PostgreSQL until this resolves: statements and answers are on their way for as long. */
  cutOff: Promise<void>;
  /** Called for each statement that fails. */
  onFailed: () => void;
}

/** One statement in 250 fails before PostgreSQL gets it, and one in 250 after it has been executed. */
const FAILING = 0.004;

type Ask = (...args: unknown[]) => Promise<unknown>;

/**
 * The same pool, but its statements take some milliseconds longer, sometimes many, on the way there and back, so that
 * what several processes do happens in every order. It shakes what the product's modules call, `pool.query` and clients
 * with promises, not what pg does internally. A rollback is not shaken: PostgreSQL rolls back by itself when a
 * connection is lost.
 */
export function shaken(pool: Pool, options: { fate: Fate; random: Random }): Pool {
  const { fate, random } = options;
  const never = new Promise<never>(() => undefined);

  /** An `await` of a killed process never ends, not even with an error. */
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
        await fate.cutOff;
      });
      maybeFail("before the statement");
      const answer = await alive(() => ask(...args));
      maybeFail("after the statement");
      await alive(() => fate.cutOff);
      if (random() < 0.1) await alive(() => delay(between(random, 0, 15)));
      return answer;
    };
  }

  const query = shaking(pool.query.bind(pool));
  pool.query = (async (...args: unknown[]) => {
    try {
      return await query(...args);
    } catch (error) {
      throw translateError(error);
    }
  }) as typeof pool.query;

  const shakenClients = new WeakSet<object>();
  const connect = pool.connect.bind(pool) as () => Promise<Queryable>;
  const connectForPg = pool.connect.bind(pool) as (...args: unknown[]) => unknown;
  pool.connect = ((...args: unknown[]) => {
    // With a callback, it is called by pg's own `pool.query`, which is shaken as a whole.
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
    // It was being opened when the process was killed.
    if (fate.dead) void client.end();
  });
  return pool;
}
