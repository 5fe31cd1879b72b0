import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { timers } from "../../../cmd/system.ts";
import { createCircuits, deleteStaleCircuits } from "../../../src/postgres/circuits.ts";
import {
  createIdempotencyKeys,
  deleteExpiredIdempotencyKeys,
} from "../../../src/postgres/idempotency-keys.ts";
import type { IdempotencyKeys } from "../../../src/domain/ports/idempotency-keys.ts";
import {
  DependencyUnavailable,
  LockHeld,
} from "../../../src/domain/ports/dependency-unavailable.ts";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { aroundQueries } from "../../postgres/around-queries.ts";
import { untilLockWaits } from "../../postgres/lock-waits.ts";
import { openTransaction } from "../../postgres/open-transaction.ts";
import { addressOf, startTcpProxy } from "../../network/tcp-proxy.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";
import { until } from "../../until.ts";

let database: TestDatabase;
let pool: Pool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool({ max: 20 });
  return () => database.drop();
});

function request(over: { retakeAfterMs?: number; fingerprint?: string; scope?: string } = {}) {
  return { account: randomUUID(), scope: "POST /send", key: "k", fingerprint: "f1", ...over };
}

/** Begins one that must be fresh; resolves with its token. */
async function fresh(keys: IdempotencyKeys, asked: ReturnType<typeof request>): Promise<string> {
  const begun = await keys.begin(asked);
  if (begun.kind !== "fresh") throw new Error(begun.kind);
  return begun.token;
}

/** Fails the test: where nothing is refused there is nothing to report. */
function report(error: unknown): void {
  throw error;
}

async function elapse(account: string, interval: string): Promise<void> {
  await pool.query(
    "update idempotency_keys set started_at = started_at - $2::interval where account = $1",
    [account, interval],
  );
}

