import { MAX_RETENTION_DAYS, type Account } from "../domain/account.ts";
import { findZone } from "../domain/cron/zone.ts";
import { InvalidInput, type Finding } from "../domain/findings.ts";
import { isNamespaceName } from "../domain/kubernetes-name.ts";
import type { Accounts, NamespaceBinding } from "../domain/ports/accounts.ts";
import { transaction, type Pool, type Queryable } from "./pool.ts";
import { administratorsKept } from "./users.ts";
import { unknownAccount } from "./unknown-account.ts";
import { isUuid } from "./uuid.ts";

const COLUMNS = `id, name, namespace, namespace_uid as "namespaceUid",
  retention_days as "retentionDays", time_zone as "timeZone",
  created_at as "createdAt", deleted_at as "deletedAt"`;

/** A look at the namespace that an account would leave takes no longer, or the account stays. */
const LEAVING = "1 minute";
/** Longer than LEAVING by more than any statement takes: then whoever left the mark has died or given up. */
const LEFT_BEHIND = "2 minutes";

export const ACCOUNT_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,62}[A-Za-z0-9])?$/;

/**
 * Names are unique among live accounts without regard to case and kept as written. Input that cannot
 * be accepted, an unknown account included, throws InvalidInput.
 */
export function createAccounts({
  pool,
  onDelete,
  onLeave,
}: {
  pool: Pool;
  /**
   * Called before an account moves from this namespace to one of another name: throws NamespaceInUse when jobs
   * would stay behind. Undefined: jobs do not live in namespaces.
   */
  onLeave?: (namespace: string, uid: string | null) => Promise<void>;
  /** Runs in the deleting transaction, after the account is marked: cancels its queued runs. */
  onDelete?: (client: Queryable, account: string) => Promise<void>;
}): Accounts {
  async function findOne(where: string, values: unknown[]): Promise<Account | undefined> {
    const { rows } = await pool.query<Account>(`select ${COLUMNS} from accounts ${where}`, values);
    return rows[0];
  }

  /** Before the look for jobs, and seen by all whose statements begin after it. */
  async function markLeaving({ id, namespace, namespaceUid }: Account): Promise<string> {
    const { rows } = await pool.query<{ leaving: string }>(
      `update accounts set leaving = uuidv7()
       where id = $1 and deleted_at is null and namespace = $2
         and namespace_uid is not distinct from $3
       returning leaving`,
      [id, namespace, namespaceUid],
    );
    if (rows[0] === undefined) throw movedMeanwhile();
    return rows[0].leaving;
  }

  async function removeMark(id: string, mark: string): Promise<void> {
    await pool.query("update accounts set leaving = null where id = $1 and leaving = $2", [
      id,
      mark,
    ]);
  }

  return {
    async create({ name, namespace, namespaceUid }) {
      const findings = [
        ...nameFindings(name),
        ...spaceFindings(name),
        ...namespaceFindings(namespace, namespaceUid),
      ];
      if (findings.length > 0) throw new InvalidInput(findings);
      return refusingTaken({ name, namespace }, async () => {
        const { rows } = await pool.query<Account>(
          `insert into accounts (name, namespace, namespace_uid) values ($1, $2, $3) returning ${COLUMNS}`,
          [name, namespace ?? null, namespaceUid ?? null],
        );
        return expectRow(rows);
      });
    },
    async list() {
      const { rows } = await pool.query<Account>(
        `select ${COLUMNS} from accounts where deleted_at is null order by created_at, id`,
      );
      return rows;
    },
    byName: async (name) => findOne("where lower(name) = lower($1) and deleted_at is null", [name]),
    get: async (id) => (isUuid(id) ? findOne("where id = $1", [id]) : undefined),
    async byNamespace(namespace, uid) {
      const found = await findOne(
        "where namespace = $1 and deleted_at is null and (namespace_uid = $2 or namespace_uid is null)",
        [namespace, uid],
      );
      if (found === undefined || found.namespaceUid !== null) return found;
      // An operator without access to the cluster has bound it by name only: the first incarnation of the namespace
      // that is seen becomes the bound one. If two processes see different ones, one wins and the other finds no
      // account.
      const { rows } = await pool.query<Account>(
        `update accounts set namespace_uid = $2
         where id = $1 and namespace = $3 and deleted_at is null
           and (namespace_uid is null or namespace_uid = $2)
         returning ${COLUMNS}`,
        [found.id, uid, namespace],
      );
      return rows[0];
    },
    async bindings(ids) {
      const { rows } = await pool.query<NamespaceBinding>({
        name: "accounts_bindings",
        text: `select id as account, namespace, namespace_uid as "namespaceUid",
            coalesce(uuid_extract_timestamp(leaving) > now() - $2::interval, false) as leaving
          from accounts
          where id = any($1::uuid[]) and deleted_at is null and namespace is not null`,
        values: [ids.filter(isUuid), LEFT_BEHIND],
      });
      return rows;
    },
    async bind(id, namespace, namespaceUid) {
      const findings = namespaceFindings(namespace, namespaceUid);
      if (findings.length > 0) throw new InvalidInput(findings);
      if (!isUuid(id)) throw unknownAccount(id);
      const before = await findOne("where id = $1 and deleted_at is null", [id]);
      if (before === undefined) throw unknownAccount(id);
      const { namespace: from, namespaceUid: fromUid } = before;
      // Not for the same name: an earlier incarnation of a namespace has no jobs left.
      const leaves = from !== null && from !== namespace && onLeave !== undefined;
      const mark = leaves ? await markLeaving(before) : null;
      try {
        if (leaves) await onLeave(from, fromUid);
        return await refusingTaken({ namespace }, async () => {
          // Only if the account is still bound to the namespace that was checked: somebody else may have moved it. And
          // only under the mark that the check was made under: without it, jobs may have been made since.
          const { rows } = await pool.query<Account>(
            `update accounts set namespace = $2, namespace_uid = nullif($3, ''), leaving = null
             where id = $1 and deleted_at is null and namespace is not distinct from $4
               and ($5::uuid is null or leaving = $5
                 and uuid_extract_timestamp(leaving) > now() - $6::interval)
             returning ${COLUMNS}`,
            [id, namespace, namespaceUid, from, mark, LEAVING],
          );
          if (rows[0] === undefined) throw movedMeanwhile();
          return rows[0];
        });
      } catch (error) {
        // A mark that stays counts no more after some time.
        if (mark !== null) await removeMark(id, mark).catch(() => undefined);
        throw error;
      }
    },
    async update(id, change) {
      const findings = changeFindings(change);
      if (findings.length > 0) throw new InvalidInput(findings);
      if (!isUuid(id)) throw unknownAccount(id);
      const { rows } = await pool.query<Account>(
        `update accounts set
           retention_days = case when $2 then $3::int else retention_days end,
           time_zone = coalesce($4, time_zone)
         where id = $1 and deleted_at is null returning ${COLUMNS}`,
        [
          id,
          change.retentionDays !== undefined,
          change.retentionDays ?? null,
          change.timeZone ?? null,
        ],
      );
      if (rows[0] === undefined) throw unknownAccount(id);
      return rows[0];
    },
    async delete(id, by) {
      if (!isUuid(id)) return;
      await transaction(pool, async (client) => {
        if (by !== undefined) await administratorsKept(client, id, by);
        await client.query(
          "update accounts set deleted_at = now() where id = $1 and deleted_at is null",
          [id],
        );
        // Deleted, not only refused: nobody needs the credentials of a deleted account. Sessions go with their users.
        await client.query("delete from api_keys where account = $1", [id]);
        await client.query("delete from users where account = $1", [id]);
        await onDelete?.(client, id);
      });
    },
    async allowedDestinations(id) {
      if (!isUuid(id)) return [];
      const { rows } = await pool.query<{ rule: string }>(
        "select rule from account_destinations where account = $1 order by created_at, rule",
        [id],
      );
      return rows.map((row) => row.rule);
    },
    async allow(id, rule) {
      if (!/^[0-9a-fA-F.:/[\]]{1,64}$/.test(rule))
        throw new InvalidInput([{ field: "rule", message: "must be CIDR or CIDR:port" }]);
      if (!isUuid(id)) throw unknownAccount(id);
      const { rowCount } = await pool.query(
        `insert into account_destinations (account, rule)
         select id, $2 from accounts where id = $1 and deleted_at is null
         on conflict (account, rule) do update set rule = excluded.rule`,
        [id, rule],
      );
      if (rowCount === 0) throw unknownAccount(id);
    },
    async disallow(id, rule) {
      if (!isUuid(id)) return false;
      const { rowCount } = await pool.query(
        "delete from account_destinations where account = $1 and rule = $2",
        [id, rule],
      );
      return rowCount === 1;
    },
  };
}

