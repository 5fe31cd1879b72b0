import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Worker } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import type { ApiCall, KubernetesClient } from "../../../src/kubernetes/client.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { createSecretHeaders } from "../../../src/kubernetes/secret-headers.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import { FakeTime } from "../controller/controller-world.ts";
import type { LargeSecrets } from "./large-secrets-worker.ts";

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
  const { answer, time } = asked(
    ({ signal }) =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener("abort", () => reject(signal.reason as Error));
      }),
  );
  answer.catch(() => undefined);
  await time.advanceTo(5_000);
  await expect(answer).rejects.toThrow(DependencyUnavailable);
});

test("one that refuses our own credentials says nothing about the job: no call is made for it", async () => {
  const { answer } = asked(() => Promise.reject(new ApiError(401, undefined, "get")));
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

test("many deliveries at once take a worker little memory, however large their Secrets are", async () => {
  const secret = JSON.stringify({
    kind: "Secret",
    metadata: { labels: { "carillon.dev/webhook-headers": "true" } },
    // An API server stores a megabyte.
    data: { value: "YWJj", other: "A".repeat(1_400_000) },
  });
  const server = createServer((request, response) => {
    request.resume();
    response.end(secret);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const workerData: LargeSecrets = {
    server: `http://127.0.0.1:${port}`,
    deliveries: 24,
    secrets: 8,
  };
  const worker = new Worker(new URL("large-secrets-worker.ts", import.meta.url), {
    workerData,
    resourceLimits: { maxOldGenerationSizeMb: 150 },
  });
  // Rejects if the worker ends by an error, such as for want of memory.
  const [[most], [code]] = await Promise.all([once(worker, "message"), once(worker, "exit")]);
  expect(code).toBe(0);
  // Status writes, lists and look-ups of namespaces need connections as well.
  expect(most).toBeLessThanOrEqual(16);
});
