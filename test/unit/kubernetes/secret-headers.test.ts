import { expect, test } from "vitest";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import type { ApiCall, KubernetesClient } from "../../../src/kubernetes/client.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { createSecretHeaders } from "../../../src/kubernetes/secret-headers.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import { FakeTime } from "../controller/controller-world.ts";

const headersFrom = [{ header: "Authorization", secretName: "token", secretKey: "value" }];
const run = {
  account: "account-of-a",
  spec: { target: { kind: "webhook", headersFrom } },
} as unknown as ClaimedRun;

const refused = () => Promise.reject(new ApiError(403, undefined, "get"));

function asked(call: (call: ApiCall) => Promise<unknown>) {
  const time = new FakeTime(0);
  const headersOf = createSecretHeaders({
    client: { call } as Pick<KubernetesClient, "call"> as KubernetesClient,
    accountNamespaces: namespaceAccounts(["a"]),
    namespaces: ["a"],
    timers: time,
  });
  return { answer: headersOf(run), time };
}

test("an API server that hangs holds a delivery up for a few seconds, not for a call's usual time", async () => {
  const { answer } = asked(async ({ timeoutMs = Infinity }) => {
    expect(timeoutMs).toBeLessThanOrEqual(5_000);
    throw new DependencyUnavailable("kubernetes");
  });
  await expect(answer).rejects.toThrow(DependencyUnavailable);
});

test("one that has just started refuses everybody: it is asked again, for some seconds", async () => {
  let refusals = 3;
  const starting = asked(async () => {
    refusals -= 1;
    return refusals < 0
      ? {
          metadata: { labels: { "carillon.dev/webhook-headers": "true" } },
          data: { value: "YWJj" },
        }
      : refused();
  });
  await starting.time.advanceTo(3_000);
  expect(await starting.answer).toEqual({ kind: "resolved", headers: { Authorization: "abc" } });

  const forbidden = asked(refused);
  await forbidden.time.advanceTo(4_000);
  expect(await forbidden.answer).toMatchObject({
    kind: "unavailable",
    error: expect.stringContaining("may not read Secrets in namespace a"),
  });
});
