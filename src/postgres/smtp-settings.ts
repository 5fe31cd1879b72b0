import type { SmtpSettings } from "../domain/account.ts";
import { keyOfParts, MAIL_SERVER } from "../domain/destination.ts";
import type { Instant } from "../domain/instant.ts";
import type { SmtpSettingsStore } from "../domain/ports/accounts.ts";
import { sealContext, type KeyRing } from "./key-ring.ts";
import { unknownAccount } from "./unknown-account.ts";
import { isUuid } from "./uuid.ts";
import type { Pool, Queryable } from "./pool.ts";
import { notifyRuns } from "./run-notifications.ts";

/** Most mails that become due at once; the others stay due when they were, soon anyway. */
const MOST_BROUGHT_FORWARD = 1_000;

/** SMTP settings, the password sealed. Callers validate the values. */
export function createSmtpSettingsStore({
  pool,
  keyRing,
}: {
  pool: Pool;
  keyRing: KeyRing;
}): SmtpSettingsStore {
  return {
    async get(account) {
      if (!isUuid(account)) return undefined;
      const { rows } = await pool.query<SmtpSettings>(
        `select host, port, username, password, from_address as "from", tls, revision
         from smtp_settings where account = $1`,
        [account],
      );
      const [found] = rows;
      if (found === undefined || found.password === null) return found;
      return { ...found, password: keyRing.decrypt(found.password, context(account)) };
    },
    async revision(account) {
      if (!isUuid(account)) return undefined;
      const { rows } = await pool.query<{ revision: string }>({
        name: "smtp_settings_revision",
        text: "select revision from smtp_settings where account = $1",
        values: [account],
      });
      return rows[0]?.revision;
    },
    async set(account, settings) {
      if (!isUuid(account)) throw unknownAccount(account);
      // The spelling in which the account column gives it back, because it is part of the seal.
      const id = account.toLowerCase();
      const password =
        settings.password === null ? null : keyRing.encrypt(settings.password, context(id));
      const { rowCount } = await pool.query(
        `insert into smtp_settings (account, host, port, username, password, from_address, tls)
         select id, $2, $3, $4, $5, $6, $7 from accounts where id = $1 and deleted_at is null
         on conflict (account) do update set host = excluded.host, port = excluded.port,
           username = excluded.username, password = excluded.password,
           from_address = excluded.from_address, tls = excluded.tls, revision = uuidv7()`,
        [
          id,
          settings.host,
          settings.port,
          settings.username,
          password,
          settings.from,
          settings.tls,
        ],
      );
      if (rowCount === 0) throw unknownAccount(account);
      await bringForward(pool, id);
    },
    async delete(account) {
      if (isUuid(account))
        await pool.query("delete from smtp_settings where account = $1", [account]);
    },
  };
}

/**
 * Makes mails due that the circuit of the old settings has put off: the new settings have a circuit of their own.
 * Retries keep their backoff.
 */
async function bringForward(database: Queryable, account: string): Promise<void> {
  const destination = keyOfParts({ account, destination: MAIL_SERVER });
  const { rows } = await database.query<{ not_before: Instant }>(
    `with put_off as materialized (
       select id from runs
        where account = $1 and destination = $2 and claim_token is null
          and not_before > greatest(clock_timestamp(), scheduled_at, retry_at)
        order by not_before limit $3 for update skip locked
     )
     update runs r set not_before = clock_timestamp()
       from put_off where r.id = put_off.id returning r.not_before`,
    [account, destination, MOST_BROUGHT_FORWARD],
  );
  await notifyRuns(
    database,
    rows.map((row) => row.not_before),
  );
}

function context(account: string): string {
  return sealContext({ table: "smtp_settings", column: "password", account, row: account });
}
