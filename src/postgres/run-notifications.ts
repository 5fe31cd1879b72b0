import type { Instant } from "../domain/instant.ts";
import { RUNS_CHANNEL } from "./notifications.ts";
import type { Queryable } from "./pool.ts";

/** Tells every worker that runs may be waiting; the payload is the earliest of their `notBefore`. */
export async function notifyRuns(
  database: Queryable,
  notBefore: readonly Instant[],
): Promise<void> {
  if (notBefore.length === 0) return;
  const since = notBefore.reduce((a, b) => Math.min(a, b));
  await database.query("select pg_notify($1, $2)", [RUNS_CHANNEL, String(since)]);
}

/** SQL: tells of one run, in the statement that has its `notBefore`. */
export function notifyRunSql(channel: string, notBefore: string): string {
  return `pg_notify(${channel}, (extract(epoch from ${notBefore}) * 1000)::bigint::text)`;
}

/** The moment in a payload. Null, of any time: news may have been lost, or an older release sent no moment. */
export function parseRunNotification(payload: string | undefined): Instant | null {
  return payload !== undefined && /^-?\d+$/.test(payload) ? Number(payload) : null;
}
