import { sealContext, type KeyRing } from "./key-ring.ts";
import type { Pool } from "./pool.ts";

/** The columns with sealed text; `row` is the column that names the row in the additional data. */
const SEALED_COLUMNS = [
  { table: "smtp_settings", column: "password", row: "account" },
  { table: "signing_secrets", column: "secret", row: "id" },
] as const;

const BATCH = 100;

interface SealedRow {
  account: string;
  row: string;
  sealed: string;
}

/**
 * Run at start, and before an admin command seals something: throws `UnknownKeyId` when data is under a key that the
 * ring lacks, and `WrongKey` when a key of the right id does not open what it should. Opens one value for each key id
 * and column.
 */
export async function assertKeysKnown({
  pool,
  keyRing,
}: {
  pool: Pool;
  keyRing: KeyRing;
}): Promise<void> {
  for (const { table, column, row } of SEALED_COLUMNS) {
    const { rows } = await pool.query<SealedRow>(
      `select distinct on (split_part(${column}, ':', 1))
         account, ${row} as row, ${column} as sealed
       from ${table} where ${column} is not null`,
    );
    for (const sample of rows)
      keyRing.decrypt(sample.sealed, sealContext({ table, column, ...sample }));
  }
}

/**
 * Seals all values that are under another key again, under the ring's first key. May run beside processes that have
 * both keys, and may be repeated. Returns how many values it rewrote.
 */
export async function reencryptAll({
  pool,
  keyRing,
}: {
  pool: Pool;
  keyRing: KeyRing;
}): Promise<{ reencrypted: number }> {
  const [current] = keyRing.keyIds;
  let reencrypted = 0;
  for (const { table, column, row } of SEALED_COLUMNS) {
    let after: string | null = null;
    for (;;) {
      const batch: { rows: SealedRow[] } = await pool.query<SealedRow>(
        `select account, ${row} as row, ${column} as sealed from ${table}
         where ${column} is not null and split_part(${column}, ':', 1) <> $1
           and ($2::uuid is null or ${row} > $2) order by ${row} limit $3`,
        [current, after, BATCH],
      );
      for (const found of batch.rows) {
        const context = sealContext({ table, column, ...found });
        const fresh = keyRing.encrypt(keyRing.decrypt(found.sealed, context), context);
        // Only if the value is still the one that was read: a password set meanwhile must not be overwritten.
        const written = await pool.query(
          `update ${table} set ${column} = $1 where ${row} = $2 and ${column} = $3`,
          [fresh, found.row, found.sealed],
        );
        reencrypted += written.rowCount ?? 0;
      }
      const last = batch.rows.at(-1);
      if (last === undefined) break;
      after = last.row;
    }
  }
  return { reencrypted };
}
