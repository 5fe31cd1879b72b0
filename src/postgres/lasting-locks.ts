import type { Queryable } from "./pool.ts";

const LOOKS = 3;

/**
 * What somebody has locked for longer than a moment. `look` names what is locked now. Our own statements lock rows all
 * the time: one that is just writing has ended by the next look, and one that itself waits for a lock gives up soon.
 */
export async function lastingLocks(
  database: Queryable,
  look: () => Promise<Set<string>>,
): Promise<Set<string>> {
  let held = await look();
  for (let looks = 1; looks < LOOKS && held.size > 0; looks += 1) {
    await database.query("select pg_sleep(0.05)");
    held = held.intersection(await look());
  }
  return held;
}
