import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { listedJob, type ListedJob } from "../../src/domain/listed-job.ts";
import type { JobIndex } from "../../src/domain/ports/job-index.ts";
import type { JobStore } from "../../src/domain/ports/job-store.ts";
import { until } from "../until.ts";
import { cronSpec, onceSpec } from "./job-store.ts";

export interface IndexUnderTest {
  index: JobIndex;
  /** The store that this process writes with. */
  jobs: JobStore;
  /** The same store as another process has it. */
  elsewhere: JobStore;
  /** Two accounts of their own, without jobs. */
  accounts: readonly [string, string];
  /** Makes the index lose its place: the next look has to begin anew. */
  lose(): Promise<void>;
  close(): Promise<void>;
}

/** The contract of the JobIndex port. The indexes of both stores pass the same tests. */
export function jobIndexConformance(name: string, make: () => Promise<IndexUnderTest>): void {
  describe(`JobIndex: ${name}`, () => {
    let under: IndexUnderTest;
    let account: string;
    let other: string;
    beforeAll(async () => {
      under = await make();
      [account, other] = under.accounts;
    });
    afterAll(() => under.close());

    const look = () => under.index.jobs(account);
    const ids = async () => (await look()).map(({ id }) => id);
    const find = async (id: string) => (await look()).find((job) => job.id === id);
    /** The whole truth: what the store lists. */
    const listed = async (): Promise<ListedJob[]> =>
      (await under.elsewhere.list({ account, limit: 1_000 })).jobs.map(listedJob);

    test("an account without jobs, and one that is unknown, have none", async () => {
      expect(await look()).toEqual([]);
      expect(await under.index.jobs("no-such-account")).toEqual([]);
    });

    test("what this process writes is there at once", async () => {
      const { jobs } = under;
      const first = await jobs.create({ account, id: "job-a", spec: cronSpec() });
      expect(await look()).toEqual([listedJob(first)]);
      const second = await jobs.create({ account, id: "job-b", spec: onceSpec(Date.now() + 1e9) });
      expect(await ids()).toEqual(["job-a", "job-b"]);
      const renamed = await jobs.update(first, cronSpec({ name: "Renamed", suspend: true }));
      expect(await look()).toEqual([listedJob(renamed), listedJob(second)]);
      await jobs.delete(second);
      expect(await ids()).toEqual(["job-a"]);
      const again = await jobs.create({ account, id: "job-b", spec: cronSpec() });
      expect(again.uid).not.toBe(second.uid);
      expect((await find("job-b"))?.uid).toBe(again.uid);
    });

    test("what has not changed is the same object", async () => {
      const before = await look();
      expect(await look()).toEqual(before);
      const a = await find("job-a");
      await under.jobs.create({ account, id: "job-c", spec: cronSpec() });
      expect(await find("job-a")).toBe(a);
    });

    test("what others write comes too, in order", async () => {
      const { elsewhere } = under;
      await elsewhere.create({ account, id: "job-d", spec: cronSpec({ name: "From elsewhere" }) });
      const b = await elsewhere.get(account, "job-b");
      const c = await elsewhere.get(account, "job-c");
      if (!b || !c) throw new Error("they were there a moment ago");
      await elsewhere.update(b, cronSpec({ name: "Changed elsewhere" }));
      await elsewhere.delete(c);
      const truth = await listed();
      expect(truth.map(({ id }) => id)).toEqual(["job-a", "job-b", "job-d"]);
      await until(
        "the index knows what others wrote",
        async () => JSON.stringify(await look()) === JSON.stringify(truth),
      );
    });

    test("a second account sees nothing of the first", async () => {
      expect(await under.index.jobs(other)).toEqual([]);
      await under.jobs.create({ account: other, id: "job-a", spec: cronSpec({ name: "Theirs" }) });
      expect((await under.index.jobs(other)).map(({ spec }) => spec.name)).toEqual(["Theirs"]);
      expect((await find("job-a"))?.spec.name).toBe("Renamed");
    });

    test("whatever was missed while its place was lost is there", async () => {
      const { elsewhere } = under;
      const a = await elsewhere.get(account, "job-a");
      if (!a) throw new Error("it was there a moment ago");
      await elsewhere.delete(a);
      await under.lose();
      await elsewhere.create({ account, id: "job-e", spec: cronSpec() });
      const truth = await listed();
      expect(truth.map(({ id }) => id)).toEqual(["job-b", "job-d", "job-e"]);
      await until(
        "the index has begun anew",
        async () => JSON.stringify(await look()) === JSON.stringify(truth),
      );
    });

    test("many looks and writes at once end with the truth", async () => {
      await Promise.all(
        Array.from({ length: 30 }, async (_, index) => {
          const id = `job-many-${index}`;
          const job = await under.jobs.create({ account, id, spec: cronSpec() });
          expect(await ids()).toContain(id);
          if (index % 3 !== 0) return;
          await under.jobs.delete(job);
          expect(await ids()).not.toContain(id);
        }),
      );
      expect(JSON.stringify(await look())).toBe(JSON.stringify(await listed()));
    });
  });
}
