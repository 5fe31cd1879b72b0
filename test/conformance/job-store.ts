import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Job, JobSpec, Target } from "../../src/domain/job.ts";
import {
  JobExists,
  JobNotFound,
  PositionExpired,
  VersionConflict,
  type JobEvent,
  type JobStore,
} from "../../src/domain/ports/job-store.ts";

export interface StoreUnderTest {
  store: JobStore;
  /** Two accounts without jobs. */
  accounts: readonly [string, string];
  /** Makes the store forget all changes so far. Resolves when `position` has expired. */
  expire(position: string): Promise<void>;
  /** How a spec comes back, if not as it was given: Kubernetes keeps a payload's JSON value, not its text. */
  stored?(spec: JobSpec): JobSpec;
  close(): Promise<void>;
}

export function cronSpec(change: Partial<JobSpec> = {}): JobSpec {
  return {
    name: "Nightly report",
    schedule: { kind: "cron", expression: "0 3 * * *", timeZone: "Europe/Paris" },
    target: {
      kind: "webhook",
      url: "https://example.com/hook?a=1",
      payload: '{"b":1,"a":[1,2,{"ü":"✓"}]}',
      headers: { "x-one": "1" },
      headersFrom: [],
      timeoutSeconds: 30,
    },
    suspend: false,
    startingDeadlineSeconds: null,
    deliveryDeadlineSeconds: 3600,
    concurrencyPolicy: "Allow",
    retry: { maxRetries: 0, minBackoffSeconds: 5, maxBackoffSeconds: 3600 },
    ...change,
  };
}

export function onceSpec(at: number, change: Partial<JobSpec> = {}): JobSpec {
  return cronSpec({
    schedule: { kind: "once", at },
    target: { kind: "email", to: "a@example.com", subject: "S", body: "B", isHtml: true },
    ...change,
  });
}

const seen = (id: string) => (event: JobEvent) => event.type === "changed" && event.job.id === id;

