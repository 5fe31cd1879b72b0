import { StartProblem } from "../src/configuration/start-problem.ts";
import { createKubernetesClient, type KubernetesClient } from "../src/kubernetes/client.ts";
import { loadKubeConfig } from "../src/kubernetes/load-kube-config.ts";
import type { Metrics } from "../src/telemetry/metrics.ts";
import { monotonic, random, timers } from "./system.ts";
import { VERSION } from "./version.ts";

/** The way to the API server. */
export interface Cluster {
  client: KubernetesClient;
  /** Has a connection of its own, so that other calls do not delay a renewal of the Lease. */
  electorClient: KubernetesClient;
  close(): Promise<void>;
}

/** Connections are opened by the first call. Throws StartProblem without a kubeconfig. */
export function connectCluster(options: {
  metrics: Metrics;
  /** Milliseconds for a call with its retries. Default: 30 s. */
  timeoutMs?: number;
}): Cluster {
  const kubeConfig = readKubeConfig();
  if (kubeConfig === undefined)
    throw new StartProblem(
      "no Kubernetes cluster is configured: set KUBECONFIG, run in a pod, or set CARILLON_JOB_STORE=postgres",
    );
  const { metrics, timeoutMs } = options;
  const userAgent = `carillon/${VERSION}`;
  const common = { kubeConfig, userAgent, monotonic, timers, random, metrics };
  const client = createKubernetesClient({ ...common, timeoutMs });
  const electorClient = createKubernetesClient({ ...common, connections: 1 });
  return {
    client,
    electorClient,
    async close() {
      await Promise.all([client.close(), electorClient.close()]);
    },
  };
}

function readKubeConfig(): ReturnType<typeof loadKubeConfig> {
  try {
    const kubeConfig = loadKubeConfig();
    if (kubeConfig?.getCurrentCluster() === null)
      throw new Error("its current context names no cluster");
    return kubeConfig;
  } catch (cause) {
    const [reason] = (cause instanceof Error ? cause.message : String(cause)).split("\n");
    throw new StartProblem(
      `the kubeconfig ${process.env["KUBECONFIG"] || "~/.kube/config"} cannot be used: ${reason} (KUBECONFIG)`,
      { cause },
    );
  }
}
