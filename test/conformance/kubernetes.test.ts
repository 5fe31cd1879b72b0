import { describe, inject } from "vitest";
import { DependencyUnavailable } from "../../src/domain/ports/dependency-unavailable.ts";
import { createKubernetesJobIndex } from "../../src/kubernetes/kubernetes-job-index.ts";
import { specFromResource, specToResource } from "../../src/kubernetes/scheduled-job.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { connect, createNamespace, installCrd, jobStore } from "../kubernetes/cluster.ts";
import { startControlPlane } from "../kubernetes/control-plane.ts";
import { namespaceAccounts } from "../kubernetes/namespace-accounts.ts";
import { realTime } from "../kubernetes/real-time.ts";
import { until } from "../until.ts";
import { jobIndexConformance } from "./job-index.ts";
import { jobStoreConformance } from "./job-store.ts";

describe.runIf(inject("kubeconfig") !== "")("on a real API server", () => {
  jobStoreConformance("Kubernetes", async () => {
    // A control plane of its own: to expire a position, etcd is compacted and the API server restarted.
    const controlPlane = await startControlPlane(() => undefined);
    if (!controlPlane) throw new Error("the control plane of the project was there a moment ago");
    const client = connect(controlPlane.kubeconfig);
    await installCrd(client);
    const namespaces = [await createNamespace(client), await createNamespace(client)] as const;
    const accountNamespaces = namespaceAccounts([]);
    const accounts = [
      accountNamespaces.bind(namespaces[0].name),
      accountNamespaces.bind(namespaces[1].name),
    ] as const;
    const store = jobStore(client, accountNamespaces);
    const expired = new Set<string>();
    /** An API server that has just started refuses watches until it has read the resources. */
    const watchesAnswer = async () => {
      const { position } = await store.list({ limit: 1 });
      const end = new AbortController();
      try {
        for await (const _ of store.watch(position, end.signal)) return true;
        return false;
      } catch (error) {
        if (error instanceof DependencyUnavailable) return false;
        throw error;
      } finally {
        end.abort();
      }
    };
    return {
      // A borrowed cluster cannot be compacted: there the oldest version of all serves as an expired position.
      store: {
        ...store,
        watch: (position, signal) => store.watch(expired.has(position) ? "1" : position, signal),
      },
      accounts,
      stored: (spec) => specFromResource(specToResource(spec), ""),
      async expire(position) {
        if (controlPlane.kind === "borrowed") {
          expired.add(position);
          return;
        }
        // The position must be older than the first one that the restarted API server knows.
        await createNamespace(client);
        await controlPlane.compact();
        await controlPlane.restart();
        await until("a watch after the restart", watchesAnswer, 20_000);
      },
      async close() {
        await client.close();
        await controlPlane.stop();
      },
    };
  });

  jobIndexConformance("Kubernetes", async () => {
    const client = connect(inject("kubeconfig"));
    await installCrd(client);
    const accountNamespaces = namespaceAccounts([]);
    const elsewhere = jobStore(client, accountNamespaces);
    let lost = new AbortController();
    const followed = createKubernetesJobIndex({
      jobs: jobStore(client, accountNamespaces),
      ofNamespace: (namespace) => {
        const store = jobStore(client, accountNamespaces, { namespaces: [namespace] });
        const watch: typeof store.watch = (position, signal) =>
          store.watch(position, AbortSignal.any([signal, lost.signal]));
        return { list: (options) => store.list(options), watch };
      },
      accountNamespaces,
      timers: realTime.timers,
      log: createLogger({ level: "silent" }),
    });
    return {
      index: followed.index,
      jobs: followed.jobs,
      elsewhere,
      newAccount: async () => accountNamespaces.bind((await createNamespace(client)).name),
      lose: async () => {
        lost.abort();
        lost = new AbortController();
      },
      close: () => client.close(),
    };
  });
});
