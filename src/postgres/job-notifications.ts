import type { LedgerNews } from "../domain/ports/run-ledger.ts";
import { CLOSED_CHANNEL, CURSORS_CHANNEL, type Notifications } from "./notifications.ts";
import type { Queryable } from "./pool.ts";

/** A payload has fewer than 8,000 bytes; a uid and its comma have 37. */
const UIDS_IN_A_PAYLOAD = 200;

/** Tells every listener of these jobs, in as few notifications as possible. */
export async function notifyJobs(
  database: Queryable,
  channel: string,
  jobUids: Iterable<string>,
): Promise<void> {
  await notify(database, [[channel, new Set(jobUids)]]);
}

/** SQL: tells of one job, in the statement that has its uid. */
export function notifyJobSql(channel: string, jobUid: string): string {
  return `pg_notify(${channel}, ${jobUid}::text)`;
}

async function notify(
  database: Queryable,
  news: Iterable<readonly [channel: string, jobUids: ReadonlySet<string>]>,
): Promise<void> {
  const [channels, payloads]: [string[], string[]] = [[], []];
  for (const [channel, jobUids] of news) {
    const uids = [...jobUids];
    for (let index = 0; index < uids.length; index += UIDS_IN_A_PAYLOAD) {
      channels.push(channel);
      payloads.push(uids.slice(index, index + UIDS_IN_A_PAYLOAD).join(","));
    }
  }
  if (payloads.length === 0) return;
  await database.query(
    "select pg_notify(channel, payload) from unnest($1::text[], $2::text[]) as n(channel, payload)",
    [channels, payloads],
  );
}

/**
 * Tells of jobs after a commit, without waiting: what is told while a notification is on its way goes into the next
 * one. Not part of the transaction that did the work, because the commits of notifying transactions are serialised
 * across the whole server, and one that only notifies has nothing to flush. What could not be told because the database
 * was away is told with the next news; if this process ends before, only hints are lost.
 */
export function createJobNotifier({ database }: { database: Queryable }): {
  notify(channel: string, jobUids: Iterable<string>): void;
} {
  let waiting = new Map<string, Set<string>>();
  let notifying = false;

  function add(channel: string, jobUids: Iterable<string>): void {
    const uids = waiting.get(channel) ?? new Set();
    for (const uid of jobUids) uids.add(uid);
    if (uids.size > 0) waiting.set(channel, uids);
  }

  async function drain(): Promise<void> {
    // Collects everything that is told in the same turn of the event loop.
    await Promise.resolve();
    while (waiting.size > 0) {
      const news = waiting;
      waiting = new Map();
      try {
        await notify(database, news);
      } catch {
        for (const [channel, jobUids] of news) add(channel, jobUids);
        break;
      }
    }
    notifying = false;
  }

  return {
    notify(channel, jobUids) {
      add(channel, jobUids);
      if (notifying || waiting.size === 0) return;
      notifying = true;
      void drain();
    },
  };
}

/** `LedgerNews` from the notifications of other processes. */
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
