import { createClient } from "../../src/postgres/pool.ts";

/** Runs one statement outside any transaction, on a connection of its own, and returns its rows. */
export async function admin(url: string, statement: string): Promise<readonly unknown[]> {
  const client = createClient({
    url,
    applicationName: "carillon tests",
    statementTimeoutMs: 60_000,
  });
  await client.connect();
  try {
    return (await client.query(statement)).rows;
  } finally {
    await client.end();
  }
}
