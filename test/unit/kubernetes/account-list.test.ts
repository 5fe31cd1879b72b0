import { expect, test } from "vitest";
import { createAccountList } from "../../../src/kubernetes/account-list.ts";
import type { ObjectMeta, ScheduledJob } from "../../../src/kubernetes/scheduled-job.ts";

const ACCOUNT = "account-of-team";

/** A namespace with these jobs; the API server lists two at a time, sorted by name. */
function world(names: Readonly<Record<string, Partial<ObjectMeta>>>) {
  const items = Object.entries(names)
    .map(([name, metadata]): ScheduledJob => ({
      metadata: {
        name,
        namespace: "team",
        uid: name,
        resourceVersion: "1",
        generation: 1,
        creationTimestamp: "2026-11-23T12:00:00Z",
        ...metadata,
      },
    }))
    .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  let reads = 0;
  const listed = createAccountList({
    monotonic: () => 0,
    random: () => 0,
    listPage: async (_namespace, _limit, continuation) => {
      if (continuation === undefined) reads += 1;
      const from = Number(continuation ?? 0);
      const more = from + 2 < items.length && { continue: String(from + 2) };
      return { metadata: { resourceVersion: "1", ...more }, items: items.slice(from, from + 2) };
    },
  });
  const list = (limit: number, continuation?: string) =>
    listed({ account: ACCOUNT, namespace: "team", limit, continue: continuation });
  const pages = async (limit: number): Promise<string[][]> => {
    const shown: string[][] = [];
    let next: string | undefined;
    do {
      const page = await list(limit, next);
      shown.push(page.jobs.map(({ id }) => id));
      next = page.continue;
    } while (next !== undefined && shown.length < 9);
    return shown;
  };
  return { pages, list, reads: () => reads };
}
const made = (creationTimestamp: string) => ({ creationTimestamp });

test("the oldest first, whatever they are called, and in whole pages", async () => {
  const { pages, reads } = world({
    a: made("2026-11-23T12:00:04Z"),
    b: made("2026-11-23T12:00:02Z"),
    c: made("2026-11-23T12:00:02Z"),
    d: made("2026-11-23T12:00:01Z"),
    e: made("2026-11-23T12:00:03Z"),
  });
  expect(await pages(2)).toEqual([["d", "b"], ["c", "e"], ["a"]]);
  expect(reads()).toBe(1);
});

test("one that somebody else's finalizer keeps is gone", async () => {
  const deletionTimestamp = "2026-11-23T12:00:05Z";
  expect(await world({ a: { deletionTimestamp }, b: {} }).pages(10)).toEqual([["b"]]);
});

test("a token of another process: from where it was", async () => {
  const { list } = world({ a: {}, b: {}, c: {} });
  const first = await list(1);
  const elsewhere = world({ a: {}, b: {}, c: {} });
  const next = await elsewhere.list(1, first.continue);
  expect(next.jobs.map(({ id }) => id)).toEqual(["b"]);
  expect(elsewhere.reads()).toBe(1);
});