/** What is wrong with an account's name; that it is taken is found when the account is created. */
export function nameFindings(name: string): Finding[] {
  if (ACCOUNT_NAME.test(name)) return [];
  const message =
    'must be 1 to 64 letters, digits, spaces, ".", "_" or "-", with a letter or digit at both ends';
  return [{ field: "name", message }];
}

/**
 * HTML shows two spaces as one, and whoever deletes the account types its name. Only for new accounts: an installation
 * whose first account has such a name must go on starting.
 */
function spaceFindings(name: string): Finding[] {
  return name.includes("  ")
    ? [{ field: "name", message: "must not have two spaces in a row" }]
    : [];
}

function namespaceFindings(namespace: string | undefined, uid: string | undefined): Finding[] {
  const findings: Finding[] = [];
  if (namespace !== undefined && !isNamespaceName(namespace))
    findings.push({
      field: "namespace",
      message: "must be the name of a Kubernetes namespace",
    });
  if (uid !== undefined && (uid.length > 64 || /[^\x21-\x7e]/.test(uid)))
    findings.push({ field: "namespaceUid", message: "must be the uid of a Kubernetes namespace" });
  return findings;
}

function changeFindings(change: { retentionDays?: number | null; timeZone?: string }): Finding[] {
  const findings: Finding[] = [];
  const { retentionDays: days, timeZone } = change;
  if (
    days !== undefined &&
    days !== null &&
    !(Number.isInteger(days) && days >= 1 && days <= MAX_RETENTION_DAYS)
  )
    findings.push({
      field: "retention_days",
      message: `must be a whole number from 1 to ${MAX_RETENTION_DAYS}, or null`,
    });
  // Checked as for jobs: the dashboard's form for a new job starts with the account's time zone.
  const zone = timeZone === undefined ? undefined : findZone(timeZone);
  if (zone?.ok === false) findings.push({ field: "time_zone", message: zone.message });
  return findings;
}

/** Unique indexes decide what is taken, and not a check before the write: two creations at once cannot both win. */
async function refusingTaken<T>(
  input: { name?: string; namespace?: string | undefined },
  write: () => Promise<T>,
): Promise<T> {
  try {
    return await write();
  } catch (error) {
    const constraint = (error as { constraint?: unknown }).constraint;
    if (constraint === "accounts_live_name")
      throw new InvalidInput([
        { field: "name", message: `there is an account named ${input.name} already` },
      ]);
    if (constraint === "accounts_live_namespace")
      throw new InvalidInput([
        {
          field: "namespace",
          message: `the namespace ${input.namespace} is bound to another account`,
        },
      ]);
    throw error;
  }
}

function expectRow<T>(rows: readonly T[]): T {
  const [row] = rows;
  if (row === undefined) throw new Error("PostgreSQL returned no row for an insert");
  return row;
}

function movedMeanwhile(): InvalidInput {
  return new InvalidInput([
    {
      field: "account",
      message:
        "was bound or deleted by somebody else at the same time, or its namespace could not be looked at within a minute: try again",
    },
  ]);
}
