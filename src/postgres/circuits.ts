import type { Circuit, Circuits } from "../domain/ports/circuits.ts";
import { deleteInBatches, type Batches } from "./batches.ts";
import { isUuid } from "./uuid.ts";
import type { Pool } from "./pool.ts";

/**
 * A killed process leaves its circuits behind. They are believed for as long as a living process may be cut off
 * from us.
 */
const PUBLISHED = `select account, destination, worker, state, since
   from circuits where updated_at > now() - interval '5 minutes'`;

export function createCircuits({ pool }: { pool: Pool }): Circuits {
  return {
    async publish({ account, destination, worker, state }) {
      if (state === "closed") {
        await pool.query(
          "delete from circuits where account = $1 and destination = $2 and worker = $3",
          [account, destination, worker],
        );
        return;
      }
      await pool.query(
        `insert into circuits as c (account, destination, worker, state) values ($1, $2, $3, $4)
         on conflict (account, destination, worker) do update set state = excluded.state,
           since = case when c.state = excluded.state then c.since else now() end,
           updated_at = now()`,
        [account, destination, worker, state],
      );
    },
    async confirm(worker) {
      await pool.query("update circuits set updated_at = now() where worker = $1", [worker]);
    },
    async list(account) {
      if (!isUuid(account)) return [];
      const { rows } = await pool.query<Circuit>(
        `${PUBLISHED} and account = $1 order by destination, worker`,
        [account],
      );
      return rows;
    },
    async listAll() {
      const { rows } = await pool.query<Circuit>(
        `${PUBLISHED} order by account, destination, worker`,
      );
      return rows;
    },
    async forget(worker) {
      await pool.query("delete from circuits where worker = $1", [worker]);
    },
  };
}

/**
 * Deletes what killed processes left behind, much later than `PUBLISHED` ignores it: a process may come back. For
 * the retention task.
 */
export async function deleteStaleCircuits(options: { pool: Pool } & Batches): Promise<number> {
  return deleteInBatches({
    ...options,
    table: "circuits",
    where: "updated_at <= now() - interval '1 hour'",
  });
}
