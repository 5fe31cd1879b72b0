import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { DAY } from "../../../src/domain/instant.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import type { EmailLog } from "../../../src/domain/ports/mail.ts";
import {
  deleteMonthsCounts,
  deleteOldEmailLog,
} from "../../../src/postgres/email-log-retention.ts";
import { createEmailLog } from "../../../src/postgres/email-log.ts";
import { dropMonthsBefore } from "../../../src/postgres/partitions.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { aroundQueries } from "../../postgres/around-queries.ts";
import { statementsThatWaitForALock, untilLockWaits } from "../../postgres/lock-waits.ts";
import { openTransaction } from "../../postgres/open-transaction.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

let database: TestDatabase;
let pool: Pool;
/** A pool that does not wait for locks. */
let impatient: Pool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool();
  impatient = database.pool({ lockTimeoutMs: 50 });
  return () => database.drop();
});

/** The tables of the months, oldest first. */
async function months(): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'email_log'::regclass order by 1",
  );
  return rows.map(({ name }) => name);
}

/** Without autovacuum, which releases a table only after a second: dropping waits for little more. */
async function dropBefore(before: number): Promise<void> {
  for (const month of await months())
    await pool.query(`alter table ${month} set (autovacuum_enabled = off)`);
  const { signal } = new AbortController();
  await dropMonthsBefore({ pool, table: "email_log", before, signal, along: deleteMonthsCounts });
}

type Entry = Parameters<EmailLog["append"]>[0];

function entry(account: string, over: Partial<Entry> = {}): Entry {
  return {
    account,
    kind: "email",
    to: "ann@example.com",
    subject: "Hello",
    status: "sent",
    errorMessage: null,
    ...over,
  };
}

const holding = (account: string) =>
  openTransaction(pool, "select from email_log_counts where account = $1 for update", [account]);

/**
 * `others` sorts first: a writer of both locks the counters of `others`, and then waits for the held ones of `mine`.
 */
async function heldAndOthers(log: EmailLog) {
  const [others = "", mine = ""] = [randomUUID(), randomUUID()].sort();
  await Promise.all([log.append(entry(mine)), log.append(entry(others))]);
  const holder = await holding(mine);
  return { others, mine, release: holder.commit };
}

/** Inserts entries of past months with their counters, as if they had been appended then. */
async function seedPast(account: string, daysAgo: readonly number[]): Promise<void> {
  for (const days of daysAgo) {
    // One moment for both: otherwise an entry and its counter could be of different days.
    const at = new Date(Date.now() - days * DAY);
    await pool.query("select email_log_ensure_month($1)", [at]);
    await pool.query(
      `insert into email_log (id, account, kind, recipient, subject, status, sent_at)
       values (uuidv7(), $1, 'email', 'ann@example.com', $2, 'sent', $3)`,
      [account, `${days} days ago`, at],
    );
    await pool.query(
      `insert into email_log_counts as c values
         ($1, ($2::timestamptz at time zone 'UTC')::date, 'email', 'sent', 1)
       on conflict (account, day, kind, status) do update set entries = c.entries + 1`,
      [account, at],
    );
  }
}

