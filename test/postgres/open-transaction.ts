import { onTestFinished } from "vitest";
import type { Pool, Queryable } from "../../src/postgres/pool.ts";

export interface OpenTransaction {
  client: Queryable;
  readonly commit: () => Promise<void>;
  readonly rollback: () => Promise<void>;
}

/** Begins a transaction, with this statement, that stays open until it is ended or the test is over. */
export async function openTransaction(
  pool: Pool,
  text = "select 1",
  values: unknown[] = [],
): Promise<OpenTransaction> {
  const client = await pool.connect();
  let open = true;
  const end = async (how: "commit" | "rollback") => {
    if (!open) return;
    open = false;
    await client.query(how);
    client.release();
  };
  onTestFinished(() => end("rollback"));
  await client.query("begin");
  await client.query(text, values);
  return { client, commit: () => end("commit"), rollback: () => end("rollback") };
}
