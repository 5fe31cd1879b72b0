import { hostname } from "node:os";
import { required, type Configuration } from "../src/configuration/configuration.ts";
import { pause } from "../src/waiting/pause.ts";
import { DependencyUnavailable } from "../src/domain/ports/dependency-unavailable.ts";
import { aborted, untilAborted } from "../src/waiting/until-aborted.ts";
import { parseKeyRing } from "../src/postgres/key-ring.ts";
import { checkSchema, forgetOtherClusters } from "../src/postgres/migrate.ts";
import { assertNoTransactionPooling } from "../src/postgres/transaction-pooling.ts";
import { assertKeysKnown } from "../src/postgres/sealed-columns.ts";
import { startHealthServer } from "../src/telemetry/health-server.ts";
import { createLogger } from "../src/telemetry/logger.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import {
  createDependencyChecks,
  createReadiness,
  type Readiness,
} from "../src/telemetry/readiness.ts";
import { connectCluster } from "./cluster.ts";
import { createShutdown, type Shutdown } from "./shutdown.ts";
import { readEnvironment } from "./environment.ts";
import { createFoundation, type Foundation } from "./foundation.ts";
import type { JobStoreChoice } from "./job-store-choice.ts";
import { createKubernetesJobs } from "./kubernetes-jobs.ts";
import { onPort } from "./listen.ts";
import { logOptions } from "./log-options.ts";
import { createPostgresJobs } from "./postgres-jobs.ts";
import { problemOf, reportFailure } from "./problem.ts";
import { ignoreClosedReaders } from "./say.ts";
import { timers } from "./system.ts";
import { untilTerminated } from "./termination.ts";
import { untilReady } from "./until-ready.ts";
import { VERSION } from "./version.ts";

/** Between two tries to reach a database that is not there yet. */
const RETRY_MS = 1_000;
/** Callers wait for REST requests: they hear sooner than loops do that the API server is away. */
const REST_TIMEOUT_MS = 5_000;

export interface Serving {
  configuration: Configuration;
  foundation: Foundation;
  store: JobStoreChoice;
  readiness: Readiness;
  shutdown: Shutdown;
  /** Unique among the processes of an installation. */
  identity: string;
}

/** What a running part tells /readyz. */
export interface RunningPart {
  /** The part can do its work. The process is not ready before this was true once. */
  readonly working: boolean;
  /** Watched namespaces that refuse to be listed; their administrators must change that. */
  readonly refused?: readonly string[];
}

/**
 * The life of a gateway or controller process: read the configuration, answer probes, wait for the
 * database, start the part, and end in order at SIGTERM. A database that is away at start is waited for,
 * as not ready; one that this release cannot work with ends the process.
 */
export async function serve(
  program: "gateway" | "controller",
  start: (serving: Serving) => Promise<RunningPart>,
): Promise<never> {
  ignoreClosedReaders();
  const terminated = untilTerminated();
  const shutdown = createShutdown();
  let databaseUrl: string | undefined;
  try {
    const configuration = readEnvironment(program);
    databaseUrl = required(configuration, "databaseUrl");
    const log = createLogger(logOptions(configuration, process.stdout)).child({ program });
    const metrics = createMetrics({ version: VERSION, program });
    const keyRing = parseKeyRing(required(configuration, "encryptionKeys"));
    const cluster =
      required(configuration, "jobStore") === "kubernetes"
        ? connectCluster({
            metrics,
            timeoutMs: program === "gateway" ? REST_TIMEOUT_MS : undefined,
          })
        : undefined;
    if (cluster) shutdown.add("API server connections", () => cluster.close());
    const foundation = createFoundation({
      program,
      configuration,
      databaseUrl,
      keyRing,
      metrics,
      log,
      cluster,
    });
    shutdown.add("database connections", () => foundation.close());
    const store = cluster
      ? createKubernetesJobs({ foundation, configuration })
      : createPostgresJobs(foundation);

    let part: RunningPart | undefined;
    let ready = false;
    const said = new Set<string>();
    /** Each reason once, not at every probe. */
    const sayWhy = (error: unknown) => {
      const reason = problemOf(error, databaseUrl) ?? (error as Error).message;
      if (said.has(reason)) return;
      said.add(reason);
      log.warn({ reason }, "waiting for the Kubernetes API");
    };
    const pingJobs = () =>
      store.jobs.ping().catch((error: unknown) => {
        // Once it is ready the parts say what fails.
        if (cluster && !ready) sayWhy(error);
        throw error;
      });
    const namespaces = () => {
      if (part?.refused?.length) throw new Error("a watched namespace refuses to be listed");
    };
    const readiness = createReadiness(
      createDependencyChecks({
        postgres: () => foundation.pingDatabase(),
        jobs: pingJobs,
        [program]: () => {
          if (!part?.working) throw new Error("still starting, or cannot do its work");
        },
        ...(program === "controller" && configuration.watchNamespaces?.length
          ? { namespaces }
          : {}),
      }),
      // One of many namespaces must not hold up an upgrade.
      { optional: ["namespaces"] },
    );
    const becomeReady = async () => {
      await untilReady(readiness, terminated);
      ready = true;
      if (!terminated.aborted) log.info("ready");
    };
    const health = await onPort(
      "CARILLON_METRICS_PORT",
      startHealthServer({
        host: configuration.host,
        port: required(configuration, "metricsPort"),
        metrics,
        readiness,
      }),
    );
    shutdown.add("metrics", () => health.close());
    log.info({ port: health.port, version: VERSION }, "metrics and probes");

    await databaseReady(foundation, databaseUrl, terminated);
    if (!terminated.aborted) {
      const pod = configuration.podName ?? hostname();
      const identity = `${pod}-${process.pid}-${Date.now().toString(36)}`;
      part = await start({ configuration, foundation, store, readiness, shutdown, identity });
      void becomeReady();
      await aborted(terminated);
      log.info("ending");
    }
  } catch (error) {
    if (!terminated.aborted) reportFailure(error, databaseUrl);
  }
  await shutdown.run();
  process.exit();
}

async function databaseReady(
  foundation: Foundation,
  databaseUrl: string,
  signal: AbortSignal,
): Promise<void> {
  const { pool, runPool, leasePool, keyRing, clock, log } = foundation;
  let said: string | undefined;
  while (!signal.aborted) {
    try {
      await assertNoTransactionPooling([runPool, leasePool]);
      await checkSchema({ pool, appVersion: VERSION });
      // Also here: a restored dump may have been started on without `migrate`.
      await forgetOtherClusters(pool);
      await assertKeysKnown({ pool, keyRing });
      await untilAborted(clock.start(), signal);
      return;
    } catch (error) {
      if (!(error instanceof DependencyUnavailable)) throw error;
      // Each reason once, not every second.
      const reason = problemOf(error, databaseUrl);
      if (reason !== said) log.warn({ reason }, "waiting for PostgreSQL");
      said = reason;
      await pause(RETRY_MS, timers);
    }
  }
}
