import type pg from "pg";
import { createClient } from "./pool.ts";

/** PostgreSQL's NOTIFY, as a hint that something changed. Listeners also poll. */
export interface Notifications {
  /**
   * Calls back after each notification with its payload; and without one each time that listening begins, so after
   * every (re)connect, because notifications may have been lost before.
   */
  on(channel: string, listener: (payload?: string) => void): () => void;
  close(): Promise<void>;
}

/** Runs may be waiting; see `run-notifications`. */
export const RUNS_CHANNEL = "carillon_runs";
/** Jobs of the PostgreSQL store that changed; the payload has their uids. */
export const JOBS_CHANNEL = "carillon_jobs";
/** Cursors written by somebody else than the leader; the payload has the job uids. */
export const CURSORS_CHANNEL = "carillon_cursors";
/** Attempts recorded; the payload has the job uids. */
export const CLOSED_CHANNEL = "carillon_closed";

const RECONNECT_MS = 1_000;
/** How often a statement checks the connection: LISTEN alone never notices that the server has vanished. */
const CHECK_MS = 15_000;

/** One connection of its own, opened with the first listener and reopened for as long as it is needed. */
export function createNotifications(options: {
  url: string;
  applicationName: string;
  onError?: (error: Error) => void;
  /** Milliseconds between two checks of the connection. */
  checkMs?: number;
}): Notifications {
  const { checkMs = CHECK_MS } = options;
  const listeners = new Map<string, Set<(payload?: string) => void>>();
  let client: pg.Client | undefined;
  /** The last statement of a connection, until it is answered. */
  const underWay = new WeakMap<pg.Client, Promise<unknown>>();
  let connecting: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  function report(error: unknown): void {
    options.onError?.(
      error instanceof Error ? error : new Error("notifications", { cause: error }),
    );
  }

  function reconnectLater(): void {
    if (closed || timer !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      connect();
    }, RECONNECT_MS);
  }

  function connect(): void {
    if (closed || client !== undefined || connecting !== undefined) return;
    connecting = open()
      .catch((error: unknown) => {
        report(error);
        reconnectLater();
      })
      .finally(() => {
        connecting = undefined;
      });
  }

  async function open(): Promise<void> {
    const fresh = createClient({ ...options, onError: report });
    let check: NodeJS.Timeout | undefined;
    fresh.once("end", () => {
      clearInterval(check);
      if (client === fresh) client = undefined;
      reconnectLater();
    });
    fresh.on("notification", ({ channel, payload }) => wake(channel, payload ?? ""));
    await fresh.connect();
    if (closed) return fresh.end();
    check = setInterval(() => {
      // Another statement that is under way checks it as well.
      if (!underWay.has(fresh)) queryOrEnd(fresh, "select 1").catch(report);
    }, checkMs);
    // The loop also reaches channels that are added while it waits.
    for (const channel of listeners.keys()) await listen(fresh, channel);
    client = fresh;
  }

  async function listen(connection: pg.Client, channel: string): Promise<void> {
    await queryOrEnd(connection, `listen ${connection.escapeIdentifier(channel)}`);
    wake(channel);
  }

  /**
   * After the statement before it. Ends the connection if it fails: it may listen to some channels only, or to none, as
   * on a standby.
   */
  async function queryOrEnd(connection: pg.Client, statement: string): Promise<void> {
    const before = underWay.get(connection);
    const inTurn = Promise.allSettled([before]).then(() => connection.query(statement));
    underWay.set(connection, inTurn);
    try {
      await inTurn;
    } catch (error) {
      connection.end().catch(report);
      throw error;
    } finally {
      if (underWay.get(connection) === inTurn) underWay.delete(connection);
    }
  }

  function wake(channel: string, payload?: string): void {
    for (const listener of listeners.get(channel) ?? []) listener(payload);
  }

  return {
    on: (channel, listener) => {
      const known = listeners.get(channel);
      const set = known ?? new Set();
      set.add(listener);
      listeners.set(channel, set);
      if (known === undefined && client !== undefined) listen(client, channel).catch(report);
      connect();
      return () => set.delete(listener);
    },
    close: async () => {
      closed = true;
      clearTimeout(timer);
      await connecting;
      await client?.end().catch(report);
    },
  };
}
