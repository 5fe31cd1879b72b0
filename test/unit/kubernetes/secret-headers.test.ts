import { expect, test } from "vitest";
import type { ApiCall, KubernetesClient } from "../../../src/kubernetes/client.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-down.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { createSecretHeaders } from "../../../src/kubernetes/secret-headers.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";

const call = async ({ timeoutMs = Infinity }: ApiCall): Promise<never> => {
  expect(timeoutMs).toBeLessThanOrEqual(5_000);
  throw new DependencyUnavailable("kubernetes");
};

test("an API server that hangs holds a delivery up for a few seconds, not for a call's usual time", async () => {
  const headersFrom = [{ header: "Authorization", secretName: "token", secretKey: "value" }];
  const spec = { target: { kind: "webhook", headersFrom } };
  const headersOf = createSecretHeaders({
    client: { call } as Pick<KubernetesClient, "call"> as KubernetesClient,
    accountNamespaces: namespaceAccounts(["a"]),
  });
  const run = { account: "account-of-a", spec } as unknown as ClaimedRun;
  await expect(headersOf(run)).rejects.toThrow(DependencyUnavailable);
});
