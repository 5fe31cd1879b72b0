import type { JobStore } from "../../../src/domain/ports/job-store.ts";
import type { KubernetesClient } from "../../../src/kubernetes/client.ts";
import { createJobWatch, type JobWatchDependencies } from "../../../src/kubernetes/job-watch.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { FakeTime } from "../controller/controller-world.ts";

/** A watch of what this client tells, unless said otherwise behind a list under which no namespace was bound. */
export function jobWatchOn(
  client: Pick<KubernetesClient, "call" | "watch">,
  options: Pick<JobWatchDependencies, "accountNamespaces" | "scopes" | "memory"> &
    Partial<Pick<JobWatchDependencies, "listedUnder">>,
  time = new FakeTime(0),
): JobStore["watch"] {
  const nothingBound = new Map<string, string>();
  return createJobWatch({
    listedUnder: () => nothingBound,
    ...options,
    client: client as KubernetesClient,
    monotonic: () => time.now(),
    timers: time,
    random: () => 0.5,
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
  });
}
