import { Agent } from "undici";
import { post } from "./raw-post.ts";
import type { Pool } from "../src/postgres/pool.ts";

/** Rows of one claim. */
const CLAIM = 1_000;
const CLOSE_EVERY_MS = 25;

/**
 * The least that a durable queue of webhooks has to do, and so the limit for ours: rows are claimed by the thousand,
 * posted `width` at a time, deleted and recorded in batches. No start is committed before a call, no job is looked up,
 * nothing is signed or guarded, and after a crash everything that was under way is sent again.
 */
export async function benchBareQueue(options: {
  pool: Pool;
  url: string;
  count: number;
  width: number;
}): Promise<number> {
  const { pool, url, count, width } = options;
  await pool.query(`create table if not exists bare_queue (
      id uuid primary key default uuidv7(), due_at timestamptz not null default now(),
      url text not null, payload jsonb not null, claimed_by uuid);
    create index if not exists bare_queue_due on bare_queue (due_at) where claimed_by is null;
    create table if not exists bare_history (
      id uuid not null default uuidv7(), run_id uuid not null, http_status integer not null,
      executed_at timestamptz not null default now())`);
  await pool.query(
    `insert into bare_queue (url, payload) select $1, '{"hello":"world"}' from generate_series(1, $2::int)`,
    [url, count],
  );

  const dispatcher = new Agent({ connections: width });
  const begun = performance.now();
  let closed = 0;
  let outcomes: { id: string; status: number }[] = [];
  const claimed: ClaimedRow[] = [];
  let claiming: Promise<void> | undefined;

  async function claim(): Promise<void> {
    const { rows } = await pool.query<ClaimedRow>({
      name: "bare_claim",
      text: `update bare_queue set claimed_by = (select gen_random_uuid())
        where id = any(array(select id from bare_queue where claimed_by is null and due_at <= now()
                              order by due_at limit $1 for update skip locked))
        returning id, url, payload`,
      values: [CLAIM],
    });
    claimed.push(...rows);
    claiming = undefined;
  }

  async function sendAll(): Promise<void> {
    for (;;) {
      if (claimed.length < CLAIM / 2) claiming ??= claim();
      if (claimed.length === 0) await claiming;
      const run = claimed.shift();
      if (run === undefined) return;
      const status = await post(dispatcher, run.url, JSON.stringify(run.payload));
      outcomes.push({ id: run.id, status });
    }
  }

  async function close(): Promise<void> {
    const batch = outcomes;
    outcomes = [];
    await pool.query({
      name: "bare_close",
      text: `with closed as (
          delete from bare_queue using unnest($1::uuid[], $2::int[]) as i(run_id, status)
           where id = run_id returning id, status
        ) insert into bare_history (run_id, http_status) select id, status from closed`,
      values: [batch.map(({ id }) => id), batch.map(({ status }) => status)],
    });
    closed += batch.length;
  }

  const closing = (async () => {
    while (closed < count) {
      await new Promise<void>((resolve) => {
        setTimeout(resolve, CLOSE_EVERY_MS);
      });
      await close();
    }
  })();
  await Promise.all(Array.from({ length: width }, sendAll));
  await closing;
  const seconds = (performance.now() - begun) / 1_000;
  await dispatcher.close();
  return count / seconds;
}

interface ClaimedRow {
  id: string;
  url: string;
  payload: unknown;
}
