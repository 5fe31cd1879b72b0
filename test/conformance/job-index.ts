import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { listedJob, type ListedJob } from "../../src/domain/listed-job.ts";
import type { JobIndex } from "../../src/domain/ports/job-index.ts";
import type { JobStore } from "../../src/domain/ports/job-store.ts";
import { until } from "../until.ts";
import { cronSpec, onceSpec } from "./job-store.ts";

export interface IndexUnderTest {
  index: JobIndex;
  /** The store with which the index's own process writes. */
  jobs: JobStore;
  /** The same store, as used by another process. */
  elsewhere: JobStore;
  /** Creates an account without jobs. */
  newAccount(): Promise<string>;
  /** Makes the index lose its position: the next look has to list again. */
  lose(): Promise<void>;
  close(): Promise<void>;
}

/** The contract of the JobIndex port. The indexes of both stores pass the same tests. */
export function jobIndexConformance(name: string, make: () => Promise<IndexUnderTest>): void {
  describe(`JobIndex: ${name}`, () => {
    let under: IndexUnderTest;
    let account: string;
    beforeAll(async () => {
      under = await make();
    });
    beforeEach(async () => {
      account = await under.newAccount();
    });
    afterAll(() => under.close());

    const look = () => under.index.jobs(account);
    const ids = async () => (await look()).map(({ id }) => id);
    const find = async (id: string) => (await look()).find((job) => job.id === id);
    const create = (id: string) => under.jobs.create({ account, id, spec: cronSpec() });
    /** What the store lists, which the index must match. */
    const listed = async (): Promise<ListedJob[]> =>
      (await under.elsewhere.list({ account, limit: 1_000 })).jobs.map(listedJob);

    test("an account without jobs, and one that is unknown, have none", async () => {
      expect(await look()).toEqual([]);
      expect(await under.index.jobs("no-such-account")).toEqual([]);
    });

    test("what this process writes is there at once", async () => {
      const { jobs } = under;
      const first = await create("job-a");
      expect(await look()).toEqual([listedJob(first)]);
      const second = await jobs.create({ account, id: "job-b", spec: onceSpec(Date.now() + 1e9) });
      expect(await ids()).toEqual(["job-a", "job-b"]);
      const renamed = await jobs.update(first, cronSpec({ name: "Renamed", suspend: true }));
      expect(await look()).toEqual([listedJob(renamed), listedJob(second)]);
      await jobs.delete(second);
      expect(await ids()).toEqual(["job-a"]);
      const again = await create("job-b");
      expect(again.uid).not.toBe(second.uid);
      expect((await find("job-b"))?.uid).toBe(again.uid);
      expect(await jobs.deleteUnchanged(again)).toBe(true);
      expect(await ids()).toEqual(["job-a"]);
      expect(await jobs.deleteUnchanged(first)).toBe(false);
      expect(await ids()).toEqual(["job-a"]);
    });

    test("what has not changed is the same object", async () => {
      await create("job-a");
      const before = await look();
      expect(await look()).toEqual(before);
      const a = await find("job-a");
      await create("job-b");
      expect(await find("job-a")).toBe(a);
    });

    test("what others write comes too, in order", async () => {
      const { elsewhere } = under;
      const [, b, c] = [await create("job-a"), await create("job-b"), await create("job-c")];
      expect(await ids()).toEqual(["job-a", "job-b", "job-c"]);
      await elsewhere.create({ account, id: "job-d", spec: cronSpec({ name: "From elsewhere" }) });
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
      await create("job-a");
      const ours = await look();
      const other = await under.newAccount();
      expect(await under.index.jobs(other)).toEqual([]);
      await under.jobs.create({ account: other, id: "job-a", spec: cronSpec({ name: "Theirs" }) });
      expect((await under.index.jobs(other)).map(({ spec }) => spec.name)).toEqual(["Theirs"]);
      expect(await look()).toEqual(ours);
    });

    test("whatever was missed while its place was lost is there", async () => {
      const { elsewhere } = under;
      const a = await create("job-a");
      await create("job-b");
      expect(await ids()).toEqual(["job-a", "job-b"]);
      await elsewhere.delete(a);
      await under.lose();
      await elsewhere.create({ account, id: "job-c", spec: cronSpec() });
      const truth = await listed();
      expect(truth.map(({ id }) => id)).toEqual(["job-b", "job-c"]);
      await until(
        "the index has begun anew",
        async () => JSON.stringify(await look()) === JSON.stringify(truth),
      );
    });

    test("many looks and writes at once end with the truth", async () => {
      await Promise.all(
        Array.from({ length: 30 }, async (_, index) => {
          const id = `job-many-${index}`;
          const job = await create(id);
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
