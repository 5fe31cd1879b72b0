/** Reads the Secrets of many deliveries at once, in a worker of little memory. Posts how many it read at a time. */
import { parentPort, workerData } from "node:worker_threads";
import { KubeConfig } from "@kubernetes/client-node";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { createKubernetesClient, type ApiCall } from "../../../src/kubernetes/client.ts";
import { createSecretHeaders } from "../../../src/kubernetes/secret-headers.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import { realTime } from "../../kubernetes/real-time.ts";

export interface LargeSecrets {
  server: string;
  deliveries: number;
  secrets: number;
}

const { server, deliveries, secrets } = workerData as LargeSecrets;
const kubeConfig = new KubeConfig();
kubeConfig.loadFromClusterAndUser({ name: "c", server, skipTLSVerify: true }, { name: "u" });
const client = createKubernetesClient({
  kubeConfig,
  ...realTime,
  metrics: createMetrics({ version: "test", nodeMetrics: false }),
  userAgent: "test",
});
let open = 0;
let most = 0;
const headersOf = createSecretHeaders({
  client: {
    ...client,
    // The server hears late that an answer has left: the next request may be there already.
    async call<T>(asked: ApiCall) {
      most = Math.max(most, (open += 1));
      return client.call<T>(asked).finally(() => (open -= 1));
    },
  },
  accountNamespaces: namespaceAccounts(["a"]),
  namespaces: ["a"],
  // However long it takes on a busy machine.
  timers: { after: () => ({ cancel: () => undefined }) },
});
const run = {
  account: "account-of-a",
  spec: {
    target: {
      kind: "webhook",
      headersFrom: Array.from({ length: secrets }, (_, index) => ({
        header: `X-${index}`,
        secretName: `secret-${index}`,
        secretKey: "value",
      })),
    },
  },
} as unknown as ClaimedRun;
const resolved = await Promise.all(Array.from({ length: deliveries }, () => headersOf(run)));
for (const each of resolved)
  if (each.kind !== "resolved" || Object.keys(each.headers).length !== secrets)
    throw new Error(JSON.stringify(each));
await client.close();
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port of threads has no origin
parentPort?.postMessage(most);
