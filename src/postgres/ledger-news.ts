import type { LedgerNews } from "../domain/ports/run-ledger.ts";
import { CLOSED_CHANNEL, CURSORS_CHANNEL, type Notifications } from "./notifications.ts";
import type { Queryable } from "./pool.ts";

/** A payload has fewer than 8,000 bytes; a uid and its comma have 37. */
const UIDS_IN_A_PAYLOAD = 200;

/** Tells every listener of these jobs, in as few notifications as their payloads allow. */
export async function tellOfJobs(
  database: Queryable,
  channel: string,
  jobUids: Iterable<string>,
): Promise<void> {
  const uids = [...new Set(jobUids)];
  const payloads: string[] = [];
  for (let index = 0; index < uids.length; index += UIDS_IN_A_PAYLOAD)
    payloads.push(uids.slice(index, index + UIDS_IN_A_PAYLOAD).join(","));
  if (payloads.length === 0) return;
  await database.query("select pg_notify($1, payload) from unnest($2::text[]) as payload", [
    channel,
    payloads,
  ]);
}

/**
 * The same after a commit, without waiting: what is told while a notification is on its way goes with
 * the next one. It stays out of the transaction that did the work, because the commits of notifying
 * transactions are serialised across the whole server, and one that only notifies has nothing to flush.
 * A database that fails meanwhile loses a hint and nothing else.
 */
export function createTeller({ database }: { database: Queryable }): {
  tell(channel: string, jobUids: Iterable<string>): void;
} {
  const waiting = new Map<string, Set<string>>();
  let telling = false;

  async function drain(): Promise<void> {
    for (const [channel, uids] of waiting) {
      waiting.delete(channel);
      await tellOfJobs(database, channel, uids).catch(() => {});
    }
    telling = false;
  }

  return {
    tell(channel, jobUids) {
      const uids = waiting.get(channel) ?? new Set();
      for (const uid of jobUids) uids.add(uid);
      if (uids.size === 0) return;
      waiting.set(channel, uids);
      if (telling) return;
      telling = true;
      void drain();
    },
  };
}

/** What other processes told. */
export function createLedgerNews({
  notifications,
}: {
  notifications: Pick<Notifications, "on">;
}): LedgerNews {
  const on = (channel: string, listener: (jobUids: readonly string[] | undefined) => void) =>
    notifications.on(channel, (payload) => {
      listener(payload === undefined ? undefined : payload.split(","));
    });
  return {
    onCursors: (listener) => on(CURSORS_CHANNEL, listener),
    onClosed: (listener) => on(CLOSED_CHANNEL, listener),
  };
}
