import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { required, type Configuration } from "../src/configuration/configuration.ts";
import type { Leadership } from "../src/domain/ports/leadership.ts";
import { createEventRecorder } from "../src/kubernetes/events.ts";
import { createKubernetesJobIndex } from "../src/kubernetes/kubernetes-job-index.ts";
import { createKubernetesJobStore } from "../src/kubernetes/kubernetes-job-store.ts";
import { createLeaseElection } from "../src/kubernetes/lease-election.ts";
import { createResourceMemory, type ResourceMemory } from "../src/kubernetes/resource-memory.ts";
import { createSecretHeaders } from "../src/kubernetes/secret-headers.ts";
import { createStatusWriter } from "../src/kubernetes/status-writer.ts";
import type { Foundation } from "./foundation.ts";
import type { JobStoreChoice, Scheduling } from "./job-store-choice.ts";
import { monotonic, random, timers } from "./system.ts";

/** The times of the Lease and of Events are for people; all decisions use PostgreSQL's clock. */
const wallClock = () => Date.now();

/**
 * After so long without PostgreSQL a leader makes room, since it may be cut off alone; a server's restart takes
 * less.
 */
const LEADS_WITHOUT_DATABASE_MS = 30_000;

/** Jobs as ScheduledJob resources. */
export function createKubernetesJobs(options: {
  foundation: Foundation;
  configuration: Configuration;
}): JobStoreChoice {
  const { metrics, log } = options.foundation;
  const { client, accountNamespaces } = clusterOf(options.foundation);
  const watched = options.configuration.watchNamespaces ?? [];
  const memory = createResourceMemory();
  const parts = { client, accountNamespaces, monotonic, timers, random, metrics };
  const followed = createKubernetesJobIndex({
    jobs: createKubernetesJobStore({
      ...parts,
      memory,
      namespaces: watched.length > 0 ? watched : undefined,
    }),
    ofNamespace: (namespace) => createKubernetesJobStore({ ...parts, namespaces: [namespace] }),
    accountNamespaces,
    timers,
    log,
  });

  return {
    jobs: followed.jobs,
    jobIndex: followed.index,
    scheduling: () => createScheduling({ ...options, memory }),
  };
}

/** The election on a Lease, and status and Events from the leader. */
function createScheduling(options: {
  foundation: Foundation;
  configuration: Configuration;
  memory: ResourceMemory;
}): Scheduling {
  const { history, circuits, clock, metrics, log } = options.foundation;
  const { client, electorClient, accountNamespaces } = clusterOf(options.foundation);
  const { configuration, memory } = options;
  const instance = configuration.podName ?? hostname();
  const events = createEventRecorder({ client, instance, monotonic, timers, wallClock, metrics });
  const election = createLeaseElection({
    client: electorClient,
    namespace: required(configuration, "podNamespace"),
    name: required(configuration, "leaseName"),
    // Random, because a container that restarts in its pod must not pass for the one that died.
    identity: `${instance}_${randomUUID()}`,
    monotonic,
    timers,
    random,
    wallClock,
    log,
  });
  const reporter = createStatusWriter({
    client,
    memory,
    history,
    circuits,
    events,
    leadership: election,
    clock,
    monotonic,
    timers,
    metrics,
    log,
  });
  const leadership: Leadership = {
    holds: () => election.holds(),
    onChange: (listener) => election.onChange(listener),
    // The process that leads also writes status.
    run: async (signal, fit = () => true) => {
      const able = () => clock.silence() < LEADS_WITHOUT_DATABASE_MS && fit();
      await Promise.all([election.run(signal, able), reporter.run(signal)]);
    },
  };
  return {
    leadership,
    reporter,
    secretHeaders: createSecretHeaders({
      client,
      accountNamespaces,
      timers,
      namespaces: configuration.headerSecretNamespaces ?? [],
    }),
    close: () => events.close(),
  };
}

function clusterOf({ kubernetes }: Foundation): NonNullable<Foundation["kubernetes"]> {
  if (kubernetes === undefined) throw new Error("the foundation was made without a cluster");
  return kubernetes;
}
