import type { Instant } from "../domain/instant.ts";
import { RUNS_CHANNEL } from "./notifications.ts";
import type { Queryable } from "./pool.ts";

/** Tells every worker of runs that may be waiting, by when they may start: the payload is the earliest of it. */
export async function tellOfRuns(
  database: Queryable,
  notBefore: readonly Instant[],
): Promise<void> {
  if (notBefore.length === 0) return;
  const since = notBefore.reduce((a, b) => Math.min(a, b));
  await database.query("select pg_notify($1, $2)", [RUNS_CHANNEL, String(since)]);
}

/** SQL: the same of one run, in the statement that has it at hand. */
export function toldOfRun(channel: string, notBefore: string): string {
  return `pg_notify(${channel}, (extract(epoch from ${notBefore}) * 1000)::bigint::text)`;
}

/** What a payload says. Null, of any time: where news may have been lost, and of a release that told nothing more. */
export function sinceOf(payload: string | undefined): Instant | null {
  return payload !== undefined && /^-?\d+$/.test(payload) ? Number(payload) : null;
}