describe("the email log", () => {
  test("gives back what was appended, newest first, with exact totals under every filter", async () => {
    const log = createEmailLog({ pool });
    const account = randomUUID();
    const other = randomUUID();
    const appended = [];
    for (const [index, kind] of (
      ["email", "otp", "job", "email", "otp", "email"] as const
    ).entries())
      appended.push(
        await log.append(
          entry(account, {
            kind,
            to: index % 2 ? "Bob@example.com" : "ann@example.com",
            subject: `mail ${index}`,
            ...(index >= 4 ? { status: "failed", errorMessage: "550 no such user" } : {}),
          }),
        ),
      );
    await log.append(entry(other));
    const newest = appended.toReversed();
    expect(await log.list({ account, limit: 10, offset: 0 })).toEqual({ logs: newest, total: 6 });
    expect(await log.list({ account, limit: 2, offset: 3 })).toEqual({
      logs: newest.slice(3, 5),
      total: 6,
    });
    const filters = [
      { status: "sent" },
      { status: "failed" },
      { kind: "email" },
      { kind: "otp" },
      { kind: "job", status: "failed" },
      { kind: "email", status: "sent" },
      { to: "bob@EXAMPLE.com" },
      { to: "ann@example.com", status: "sent" },
      { to: "ann@example.com", kind: "otp" },
      { to: "nobody@example.com" },
    ] as const;
    for (const filter of filters) {
      const wanted = newest.filter((e) =>
        Object.entries(filter).every(
          ([field, value]) =>
            e[field as "to" | "kind" | "status"].toLowerCase() === value.toLowerCase(),
        ),
      );
      expect(await log.list({ account, limit: 10, offset: 0, ...filter })).toEqual({
        logs: wanted,
        total: wanted.length,
      });
      expect(await log.list({ account, limit: 1, offset: 1, ...filter })).toEqual({
        logs: wanted.slice(1, 2),
        total: wanted.length,
      });
    }
    expect(await log.list({ account, limit: 5, offset: 6 })).toEqual({ logs: [], total: 6 });
    expect(await log.list({ account: randomUUID(), limit: 5, offset: 0 })).toEqual({
      logs: [],
      total: 0,
    });
  });

  test("appends at once from two processes: every one there, none counted twice", async () => {
    const logs = [createEmailLog({ pool }), createEmailLog({ pool })];
    const accounts = [randomUUID(), randomUUID()];
    const ids = await Promise.all(
      Array.from({ length: 2_000 }, async (_, index) => {
        const log = logs[index % 2] as EmailLog;
        const account = accounts[(index >> 1) % 2] as string;
        return (await log.append(entry(account, { subject: String(index) }))).id;
      }),
    );
    expect(new Set(ids).size).toBe(2_000);
    for (const account of accounts) {
      const seen: string[] = [];
      for (let offset = 0; offset < 1_000; offset += 100) {
        const page = await (logs[0] as EmailLog).list({ account, limit: 100, offset });
        expect(page.total).toBe(1_000);
        seen.push(...page.logs.map((e) => e.id));
      }
      expect(new Set(seen).size).toBe(1_000);
    }
  });

  test("an entry that is told again, since its answer was lost, is one, of the moment when it was sent", async () => {
    const log = createEmailLog({ pool });
    const account = randomUUID();
    const known = { id: randomUUID(), sentAt: Date.now() - 45 * DAY };
    const told = entry(account, { kind: "job", known });
    // The month has no partition. The second time another entry is appended together with it.
    expect(await log.append(told)).toMatchObject(known);
    const [again, other] = await Promise.all([log.append(told), log.append(entry(account))]);
    expect(again).toMatchObject(known);
    const { logs, total } = await log.list({ account, limit: 9, offset: 0 });
    expect(total).toBe(2);
    expect(logs.map(({ id }) => id)).toEqual([other.id, known.id]);
    // It is found by its day, so the counters are right.
    expect((await log.list({ account, limit: 1, offset: 1 })).logs).toMatchObject([known]);
  });

  test("an entry that PostgreSQL refuses fails alone", async () => {
    const log = createEmailLog({ pool });
    const account = randomUUID();
    const results = await Promise.allSettled([
      log.append(entry(account)),
      log.append(entry(account, { subject: "nul \0" })),
      log.append(entry(account)),
    ]);
    expect(results.map((r) => r.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect((await log.list({ account, limit: 1, offset: 0 })).total).toBe(2);
  });

  test("pages run through days and months, also past whole days that the counters skip", async () => {
    const log = createEmailLog({ pool });
    const account = randomUUID();
    const days = [70, 40, 40, 40, 12, 11, 11, 0];
    await seedPast(account, days);
    const newest = days.toReversed();
    for (let offset = 0; offset <= days.length; offset += 1) {
      const page = await log.list({ account, limit: 3, offset });
      expect(page.total).toBe(days.length);
      expect(page.logs.map((e) => e.subject)).toEqual(
        newest.slice(offset, offset + 3).map((d) => `${d} days ago`),
      );
    }
  });

  test("the first mail of a month without a partition makes it", async () => {
    const log = createEmailLog({ pool });
    const account = randomUUID();
    await dropBefore(Date.now() + 120 * DAY);
    expect(await months()).toEqual([]);
    await Promise.all([
      log.append(entry(account)),
      createEmailLog({ pool }).append(entry(account)),
    ]);
    expect((await log.list({ account, limit: 9, offset: 0 })).total).toBe(2);
  });

  test("a lock on an account's counters is waited for by nobody else twice, and no entry is lost by it", async () => {
    const [mine, others] = [randomUUID(), randomUUID()];
    const log = createEmailLog({ pool: database.pool({ lockTimeoutMs: 3_000 }) });
    await Promise.all([log.append(entry(mine)), log.append(entry(others))]);
    const holder = await holding(mine);

    // Both are in the same group.
    const [refused, written] = await Promise.allSettled([
      log.append(entry(mine)),
      log.append(entry(others)),
    ]);
    expect([refused?.status, written?.status]).toEqual(["rejected", "fulfilled"]);
    const waits = log.append(entry(mine));
    await untilLockWaits(pool);
    for (let n = 0; n < 3; n += 1) await log.append(entry(others));
    expect(await statementsThatWaitForALock(pool)).toBe(1);
    await holder.commit();
    await waits;
    await Promise.all([log.append(entry(mine)), log.append(entry(others))]);

    const totals = [mine, others].map(
      async (account) => (await log.list({ account, limit: 9, offset: 0 })).total,
    );
    expect(await Promise.all(totals)).toEqual([3, 6]);
  });

  test("a lock on an account's counters fails no others' entries where another process's group waits for it with theirs in hand", async () => {
    const pools = [1, 2].map(() => database.pool({ lockTimeoutMs: 1_000 }));
    const { others, mine, release } = await heldAndOthers(createEmailLog({ pool }));
    const appends = pools.map(async (each) => {
      const log = createEmailLog({ pool: each });
      const results = await Promise.allSettled([
        log.append(entry(mine)),
        log.append(entry(others)),
      ]);
      return results.map(({ status }) => status);
    });
    expect(await Promise.all(appends)).toEqual([
      ["rejected", "fulfilled"],
      ["rejected", "fulfilled"],
    ]);
    await release();
  });

  test("a lock on an account's counters fails no others' entries where another process is just writing theirs", async () => {
    const { others, mine, release } = await heldAndOthers(createEmailLog({ pool }));
    const writer = await pool.connect();
    let begun = false;
    const watched = aroundQueries(database.pool({ lockTimeoutMs: 300 }), async (ask, [text]) => {
      // Between the first look and the second.
      if (text === "select pg_sleep(0.05)") await writer.query("commit");
      try {
        return await ask();
      } finally {
        // By now the group has failed.
        if (!begun) {
          begun = true;
          await writer.query("begin");
          const text = "update email_log_counts set entries = entries where account = $1";
          await writer.query(text, [others]);
        }
      }
    });
    const log = createEmailLog({ pool: watched });
    const results = await Promise.allSettled([log.append(entry(mine)), log.append(entry(others))]);
    expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    writer.release();
    await release();
  });

  test("it is not ready while somebody holds a lock that keeps its entries out", async () => {
    const account = randomUUID();
    const log = createEmailLog({ pool: impatient });
    await createEmailLog({ pool }).append(entry(account));
    const [month] = await months();
    // The lock of CREATE INDEX.
    const lock = `lock table ${month} in share mode`;
    const holder = await openTransaction(pool, lock);
    const meanwhile = await log.ready(account).catch((error: unknown) => error);
    await holder.rollback();
    expect(meanwhile).toBeInstanceOf(DependencyUnavailable);
    await log.ready(account);
    const { rows } = await pool.query("select entries from email_log_counts where account = $1", [
      account,
    ]);
    expect(rows).toEqual([{ entries: 1 }]);
  });

  test("a dropped month takes its counters along", async () => {
    const log = createEmailLog({ pool });
    const account = randomUUID();
    await seedPast(account, [400, 400, 0]);
    await dropBefore(Date.now() - 300 * DAY);
    const page = await log.list({ account, limit: 9, offset: 0 });
    expect(page.total).toBe(1);
    expect(page.logs.map((e) => e.subject)).toEqual(["0 days ago"]);
  });

  test("an account may keep less: old entries go in batches and the totals with them", async () => {
    const log = createEmailLog({ pool });
    const account = randomUUID();
    await seedPast(account, [50, 45, 31, 29, 0]);
    expect(await deleteOldEmailLog({ pool, account, days: 30, limit: 2 })).toBe(2);
    expect((await log.list({ account, limit: 9, offset: 0 })).total).toBe(3);
    expect(await deleteOldEmailLog({ pool, account, days: 30, limit: 2 })).toBe(1);
    const page = await log.list({ account, limit: 9, offset: 0 });
    expect(page.total).toBe(2);
    expect(page.logs.map((e) => e.subject)).toEqual(["0 days ago", "29 days ago"]);
  });

  test("of a day of which some go, each total loses its own, and older ones of others are in nobody's way", async () => {
    const log = createEmailLog({ pool });
    const [account, other] = [randomUUID(), randomUUID()];
    await seedPast(other, [60, 60]);
    const noon = (Math.floor(Date.now() / DAY) - 45) * DAY + DAY / 2;
    const mails = [{}, {}, { status: "failed" }, { kind: "otp" }] as const;
    for (const [index, mail] of mails.entries())
      await log.append(
        entry(account, { ...mail, known: { id: randomUUID(), sentAt: noon + index } }),
      );
    expect(await deleteOldEmailLog({ pool, account, days: 30, limit: 2 })).toBe(2);
    const filters = [{}, { status: "sent" }, { status: "failed" }, { kind: "email" }] as const;
    const totals = filters.map(
      async (filter) => (await log.list({ account, limit: 9, offset: 0, ...filter })).total,
    );
    expect(await Promise.all(totals)).toEqual([2, 1, 1, 1]);
    expect((await log.list({ account: other, limit: 9, offset: 0 })).total).toBe(2);
  });
});