/** The contract of the JobStore port. Every store passes the same tests. */
export function jobStoreConformance(name: string, makeStore: () => Promise<StoreUnderTest>): void {
  describe(`JobStore: ${name}`, () => {
    let under: StoreUnderTest;
    let store: JobStore;
    let account: string;
    let other: string;
    let serial = 0;
    const nextId = () => `job-${String((serial += 1)).padStart(4, "0")}`;

    beforeAll(async () => {
      under = await makeStore();
      store = under.store;
      [account, other] = under.accounts;
    });
    afterAll(async () => {
      await under?.close();
    });

    describe("create and get", () => {
      const specs: { title: string; spec: JobSpec }[] = [
        { title: "a cron webhook", spec: cronSpec() },
        { title: "a one-time email", spec: onceSpec(Date.UTC(2035, 0, 31, 12, 30)) },
        {
          title: "every policy away from its default",
          spec: cronSpec({
            suspend: true,
            startingDeadlineSeconds: 90,
            deliveryDeadlineSeconds: 60,
            concurrencyPolicy: "Replace",
            retry: { maxRetries: 10, minBackoffSeconds: 1, maxBackoffSeconds: 2 },
          }),
        },
      ];
      for (const { title, spec } of specs)
        test(`${title} comes back as it went in`, async () => {
          const id = nextId();
          const created = await store.create({ account, id, spec });
          expect(created).toMatchObject({
            id,
            account,
            generation: 1,
            owner: null,
            runNow: null,
            spec: under.stored?.(spec) ?? spec,
          });
          expect(created.uid).not.toBe("");
          expect(await store.get(account, id)).toEqual(created);
        });

      test("names that mean something to JavaScript are names like any other", async () => {
        const id = nextId();
        const payload = '{"__proto__":{"__proto__":1},"constructor":2}';
        const headers = { ["__proto__"]: "a", constructor: "b" };
        const spec = cronSpec({ target: { ...cronSpec().target, payload, headers } as Target });
        await store.create({ account, id, spec });
        const target = (await store.get(account, id))?.spec.target;
        const sent = target?.kind === "webhook" && [target.payload, JSON.stringify(target.headers)];
        expect(sent).toEqual([payload, '{"__proto__":"a","constructor":"b"}']);
      });

      test("an id is taken within its account, and only there", async () => {
        const id = nextId();
        const first = await store.create({ account, id, spec: cronSpec() });
        await expect(store.create({ account, id, spec: cronSpec() })).rejects.toThrow(JobExists);
        const second = await store.create({ account: other, id, spec: cronSpec() });
        expect(second.uid).not.toBe(first.uid);
        expect((await store.get(account, id))?.uid).toBe(first.uid);
      });

      test("an unknown id and another account's are undefined", async () => {
        const id = nextId();
        await store.create({ account, id, spec: cronSpec() });
        expect(await store.get(account, "job-unknown")).toBeUndefined();
        expect(await store.get(other, id)).toBeUndefined();
      });
    });

    describe("update", () => {
      test("raises the generation and changes the version", async () => {
        const job = await store.create({ account, id: nextId(), spec: cronSpec() });
        const updated = await store.update(job, cronSpec({ name: "Renamed" }));
        expect(updated).toMatchObject({ uid: job.uid, generation: 2, createdAt: job.createdAt });
        expect(updated.version).not.toBe(job.version);
        expect(updated.spec.name).toBe("Renamed");
        expect(await store.get(account, job.id)).toEqual(updated);
      });

      test("an equal spec is no change", async () => {
        const job = await store.create({ account, id: nextId(), spec: cronSpec() });
        expect(await store.update(job, cronSpec())).toEqual(job);
      });

      test("a job that changed since it was read is a conflict", async () => {
        const job = await store.create({ account, id: nextId(), spec: cronSpec() });
        await store.update(job, cronSpec({ name: "Second" }));
        await expect(store.update(job, cronSpec({ name: "Third" }))).rejects.toThrow(
          VersionConflict,
        );
        expect((await store.get(account, job.id))?.spec.name).toBe("Second");
      });

      test("of ten writers at once one wins", async () => {
        const job = await store.create({ account, id: nextId(), spec: cronSpec() });
        const results = await Promise.allSettled(
          Array.from({ length: 10 }, (_, i) =>
            store.update(job, cronSpec({ name: `Writer ${i}` })),
          ),
        );
        const won = results.filter((result) => result.status === "fulfilled");
        const lost = results.filter((result) => result.status === "rejected");
        expect(won).toHaveLength(1);
        for (const { reason } of lost) expect(reason).toBeInstanceOf(VersionConflict);
        expect((await store.get(account, job.id))?.generation).toBe(2);
      });

      test("a deleted job, and its successor of the same id, are not it", async () => {
        const job = await store.create({ account, id: nextId(), spec: cronSpec() });
        await store.delete(job);
        await expect(store.update(job, cronSpec({ name: "Late" }))).rejects.toThrow(JobNotFound);
        await store.create({ account, id: job.id, spec: cronSpec() });
        await expect(store.update(job, cronSpec({ name: "Late" }))).rejects.toThrow(JobNotFound);
      });
    });

    describe("delete", () => {
      test("removes it, frees the id, and happens once", async () => {
        const job = await store.create({ account, id: nextId(), spec: cronSpec() });
        await store.delete(job);
        expect(await store.get(account, job.id)).toBeUndefined();
        await expect(store.delete(job)).rejects.toThrow(JobNotFound);
        const again = await store.create({ account, id: job.id, spec: cronSpec() });
        expect(again.uid).not.toBe(job.uid);
        expect(again.generation).toBe(1);
      });

      test("spares a successor of the same id", async () => {
        const job = await store.create({ account, id: nextId(), spec: cronSpec() });
        await store.delete(job);
        const again = await store.create({ account, id: job.id, spec: cronSpec() });
        await expect(store.delete(job)).rejects.toThrow(JobNotFound);
        expect((await store.get(account, job.id))?.uid).toBe(again.uid);
      });
    });

    describe("deleteUnchanged", () => {
      test("deletes what is as it was read, once", async () => {
        const job = await store.create({ account, id: nextId(), spec: cronSpec() });
        expect(await store.deleteUnchanged(job)).toBe(true);
        expect(await store.get(account, job.id)).toBeUndefined();
        expect(await store.deleteUnchanged(job)).toBe(false);
      });

      test("spares what has changed, and a successor of the same id", async () => {
        const job = await store.create({ account, id: nextId(), spec: cronSpec() });
        const updated = await store.update(job, cronSpec({ name: "Renamed" }));
        expect(await store.deleteUnchanged(job)).toBe(false);
        expect(await store.get(account, job.id)).toEqual(updated);
        await store.delete(updated);
        const again = await store.create({ account, id: job.id, spec: cronSpec() });
        expect(await store.deleteUnchanged(job)).toBe(false);
        expect((await store.get(account, job.id))?.uid).toBe(again.uid);
      });

      test("a watch tells of it", async () => {
        const job = await store.create({ account, id: nextId(), spec: cronSpec() });
        const { position } = await store.list({ account, limit: 1_000 });
        const end = new AbortController();
        await store.deleteUnchanged(job);
        const deleted: string[] = [];
        for await (const event of store.watch(position, end.signal)) {
          if (event.type === "deleted") deleted.push(event.uid);
          if (deleted.includes(job.uid)) break;
        }
        end.abort();
        expect(deleted).toContain(job.uid);
      });
    });

    describe("list", () => {
      test("pages give every job once, oldest first, of the account only", async () => {
        const created: Job[] = [];
        for (let i = 0; i < 7; i += 1)
          created.push(await store.create({ account, id: nextId(), spec: cronSpec() }));
        for (const limit of [1, 2, 3, 1000]) {
          const jobs = await all(store, { account, limit });
          expect(new Set(jobs.map((job) => job.uid)).size).toBe(jobs.length);
          expect(jobs.every((job) => job.account === account)).toBe(true);
          const ordered = jobs.toSorted(
            (a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1),
          );
          expect(jobs).toEqual(ordered);
          const uids = new Set(jobs.map((job) => job.uid));
          for (const job of created) expect(uids.has(job.uid)).toBe(true);
        }
      });

      test("an account's are without payload and body, everybody's have them", async () => {
        const specs = [cronSpec(), onceSpec(Date.UTC(2030, 0, 1))];
        const uids = new Set<string>();
        for (const spec of specs)
          uids.add((await store.create({ account, id: nextId(), spec })).uid);
        const sent = async (options: { account?: string }) =>
          (await all(store, { ...options, limit: 1000 }))
            .filter(({ uid }) => uids.has(uid))
            .map(({ spec: { target } }) =>
              target.kind === "webhook" ? target.payload : target.body,
            );
        expect(await sent({ account })).toEqual(["", ""]);
        expect((await sent({})).map(({ length }) => length > 0)).toEqual([true, true]);
      });

      test("without an account it is everybody's", async () => {
        const mine = await store.create({ account, id: nextId(), spec: cronSpec() });
        const theirs = await store.create({ account: other, id: nextId(), spec: cronSpec() });
        const uids = new Set((await all(store, { limit: 5 })).map((job) => job.uid));
        expect(uids.has(mine.uid)).toBe(true);
        expect(uids.has(theirs.uid)).toBe(true);
      });

      test("a job deleted between two pages is not on the second", async () => {
        await store.create({ account, id: nextId(), spec: cronSpec() });
        const victim = await store.create({ account, id: nextId(), spec: cronSpec() });
        const total = (await all(store, { account, limit: 1000 })).length;
        const first = await store.list({ account, limit: total - 1 });
        await store.delete(victim);
        const second = await store.list({
          account,
          limit: 1000,
          continue: first.continue,
        });
        // Kubernetes pages through one consistent snapshot: there the watch reports the deletion.
        const told =
          !second.jobs.some((one) => one.uid === victim.uid) ||
          (await collect(first.position, (e) => e.type === "deleted" && e.uid === victim.uid))
            .length > 0;
        expect(told).toBe(true);
      });
    });

    /** Watches until `done`, 15 s at most. */
    async function collect(
      position: string,
      done: (event: JobEvent, all: readonly JobEvent[]) => boolean,
      act?: () => Promise<void>,
    ): Promise<JobEvent[]> {
      const end = new AbortController();
      const limit = setTimeout(() => end.abort(), 15_000);
      const events: JobEvent[] = [];
      try {
        const acting = act?.();
        for await (const event of store.watch(position, end.signal)) {
          events.push(event);
          if (done(event, events)) {
            await acting;
            return events;
          }
        }
        throw new Error(`the watch ended too early, after ${JSON.stringify(events)}`);
      } finally {
        clearTimeout(limit);
        end.abort();
      }
    }

    describe("watch", () => {
      test("tells of creation, change and deletion in order", async () => {
        const { position } = await store.list({ limit: 1 });
        const id = nextId();
        let job: Job | undefined;
        const events = await collect(
          position,
          (event) => event.type === "deleted" && event.uid === job?.uid,
          async () => {
            job = await store.create({ account, id, spec: cronSpec() });
            job = await store.update(job, cronSpec({ name: "Changed" }));
            await store.delete(job);
          },
        );
        const mine = events.filter(
          (event) =>
            (event.type === "changed" && event.job.id === id) ||
            (event.type === "deleted" && event.uid === job?.uid),
        );
        const last = mine.at(-1);
        expect(last).toMatchObject({ type: "deleted", uid: job?.uid });
        const generations = mine.flatMap((e) => (e.type === "changed" ? [e.job.generation] : []));
        expect(generations).toEqual(generations.toSorted((a, b) => a - b));
      });

      test("a change carries the job as get gives it", async () => {
        const { position } = await store.list({ limit: 1 });
        const job = await store.create({ account, id: nextId(), spec: cronSpec() });
        const events = await collect(
          position,
          (event) => event.type === "changed" && event.job.uid === job.uid,
        );
        expect(events.at(-1)).toMatchObject({ type: "changed", job });
      });

      test("takes up where a list ended: nothing between is lost", async () => {
        const { position } = await store.list({ limit: 1 });
        const jobs = await Promise.all(
          Array.from({ length: 20 }, () =>
            store.create({ account, id: nextId(), spec: cronSpec() }),
          ),
        );
        const missing = new Set(jobs.map((job) => job.uid));
        await collect(position, (event) => {
          if (event.type === "changed") missing.delete(event.job.uid);
          return missing.size === 0;
        });
        expect([...missing]).toEqual([]);
      });

      test("takes up after any event of an earlier watch", async () => {
        const { position } = await store.list({ limit: 1 });
        const ids = [nextId(), nextId(), nextId()];
        for (const id of ids) await store.create({ account, id, spec: cronSpec() });
        const first = await collect(position, seen(ids[0] ?? ""));
        expect(first.at(-1)).toMatchObject({ type: "changed", job: { id: ids[0] } });
        await collect(first.at(-1)?.position ?? "", seen(ids[1] ?? ""));
        await collect(first.at(-1)?.position ?? "", seen(ids[2] ?? ""));
      });

      test("sees what commits while it runs, from several writers at once", async () => {
        const { position } = await store.list({ limit: 1 });
        const expected = new Set<string>();
        const ids = Array.from({ length: 30 }, nextId);
        for (const id of ids) expected.add(id);
        await collect(
          position,
          (event) => {
            if (event.type === "changed") expected.delete(event.job.id);
            return expected.size === 0;
          },
          async () => {
            await Promise.all(ids.map((id) => store.create({ account, id, spec: cronSpec() })));
          },
        );
        expect([...expected]).toEqual([]);
      });

      test("a position that is too old asks for a new list", async () => {
        const { position } = await store.list({ limit: 1 });
        await under.expire(position);
        await expect(collect(position, () => false)).rejects.toThrow(PositionExpired);
        const fresh = await store.list({ limit: 1 });
        const job = await store.create({ account, id: nextId(), spec: cronSpec() });
        await collect(fresh.position, (e) => e.type === "changed" && e.job.uid === job.uid);
      });

      test("ends when its signal aborts, before and during", async () => {
        const { position } = await store.list({ limit: 1 });
        for await (const event of store.watch(position, AbortSignal.abort()))
          throw new Error(`unexpected ${event.type}`);
        const end = new AbortController();
        const running = (async () => {
          for await (const event of store.watch(position, end.signal))
            if (event.type === "bookmark") end.abort();
        })();
        setImmediate(() => end.abort());
        await expect(running).resolves.toBeUndefined();
      });
    });

    test("ping resolves", async () => {
      await expect(store.ping()).resolves.toBeUndefined();
    });
  });
}

async function all(store: JobStore, options: { account?: string; limit: number }): Promise<Job[]> {
  const jobs: Job[] = [];
  let page = await store.list(options);
  for (;;) {
    expect(page.jobs.length).toBeLessThanOrEqual(options.limit);
    jobs.push(...page.jobs);
    if (page.continue === undefined) return jobs;
    page = await store.list({ ...options, continue: page.continue });
  }
}
