import { withTranslatedErrors } from "./connection-errors.ts";
import { createClient, liftTimeLimits } from "./pool.ts";

/** An advisory lock: any two numbers that nobody else uses in the database. */
const LOCK = [0x6361_7269, 0x6f6e_6365];

/**
 * Runs `work` once in the life of a database: the first process runs it, the others wait for it and then do
 * nothing. When it throws, or its process dies, the next process runs it again, which it must be made for. `key`
 * names the work for ever.
 */
export async function oncePerDatabase(options: {
  url: string;
  key: string;
  work: () => Promise<void>;
}): Promise<void> {
  const { url, key, work } = options;
  // A session of its own: the lock must not outlive this process, whatever a pool does.
  const client = createClient({
    url,
    applicationName: `carillon ${key}`,
    statementTimeoutMs: 0,
  });
  await withTranslatedErrors(async () => {
    await client.connect();
    try {
      // The others wait for as long as the work takes.
      await liftTimeLimits(client);
      await client.query("select pg_advisory_lock($1, $2)", LOCK);
      const done = await client.query("select from carillon_meta where key = $1", [key]);
      if (done.rowCount !== 0) return;
      await work();
      await client.query("insert into carillon_meta (key, value) values ($1, now()::text)", [key]);
    } finally {
      await client.end().catch(() => undefined);
    }
  });
}
