import { randomBytes } from "node:crypto";
import type { ApiKey } from "../domain/account.ts";
import { InvalidInput } from "../domain/findings.ts";
import type { ApiKeys } from "../domain/ports/accounts.ts";
import { hashOf } from "./bearer-token.ts";
import type { Pace } from "../waiting/pace.ts";
import { createGroupCommit } from "../waiting/group-commit.ts";
import { unknownAccount } from "./unknown-account.ts";
import { isUuid } from "./uuid.ts";
import type { Pool } from "./pool.ts";

const PREFIX = "svc_live_";
/** 192 bits in base64url: 32 characters. */
const RANDOM_BYTES = 24;
const DISPLAYED = PREFIX.length + 6;
const FLUSH_AFTER_MS = 1_000;
/** `svc_live_` and base64url; allows more than the length of our keys, but nothing huge. */
const RAW = /^svc_live_[A-Za-z0-9_-]{27,128}$/;

const COLUMNS = `id, label, prefix, created_at as "createdAt",
  last_used_at as "lastUsedAt"`;

/**
 * API keys. There is no cache on purpose: a request is judged by an indexed query that began after it
 * came, so a deleted key, or a deleted account's, stops on every replica at once. Requests that come
 * while a query is under way share the next one, milliseconds later.
 */
export function createApiKeys({
  pool,
  pace,
  onError = () => undefined,
}: {
  pool: Pool;
  /** For look-ups. With a pace, uses are also written a second after they were seen; without, only by `flush`. */
  pace?: Pace;
  /** Called when uses could not be written; they are tried again with the next ones. */
  onError?: (error: unknown) => void;
}): ApiKeys & { flush(): Promise<void> } {
  let used = new Set<string>();
  let scheduled = false;
  const lookups = createGroupCommit<Buffer, FoundKey | undefined>({
    commit: (hashes) => findKeys(pool, hashes),
    pace,
  });

  async function flush(): Promise<void> {
    const ids = used;
    if (ids.size === 0) return;
    used = new Set();
    try {
      // Skip locked: another replica is writing the same use. The minute is checked again here, because many
      // requests may have seen the same old moment.
      await pool.query(
        `update api_keys set last_used_at = now() where id in (
           select id from api_keys where id = any($1::uuid[])
             and (last_used_at is null or last_used_at < now() - interval '1 minute')
           for update skip locked)`,
        [[...ids]],
      );
    } catch (error) {
      for (const id of ids) used.add(id);
      throw error;
    }
  }

  function noteUse(id: string): void {
    used.add(id);
    if (pace === undefined || scheduled) return;
    scheduled = true;
    pace.timers.after(FLUSH_AFTER_MS, () => {
      scheduled = false;
      flush().catch(onError);
    });
  }

  return {
    flush,
    async create(account, label) {
      if (Array.from(label).length > 100 || /\p{Cc}/u.test(label))
        throw new InvalidInput([
          {
            field: "label",
            message: "must be one line of at most 100 characters, none of them a control character",
          },
        ]);
      if (!isUuid(account)) throw unknownAccount(account);
      const raw = PREFIX + randomBytes(RANDOM_BYTES).toString("base64url");
      const { rows } = await pool.query<ApiKey>(
        `insert into api_keys (account, label, prefix, hash)
         select id, $2, $3, $4 from accounts where id = $1 and deleted_at is null
         returning ${COLUMNS}`,
        [account, label, raw.slice(0, DISPLAYED), hashOf(raw)],
      );
      const [key] = rows;
      if (key === undefined) throw unknownAccount(account);
      return { key, raw };
    },
    async list(account) {
      if (!isUuid(account)) return [];
      const { rows } = await pool.query<ApiKey>(
        `select ${COLUMNS} from api_keys where account = $1 order by created_at, id`,
        [account],
      );
      return rows;
    },
    async delete(account, id) {
      if (!isUuid(account) || !isUuid(id)) return false;
      const { rowCount } = await pool.query("delete from api_keys where account = $1 and id = $2", [
        account,
        id,
      ]);
      return rowCount === 1;
    },
    async authenticate(raw) {
      if (!RAW.test(raw)) return undefined;
      const key = await lookups.submit(hashOf(raw));
      if (key === undefined) return undefined;
      if (key.stale) noteUse(key.id);
      const { id: keyId, account, smtpRevision } = key;
      return { keyId, account, smtpRevision: smtpRevision ?? undefined };
    },
  };
}

interface FoundKey {
  id: string;
  account: string;
  smtpRevision: string | null;
  stale: boolean;
}

async function findKeys(
  pool: Pool,
  hashes: readonly Buffer[],
): Promise<readonly (FoundKey | undefined)[]> {
  const names = hashes.map((hash) => hash.toString("hex"));
  const { rows } = await pool.query<FoundKey & { hash: string }>({
    name: "api_keys_authenticate",
    text: `select encode(k.hash, 'hex') as hash, k.id, k.account,
        (k.last_used_at is null or k.last_used_at < now() - interval '1 minute') as stale,
        s.revision as "smtpRevision"
      from api_keys k join accounts a on a.id = k.account
        left join smtp_settings s on s.account = k.account
      where k.hash = any(select decode(unnest($1::text[]), 'hex')) and a.deleted_at is null`,
    values: [[...new Set(names)]],
  });
  const found = new Map(rows.map((row) => [row.hash, row]));
  return names.map((name) => found.get(name));
}
