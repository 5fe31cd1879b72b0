import { expect, test } from "vitest";
import { createJobList } from "../../../src/kubernetes/job-list.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";

test("a watch begins where the first page was read: what changed behind it comes again", async () => {
  const jobs = createJobList({
    client: { call: () => Promise.reject(new Error("nothing is asked for")) },
    accountNamespaces: namespaceAccounts([]),
    scopes: ["a", "b"],
    listPage: async (scope, _limit, continuation) => {
      const resourceVersion = `${scope === "a" ? 10 : 20}${continuation ?? ""}`;
      const more = continuation === undefined && { continue: "1" };
      return { metadata: { resourceVersion, ...more }, items: [] };
    },
  });
  let next: string | undefined;
  const positions: string[] = [];
  do {
    const page = await jobs.list(1, next);
    positions.push(page.position);
    next = page.continue;
  } while (next !== undefined);
  expect(positions).toEqual(["a=10", "a=10", "a=10&b=20", "a=10&b=20"]);
});
