import type { Queryable } from "./pool.ts";

/**
 * Wakes a channel's listeners after a commit, without waiting; hints that come while one is on its way
 * are one more. It stays out of the transaction that did the work, because the commits of notifying
 * transactions are serialised across the whole server, each with a flush of its own. A hint that is lost
 * costs the listeners' polling interval and nothing else.
 */
export function createHint({
  database,
  channel,
}: {
  database: Queryable;
  channel: string;
}): () => void {
  let due = false;
  let telling = false;

  async function tell(): Promise<void> {
    while (due) {
      due = false;
      await database.query("select pg_notify($1, '')", [channel]).catch(() => {});
    }
    telling = false;
  }

  return () => {
    due = true;
    if (telling) return;
    telling = true;
    void tell();
  };
}