describe("idempotency keys", () => {
  test("of twenty that begin at once, one is fresh", async () => {
    const keys = createIdempotencyKeys({ pool, timers, report });
    const asked = request();
    const results = await Promise.all(Array.from({ length: 20 }, () => keys.begin(asked)));
    expect(results.filter((r) => r.kind === "fresh")).toHaveLength(1);
    expect(results.filter((r) => r.kind === "in_flight")).toHaveLength(19);
  });

  test("a completed one is replayed for 24 hours, and only for the same body", async () => {
    const keys = createIdempotencyKeys({ pool, timers, report });
    const asked = request();
    const token = await fresh(keys, asked);
    await keys.complete(token, { status: 200, body: '{"id":"1"}' });
    await keys.abandon(token);
    const replay = { kind: "replay", status: 200, body: '{"id":"1"}' };
    expect(await keys.begin(asked)).toEqual(replay);
    expect(await keys.begin({ ...asked, fingerprint: "f2" })).toEqual({ kind: "mismatch" });
    expect((await keys.begin({ ...asked, scope: "POST /jobs" })).kind).toBe("fresh");
    expect((await keys.begin({ ...asked, account: randomUUID() })).kind).toBe("fresh");
    await elapse(asked.account, "23 hours 59 minutes");
    expect(await keys.begin(asked)).toEqual(replay);
    expect(await keys.begin({ ...asked, retakeAfterMs: 60_000 })).toEqual(replay);
    await elapse(asked.account, "1 minute");
    const next = { ...asked, fingerprint: "f2" };
    const tokenAnew = await fresh(keys, next);
    expect((await keys.begin(next)).kind).toBe("in_flight");
    expect(await keys.begin(asked)).toEqual({ kind: "mismatch" });
    await keys.complete(tokenAnew, { status: 201, body: '{"id":"2"}' });
    expect(await keys.begin(next)).toEqual({ kind: "replay", status: 201, body: '{"id":"2"}' });
  });

  test("an abandoned one is free again", async () => {
    const keys = createIdempotencyKeys({ pool, timers, report });
    const asked = request();
    const token = await fresh(keys, asked);
    expect(await keys.begin({ ...asked, fingerprint: "f2" })).toEqual({ kind: "mismatch" });
    await keys.abandon(token);
    expect((await keys.begin({ ...asked, fingerprint: "f2" })).kind).toBe("fresh");
  });

  test("left in flight by a crash: it says for how long, and is taken over only on request", async () => {
    const keys = createIdempotencyKeys({ pool, timers, report });
    const asked = request();
    const crashed = await fresh(keys, asked);
    await elapse(asked.account, "61 seconds");
    const held = await keys.begin(asked);
    if (held.kind !== "in_flight") throw new Error(held.kind);
    expect(held.forMs).toBeGreaterThanOrEqual(61_000);
    expect(await keys.begin({ ...asked, retakeAfterMs: 60_000, fingerprint: "f2" })).toEqual({
      kind: "mismatch",
    });
    const retakes = await Promise.all(
      Array.from({ length: 10 }, () => keys.begin({ ...asked, retakeAfterMs: 60_000 })),
    );
    expect(retakes.filter((r) => r.kind === "fresh")).toHaveLength(1);
    // The request that was thought dead goes on: it must neither answer for the other nor free its key.
    await keys.complete(crashed, { status: 200, body: "late" });
    await keys.abandon(crashed);
    expect((await keys.begin(asked)).kind).toBe("in_flight");
  });

  describe("after an outage", () => {
    /** `lost`: PostgreSQL does what it is asked, but the answer does not arrive. */
    let outage: "none" | "away" | "lost" = "none";
    const around: Parameters<typeof aroundQueries>[1] = async (ask) => {
      if (outage === "away") throw new DependencyUnavailable("postgres");
      const result = await ask();
      if (outage === "lost") throw new DependencyUnavailable("postgres");
      return result;
    };
    const flaky = (reported = report) =>
      createIdempotencyKeys({ pool: aroundQueries(pool, around), timers, report: reported });

    test.each(["away", "lost"] as const)("one is free that was abandoned (%s)", async (how) => {
      const [keys, asked] = [flaky(), request()];
      const token = await fresh(keys, asked);
      outage = how;
      await expect(keys.abandon(token)).rejects.toThrow(DependencyUnavailable);
      outage = "none";
      await until("free", async () => (await keys.begin(asked)).kind === "fresh");
    });

    test("one is free whose beginning got no answer", async () => {
      const [keys, asked] = [flaky(), request()];
      outage = "lost";
      await expect(keys.begin(asked)).rejects.toThrow(DependencyUnavailable);
      outage = "none";
      expect(await keys.begin(asked)).toMatchObject({ kind: "in_flight" });
      await until("free", async () => (await keys.begin(asked)).kind === "fresh");
    });

    test("one is free whose beginning PostgreSQL comes to only when nobody waits for it any more", async () => {
      const proxy = await startTcpProxy({ target: () => addressOf(database.url) });
      const url = new URL(database.url);
      url.port = String(proxy.port);
      const behind = createPool({ url: url.href, applicationName: "idempotency test behind" });
      const keys = createIdempotencyKeys({
        pool: behind,
        timers: { after: (ms, callback) => timers.after(ms / 5, callback) },
        report,
      });
      const asked = request();
      const { account, scope, key, fingerprint } = asked;
      const holder = await openTransaction(
        pool,
        "insert into idempotency_keys (account, scope, key, token, fingerprint) values ($1, $2, $3, $4, $5)",
        [account, scope, key, randomUUID(), fingerprint],
      );
      const beginning = keys.begin(asked);
      beginning.catch(() => undefined);
      await untilLockWaits(pool);
      proxy.cut();
      await expect(beginning).rejects.toThrow(DependencyUnavailable);
      // By then the key has been freed for the first time, when there was nothing to free yet.
      await delay(500);
      await holder.rollback();
      const other = createIdempotencyKeys({ pool, timers, report });
      await until("it has begun", async () => {
        const { rowCount } = await pool.query("select 1 from idempotency_keys where account = $1", [
          account,
        ]);
        return rowCount === 1;
      });
      await until("free", async () => (await other.begin(asked)).kind === "fresh");
      await behind.end();
      await proxy.close();
    });

    test("one is free that was abandoned while another's answer was being kept", async () => {
      const lets = Promise.withResolvers<void>();
      let kept = 0;
      let freed = 0;
      const keys = createIdempotencyKeys({
        pool: aroundQueries(pool, async (ask, [text]) => {
          const verb = String(text).split(" ")[0];
          if (verb === "update" && (kept += 1) === 1) throw new LockHeld("postgres");
          if (verb === "update") await lets.promise;
          if (verb === "delete" && (freed += 1) === 1) throw new LockHeld("postgres");
          return ask();
        }),
        timers,
        report,
      });
      const [answered, refused] = [request(), request()];
      const first = await fresh(keys, answered);
      const second = await fresh(keys, refused);
      const done = keys.complete(first, { status: 200, body: "{}" });
      await expect(done).rejects.toThrow(LockHeld);
      await until("it is being kept", () => kept === 2);
      await expect(keys.abandon(second)).rejects.toThrow(LockHeld);
      lets.resolve();
      await keys.written();
      expect((await keys.begin(answered)).kind).toBe("replay");
      expect((await keys.begin(refused)).kind).toBe("fresh");
    });

    test("one is free that was abandoned while another was being freed", async () => {
      const lets = Promise.withResolvers<void>();
      let tries = 0;
      const keys = createIdempotencyKeys({
        pool: aroundQueries(pool, async (ask, [text]) => {
          if (String(text).startsWith("delete")) {
            tries += 1;
            if (tries === 1 || tries === 3) throw new LockHeld("postgres");
            if (tries === 2) await lets.promise;
          }
          return ask();
        }),
        timers,
        report,
      });
      const asked = [request(), request()] as const;
      const first = await fresh(keys, asked[0]);
      const second = await fresh(keys, asked[1]);
      await expect(keys.abandon(first)).rejects.toThrow(LockHeld);
      await until("it is being freed", () => tries === 2);
      await expect(keys.abandon(second)).rejects.toThrow(LockHeld);
      lets.resolve();
      await keys.written();
      for (const each of asked) expect((await keys.begin(each)).kind).toBe("fresh");
    });

    test("an answer that PostgreSQL refuses is reported once, and others are kept", async () => {
      const reported: unknown[] = [];
      const keys = flaky((error) => reported.push(error));
      const asked = [request(), request(), request()];
      const tokens = await Promise.all(asked.map((each) => fresh(keys, each)));
      outage = "away";
      for (const [index, token] of tokens.entries()) {
        // PostgreSQL has no text with this character.
        const done = keys.complete(token, { status: 200, body: index === 1 ? "\0" : "{}" });
        await expect(done).rejects.toThrow(DependencyUnavailable);
      }
      outage = "none";
      await keys.written();
      const now = await Promise.all(asked.map((each) => keys.begin(each)));
      expect(now.map(({ kind }) => kind)).toEqual(["replay", "in_flight", "replay"]);
      expect(reported.map(String)).toEqual([expect.stringContaining("invalid byte sequence")]);
    });

    test("one is replayed that was completed, however long it took", async () => {
      const [keys, asked] = [flaky(), request()];
      const token = await fresh(keys, asked);
      outage = "away";
      const done = keys.complete(token, { status: 200, body: "{}" });
      await expect(done).rejects.toThrow(DependencyUnavailable);
      await delay(1_200);
      outage = "none";
      await until("replayed", async () => (await keys.begin(asked)).kind === "replay");
    });
  });

  test("expired ones are swept", async () => {
    const keys = createIdempotencyKeys({ pool, timers, report });
    const asked = request();
    await keys.begin(asked);
    await elapse(asked.account, "23 hours 59 minutes");
    await deleteExpiredIdempotencyKeys({ pool });
    expect((await keys.begin(asked)).kind).toBe("in_flight");
    await elapse(asked.account, "1 minute");
    expect(await deleteExpiredIdempotencyKeys({ pool })).toBeGreaterThanOrEqual(1);
  });
});

