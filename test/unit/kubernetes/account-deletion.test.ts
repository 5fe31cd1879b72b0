import { expect, test } from "vitest";
import type { Account } from "../../../src/domain/account.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { JobsLeft } from "../../../src/domain/ports/accounts.ts";
import { createAccountDeletion } from "../../../src/kubernetes/account-deletion.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import { MANAGED_BY, MANAGED_BY_LABEL } from "../../../src/kubernetes/resource-owner.ts";
import type { ApiCall, KubernetesClient } from "../../../src/kubernetes/client.ts";

const withoutDefinition = async ({ verb, path }: ApiCall): Promise<unknown> => {
  if (verb === "list") throw new ApiError(404, undefined, path);
  return { metadata: { uid: "uid" } };
};

/** Deletes an account in a cluster that answers so. Returns what is reported, and how often the account was removed. */
async function deleteIn(call: (asked: ApiCall) => Promise<unknown>) {
  const account = { id: "a", namespace: "team", namespaceUid: "uid", deletedAt: null };
  const deletion = createAccountDeletion({
    client: { call } as Pick<KubernetesClient, "call">,
    accounts: { get: async () => account as Account, byNamespace: async () => undefined },
  });
  let removed = 0;
  const left = await deletion("a", async () => {
    removed += 1;
  });
  return { left, removed };
}

test("where the cluster has no definition of a job, none is left behind", async () => {
  expect(await deleteIn(withoutDefinition)).toEqual({ left: undefined, removed: 1 });
});

test("an API server that is away in the midst of it is not waited for job by job", async () => {
  const items = Array.from({ length: 1_000 }, (_, n) => ({
    metadata: { name: `job-${n}`, uid: `${n}`, labels: { [MANAGED_BY_LABEL]: MANAGED_BY } },
  }));
  let deletions = 0;
  const { left, removed } = await deleteIn(async ({ verb }) => {
    if (verb === "get") return { metadata: { uid: "uid" } };
    if (verb === "list") return { metadata: {}, items };
    deletions += 1;
    throw new DependencyUnavailable("kubernetes");
  });
  expect(left).toBeInstanceOf(JobsLeft);
  expect(removed).toBe(1);
  // No more than are under way at the same time.
  expect(deletions).toBeLessThanOrEqual(8);
});
