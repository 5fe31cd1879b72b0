import { expect, test } from "vitest";
import type { Account } from "../../../src/domain/account.ts";
import { createAccountDeletion } from "../../../src/kubernetes/account-deletion.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import type { ApiCall, KubernetesClient } from "../../../src/kubernetes/client.ts";

const withoutDefinition = async ({ verb, path }: ApiCall): Promise<unknown> => {
  if (verb === "list") throw new ApiError(404, undefined, path);
  return { metadata: { uid: "uid" } };
};

test("where the cluster has no definition of a job, none is left behind", async () => {
  const account = { id: "a", namespace: "team", namespaceUid: "uid", deletedAt: null };
  const deletion = createAccountDeletion({
    client: { call: withoutDefinition } as Pick<KubernetesClient, "call">,
    accounts: { get: async () => account as Account, byNamespace: async () => undefined },
  });
  let removed = 0;
  const left = await deletion("a", async () => {
    removed += 1;
  });
  expect([left, removed]).toEqual([undefined, 1]);
});
