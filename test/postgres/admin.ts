import { createClient } from "../../src/postgres/pool.ts";

/** Runs one statement outside any transaction, on a connection of its own. */
export async function admin(url: string, statement: string): Promise<void> {
  const client = createClient({
    url,
    applicationName: "carillon tests",
    statementTimeoutMs: 60_000,
  });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
