import { describe, expect, test } from "vitest";
import { createGroupCommit } from "../../../src/waiting/group-commit.ts";
import { pause } from "../../../src/waiting/pause.ts";
import { FakeTime, settle } from "../controller/controller-world.ts";

function gate(): { open: () => void; opened: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { open: resolve, opened: promise };
}

describe("a group commit", () => {
  test("commits together what arrives while a commit is in flight, each with its own result", async () => {
    const groups: number[][] = [];
    const first = gate();
    const started = gate();
    const group = createGroupCommit<number, number>({
      commit: async (rows) => {
        groups.push([...rows]);
        started.open();
        if (groups.length === 1) await first.opened;
        return rows.map((row) => row * 10);
      },
    });
    const one = group.submit(1);
    await started.opened;
    const rest = [2, 3, 4].map((row) => group.submit(row));
    expect(groups).toEqual([[1]]);
    first.open();
    expect(await Promise.all([one, ...rest])).toEqual([10, 20, 30, 40]);
    expect(groups).toEqual([[1], [2, 3, 4]]);
  });

  test("keeps groups within maxRows, and goes on after it was idle", async () => {
    const sizes: number[] = [];
    const group = createGroupCommit<number, number>({
      maxRows: 2,
      commit: async (rows) => {
        sizes.push(rows.length);
        return rows;
      },
    });
    await Promise.all([1, 2, 3, 4, 5].map((row) => group.submit(row)));
    expect(await group.submit(6)).toBe(6);
    expect(sizes).toEqual([2, 2, 1, 1]);
  });

  test("ends a group with the row that makes it large enough, and takes a larger one alone", async () => {
    const groups: number[][] = [];
    const group = createGroupCommit<number, number>({
      maxRows: 3,
      maxSize: 10,
      sizeOf: (row) => row,
      commit: async (rows) => {
        groups.push([...rows]);
        return rows;
      },
    });
    await Promise.all([6, 3, 1, 40, 1, 1, 1, 9, 9].map((row) => group.submit(row)));
    expect(groups).toEqual([[6, 3, 1], [40], [1, 1, 1], [9, 9]]);
  });

  test("a commit that fails rejects its group and not the next", async () => {
    let commits = 0;
    const group = createGroupCommit<number, number>({
      commit: async (rows) => {
        commits += 1;
        if (commits === 1) throw new Error("connection lost");
        return rows;
      },
    });
    const failed = await Promise.allSettled([group.submit(1), group.submit(2)]);
    expect(failed.map((f) => f.status)).toEqual(["rejected", "rejected"]);
    expect(await group.submit(3)).toBe(3);
    expect(commits).toBe(2);
  });

  test("a row without a result is an error, and not taken for written", async () => {
    const group = createGroupCommit<number, number>({ commit: async (rows) => rows.slice(1) });
    const results = await Promise.allSettled([group.submit(1), group.submit(2)]);
    expect(results.map((r) => r.status)).toEqual(["fulfilled", "rejected"]);
  });

  test("a bad row fails alone, and one is committed after the other", async () => {
    let underWay = 0;
    let most = 0;
    const group = createGroupCommit<number, number>({
      isRowFault: (error) => error instanceof RangeError,
      commit: async (rows) => {
        underWay += 1;
        most = Math.max(most, underWay);
        await settle();
        underWay -= 1;
        if (rows.includes(13)) throw new RangeError("bad row");
        return rows;
      },
    });
    const results = await Promise.allSettled([1, 13, 2].map((row) => group.submit(row)));
    expect(results.map((r) => r.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(most).toBe(1);
  });

  test.each([
    { took: 1, next: 3 },
    { took: 1.5, next: 4.5 },
    { took: 3, next: 5 },
    { took: 5, next: 5 },
    { took: 20, next: 20 },
  ])(
    "with a pace, who comes alone waits for nothing, and behind a commit of $took ms the next one begins $next ms after it began",
    async ({ took, next }) => {
      const time = new FakeTime(0);
      const began: { at: number; rows: readonly number[] }[] = [];
      const group = createGroupCommit<number, number>({
        pace: { timers: time, monotonic: () => time.now() },
        commit: async (rows) => {
          began.push({ at: time.now(), rows });
          await pause(took, time);
          return rows;
        },
      });
      for (const [start, row] of [
        [0, 0],
        [100, 1],
        // A moment after the commit before is over.
        [100 + took, 2],
      ] as const) {
        await time.advanceTo(start);
        const alone = group.submit(row);
        await time.advanceTo(start + took);
        expect(await alone).toBe(row);
      }
      await time.advanceTo(200);
      const first = group.submit(3);
      await time.advanceTo(200 + took / 2);
      const rest = [4, 5].map((row) => group.submit(row));
      await time.advanceTo(200 + next + took);
      expect(await Promise.all([first, ...rest])).toEqual([3, 4, 5]);
      expect(began).toEqual([
        { at: 0, rows: [0] },
        { at: 100, rows: [1] },
        { at: 100 + took, rows: [2] },
        { at: 200, rows: [3] },
        { at: 200 + next, rows: [4, 5] },
      ]);
    },
  );
});
