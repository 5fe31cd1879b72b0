import type { Queryable } from "./pool.ts";

const FURTHER_LOOKS = 2;

/**
 * What somebody has locked for longer than a moment; `look` names what is locked now. Our own statements lock rows all
 * the time: one that is just writing has ended by the next look, and one that itself waits for a lock gives up soon.
 * `briefly`: or for no longer, by one look.
 */
export async function heldLocks(
  database: Queryable,
  look: () => Promise<Set<string>>,
  { briefly } = { briefly: false },
): Promise<Set<string>> {
  let held = await look();
  for (let further = briefly ? 0 : FURTHER_LOOKS; further > 0 && held.size > 0; further -= 1) {
    await database.query("select pg_sleep(0.05)");
    held = held.intersection(await look());
  }
  return held;
}
