import { beforeAll, expect, test } from "vitest";
import {
  assertNoTransactionPooling,
  TransactionPooling,
} from "../../../src/postgres/transaction-pooling.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});

const poolOfOne = () => database.pool({ max: 1 });

/** A connection through a pooler that chooses a session for each transaction. */
function behindPooler(lend: () => Pool): Pool {
  let lent: Pool | undefined;
  const connection = {
    query(text: string) {
      if (text === "begin") lent = lend();
      return lent?.query(text);
    },
    release: () => undefined,
  };
  return { connect: async () => connection } as unknown as Pool;
}

test("through a pooler of transactions that lends each the session that was used last, they are refused", async () => {
  const session = poolOfOne();
  const pools = [behindPooler(() => session), behindPooler(() => session)];
  await expect(assertNoTransactionPooling(pools)).rejects.toThrow(TransactionPooling);
});

test("through a busy one that lends each another session every time, they are refused", async () => {
  const sessions = [poolOfOne(), poolOfOne(), poolOfOne()];
  let turn = 0;
  const lend = () => sessions[turn++ % sessions.length] as Pool;
  const pools = [behindPooler(lend), behindPooler(lend)];
  await expect(assertNoTransactionPooling(pools)).rejects.toThrow(TransactionPooling);
});

test("with sessions of their own they are not, be it one that a pool gets from another", async () => {
  const pools = [poolOfOne(), poolOfOne()];
  await expect(assertNoTransactionPooling([...pools, ...pools])).resolves.toBeUndefined();
});
