import { describe, expect, test } from "vitest";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import type { ApiCall } from "../../../src/kubernetes/client.ts";
import { createJobList } from "../../../src/kubernetes/job-list.ts";
import type { ResourceList } from "../../../src/kubernetes/list-resources.ts";
import type { ScheduledJob } from "../../../src/kubernetes/scheduled-job.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";

type Answer = (
  scope: string | undefined,
  limit: number,
  continuation: string | undefined,
) => Promise<ResourceList>;

/** Reads all pages of these scopes; `there` are the namespaces that exist. */
async function pagesOf(
  scopes: readonly string[],
  listPage: Answer,
  there: readonly string[] = [],
  accountOf: (namespace: string) => Promise<string | null> = async () => null,
) {
  const seen: string[] = [];
  const jobs = createJobList({
    client: {
      call: async <T>({ path }: ApiCall): Promise<T> => {
        const name = path.split("/").at(-1) ?? "";
        if (there.includes(name)) return { metadata: { uid: name } } as T;
        throw new ApiError(404, undefined, path);
      },
    },
    accountNamespaces: { ...namespaceAccounts([]), accountOf },
    scopes,
    memory: { seen: ({ metadata }) => seen.push(metadata.uid) },
    listPage,
  });
  const pages = [];
  let next: string | undefined;
  do {
    const page = await jobs.list(1, next);
    pages.push(page);
    next = page.continue;
  } while (next !== undefined && pages.length < 9);
  return { pages, seen };
}

const forbidden = () => Promise.reject(new ApiError(403, undefined, "list"));
const holding = (...uids: string[]): ResourceList => ({
  metadata: { resourceVersion: "10" },
  items: uids.map((uid): ScheduledJob => ({
    metadata: {
      uid,
      name: uid,
      namespace: "a",
      resourceVersion: "1",
      generation: 1,
      creationTimestamp: "2026-11-23T12:00:00Z",
      ...(uid === "kept" && { deletionTimestamp: "2026-11-23T12:00:05Z" }),
    },
  })),
});

test("a watch begins where the first page was read: what changed behind it comes again", async () => {
  const { pages } = await pagesOf(["a", "b"], async (scope, _limit, continuation) => {
    const resourceVersion = `${scope === "a" ? 10 : 20}${continuation ?? ""}`;
    const more = continuation === undefined && { continue: "1" };
    return { metadata: { resourceVersion, ...more }, items: [] };
  });
  const positions = pages.map(({ position }) => position);
  expect(positions).toEqual(["a=10", "a=10", "a=10&b=20", "a=10&b=20"]);
});

test("namespaces may have any name, those of a page's own marks included", async () => {
  const { pages } = await pagesOf(["continue", "more", "scope"], async (scope, _, continuation) => {
    const { items } = holding(`${scope}-${continuation ?? "first"}`);
    const more = continuation === undefined && { continue: "next" };
    return { metadata: { resourceVersion: `${scope?.length}`, ...more }, items };
  });
  expect(pages.flatMap(({ jobs }) => jobs.map(({ uid }) => uid))).toEqual([
    "continue-first",
    "continue-next",
    "more-first",
    "more-next",
    "scope-first",
    "scope-next",
  ]);
  expect(pages.at(-1)?.position).toBe("continue=8&more=4&scope=5");
});

test("a watch follows the bindings under which the first page was read", async () => {
  let lists = 0;
  const jobs = createJobList({
    client: { call: () => Promise.reject(new Error("nobody asks")) },
    accountNamespaces: {
      ...namespaceAccounts([]),
      bindings: async () => new Map([["lists", `${(lists += 1)}`]]),
    },
    scopes: ["a", "b"],
    listPage: async () => holding("job"),
  });
  const first = await jobs.list(1, undefined);
  await jobs.list(1, first.continue);
  expect(jobs.listedUnder()).toEqual(new Map([["lists", "1"]]));
  await jobs.list(1, undefined);
  expect(jobs.listedUnder()).toEqual(new Map([["lists", "2"]]));
});

test("a job that somebody else's finalizer keeps is gone, and what there is of others is remembered", async () => {
  const { pages, seen } = await pagesOf(["a"], async () => holding("job", "kept"));
  expect(pages.flatMap(({ jobs }) => jobs.map(({ uid }) => uid))).toEqual(["job"]);
  expect(seen).toEqual(["job"]);
});

test("a namespace that is gone has no jobs; one that refuses is left out, and named", async () => {
  const { pages } = await pagesOf(
    ["a", "b", "c"],
    async (scope) => (scope === "b" ? holding("job") : forbidden()),
    ["b", "c"],
  );
  expect(pages.map(({ jobs }) => jobs.length)).toEqual([0, 1, 0]);
  expect(pages.map(({ refused }) => refused?.namespace)).toEqual([undefined, undefined, "c"]);
  expect(pages.at(-1)?.position).toBe("a=gone&b=10&c=refused");
});

test("namespaces that are all gone have no jobs; when one of them refuses, nothing is known", async () => {
  const { pages } = await pagesOf(["a", "b"], forbidden);
  expect(pages.at(-1)).toEqual({ jobs: [], position: "a=gone&b=gone" });
  await expect(pagesOf(["a", "b"], forbidden, ["a"])).rejects.toThrow("403");
});

/** Three jobs, each in a namespace of its own. */
const inThree = async () => {
  const { metadata, items } = holding("one", "two", "three");
  const spread = items.map((item) => ({
    ...item,
    metadata: { ...item.metadata, namespace: `of-${item.metadata.uid}` },
  }));
  return { metadata, items: spread };
};

describe("whose the jobs of a page are", () => {
  test("is asked for all at once, and the jobs come in their order whichever answer is first", async () => {
    const answers = new Map<string, (account: string) => void>();
    const listed = pagesOf(["a"], inThree, [], (namespace) => {
      const { promise, resolve } = Promise.withResolvers<string>();
      answers.set(namespace, resolve);
      return promise;
    });
    await expect.poll(() => [...answers.keys()]).toEqual(["of-one", "of-two", "of-three"]);
    for (const [namespace, answer] of [...answers].reverse()) answer(`account ${namespace}`);
    const { pages, seen } = await listed;
    expect(pages[0]?.jobs.map(({ uid, account }) => [uid, account])).toEqual([
      ["one", "account of-one"],
      ["two", "account of-two"],
      ["three", "account of-three"],
    ]);
    expect(seen).toEqual(["one", "two", "three"]);
  });

  test("and nothing of the page is known while it is unknown of one", async () => {
    const listed = pagesOf(["a"], inThree, [], async (namespace) => {
      if (namespace !== "of-one") throw new Error(`nobody says whose ${namespace} is`);
      return null;
    });
    await expect(listed).rejects.toThrow("nobody says whose of-two is");
  });
});

test("a namespace that may be listed and not looked at is left out: the others' jobs run", async () => {
  const refusal = new ApiError(403, undefined, "get namespaces/a");
  let listed = 0;
  const listPage: Answer = async () => {
    listed += 1;
    return holding(listed === 1 ? "one" : "two");
  };
  let asked = 0;
  const accountOf = async () => {
    asked += 1;
    if (asked === 1) throw refusal;
    return "account";
  };
  const { pages, seen } = await pagesOf(["a", "b"], listPage, ["a"], accountOf);
  expect(pages[0]).toMatchObject({ jobs: [], refused: { namespace: "a", error: refusal } });
  expect(pages[1]?.jobs.map(({ uid }) => uid)).toEqual(["two"]);
  expect(seen).toEqual(["two"]);
});
