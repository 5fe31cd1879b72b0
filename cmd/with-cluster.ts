import { createMetrics } from "../src/telemetry/metrics.ts";
import type { Cluster } from "./cluster.ts";
import { VERSION } from "./version.ts";

/** For commands: connects to the cluster, and closes the connections when the work is done. */
export async function withCluster<T>(work: (cluster: Cluster) => Promise<T>): Promise<T> {
  // Loaded only when it is needed: the client takes longer to load than all the rest.
  const { connectCluster } = await import("./cluster.ts");
  const cluster = connectCluster({
    metrics: createMetrics({ version: VERSION, nodeMetrics: false }),
  });
  try {
    return await work(cluster);
  } finally {
    await cluster.close();
  }
}