describe("published circuits", () => {
  test("are listed for each process until closed, forgotten or stale", async () => {
    const circuits = createCircuits({ pool });
    const account = randomUUID();
    const at = { account, destination: "https://a.example" };
    await circuits.publish({ ...at, worker: "w1", state: "open" });
    await circuits.publish({ ...at, worker: "w2", state: "open" });
    await circuits.publish({ ...at, worker: "w2", state: "half_open" });
    const listed = await circuits.list(account);
    expect(listed.map(({ worker, state }) => ({ worker, state }))).toEqual([
      { worker: "w1", state: "open" },
      { worker: "w2", state: "half_open" },
    ]);
    await circuits.publish({ ...at, worker: "w1", state: "open" });
    expect((await circuits.list(account))[0]?.since).toBe(listed[0]?.since);
    await circuits.publish({ ...at, worker: "w1", state: "closed" });
    expect((await circuits.list(account)).map((c) => c.worker)).toEqual(["w2"]);
    await circuits.forget("w2");
    expect(await circuits.list(account)).toEqual([]);
    await circuits.publish({ ...at, worker: "w3", state: "open" });
    await pool.query(
      "update circuits set updated_at = now() - interval '1 hour' where account = $1",
      [account],
    );
    expect(await circuits.list(account)).toEqual([]);
    expect(await deleteStaleCircuits({ pool })).toBeGreaterThanOrEqual(1);
  });
});
