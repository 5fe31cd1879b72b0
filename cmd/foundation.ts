import { required, type Configuration } from "../src/configuration/configuration.ts";
import { createAccounts } from "../src/postgres/accounts.ts";
import { createApiKeys } from "../src/postgres/api-keys.ts";
import { cancelAccountRuns } from "../src/postgres/cancel-account-runs.ts";
import { DependencyUnavailable } from "../src/domain/ports/dependency-unavailable.ts";
import { createCircuits } from "../src/postgres/circuits.ts";
import { createPostgresClock } from "../src/postgres/clock.ts";
import type { KeyRing } from "../src/postgres/key-ring.ts";
import { createNotifications } from "../src/postgres/notifications.ts";
import { createPool } from "../src/postgres/pool.ts";
import { createRunHistory } from "../src/postgres/run-history.ts";
import { createRunLedger } from "../src/postgres/run-ledger.ts";
import { createSigningSecrets } from "../src/postgres/signing-secrets.ts";
import { createSmtpSettingsStore } from "../src/postgres/smtp-settings.ts";
import { createDestinationPolicy } from "../src/network/destination-policy.ts";
import { createGuardedDial } from "../src/network/guarded-dial.ts";
import { createMailer } from "../src/mail/mailer.ts";
import type { Logger } from "../src/telemetry/logger.ts";
import type { Metrics } from "../src/telemetry/metrics.ts";
import { createSwarmWarning } from "../src/telemetry/swarm-warning.ts";
import { createAccountRules, installationRules } from "./account-rules.ts";
import { createAccountBinding } from "../src/kubernetes/account-binding.ts";
import { createAccountNamespaces } from "../src/kubernetes/account-namespaces.ts";
import { createServiceNamespaces } from "../src/kubernetes/service-namespaces.ts";
import type { Cluster } from "./cluster.ts";
import { monotonic, timers } from "./system.ts";

/** For claims, starts, closings and decisions: few statements, in large batches. */
const RUN_CONNECTIONS = 6;
/** For lease renewal and the clock, which must not queue behind other statements. */
const LEASE_CONNECTIONS = 2;
/** After so long without an answer the database counts as down; less than a scrape waits for its collectors. */
const HANGS_MS = 2_000;

export type Foundation = ReturnType<typeof createFoundation>;

/**
 * What every serving process is built on: PostgreSQL with its clock and the stores that several parts share, the
 * guarded dial, and mail. Opens nothing by itself; the composition starts the clock.
 */
export function createFoundation(options: {
  program: "standalone" | "gateway" | "controller";
  configuration: Configuration;
  databaseUrl: string;
  keyRing: KeyRing;
  metrics: Metrics;
  log: Logger;
  /** On Kubernetes. The caller closes it. */
  cluster?: Cluster;
}) {
  const { configuration, databaseUrl: url, keyRing, metrics, log } = options;
  const cluster = options.cluster && {
    ...options.cluster,
    binding: createAccountBinding(options.cluster),
  };
  const applicationName = `carillon ${options.program}`;
  const rules = installationRules(configuration);
  let closing = false;
  const connectionFailed = createSwarmWarning({
    log,
    monotonic,
    message: "a connection to PostgreSQL failed: it is made again until one holds",
  });
  const shortage = createSwarmWarning({
    log,
    monotonic,
    message:
      "no connection can be opened: this process or its machine is at its limit of open files, out of memory, or out of local ports for the address",
  });
  const onError = (error: unknown) => {
    // Connections that PostgreSQL cuts while this process ends do not matter.
    if (!closing) connectionFailed({ err: error });
  };
  const usesNotWritten = (error: unknown) => {
    if (!closing) log.warn({ err: error }, "when API keys were last used is written later");
  };
  const onUnavailable = () => {
    metrics.databaseFailures.inc();
  };
  const max = required(configuration, "databaseConnections");
  const pool = createPool({ url, applicationName, max, onError, onUnavailable });
  const runPool = createPool({
    url,
    applicationName: `${applicationName} runs`,
    max: RUN_CONNECTIONS,
    plans: "fixed",
    onError,
    onUnavailable,
  });
  const leasePool = createPool({
    url,
    applicationName: `${applicationName} leases`,
    max: LEASE_CONNECTIONS,
    plans: "fixed",
    // After an outage others may have taken the last connections: then leases are renewed on a connection of the
    // run pool.
    lender: runPool,
    onError,
    onUnavailable,
  });
  const notifications = createNotifications({ url, applicationName, onError });
  const clock = createPostgresClock({
    pool: leasePool,
    monotonic,
    ownClock: Date.now,
    onError,
    onDoubt: (aheadMs) => {
      log.warn(
        { aheadSeconds: Math.round(aheadMs / 1_000) },
        "PostgreSQL's clock has stepped ahead, and this machine's has not: for a minute nothing is scheduled or started, in case it is set right",
      );
    },
  });
  const accounts = createAccounts({
    pool,
    onDelete: cancelAccountRuns,
    ...(cluster && {
      onLeave: (namespace, namespaceUid) => cluster.binding.leave(namespace, namespaceUid),
    }),
  });
  const apiKeys = createApiKeys({ pool, pace: { timers, monotonic }, onError: usesNotWritten });
  const smtpSettings = createSmtpSettingsStore({ pool, keyRing });
  const accountRules = createAccountRules({ accounts, monotonic });
  const kubernetes = cluster && {
    ...cluster,
    accountNamespaces: createAccountNamespaces({
      accounts,
      client: cluster.client,
      monotonic,
      timers,
    }),
  };
  const dial = createGuardedDial({
    rules,
    accountRules,
    onShortage: (error) => {
      shortage({ err: error });
    },
    ...(kubernetes && configuration.allowOwnNamespaceServices === true
      ? {
          clusterNamespace: createServiceNamespaces({ ...kubernetes, monotonic, timers }),
          clusterDomain: required(configuration, "clusterDomain"),
        }
      : {}),
  });
  const mailer = createMailer({
    settings: smtpSettings,
    dial,
    ehloName: configuration.ehloName,
    timers,
    monotonic,
    metrics,
    log,
  });

  /**
   * Asks both pools, because requests may still have connections when runs have none. A server that takes no
   * writes, for instance a demoted one, counts as away.
   */
  async function pingDatabase(): Promise<void> {
    await Promise.all(
      [pool, runPool].map(async (each) => {
        const { rows } = await each.query<{ read_only: string }>(
          "select current_setting('transaction_read_only') as read_only",
        );
        if (rows[0]?.read_only === "on")
          throw new DependencyUnavailable("postgres", { cause: new Error("it is read-only") });
      }),
    );
  }

  let pings = 0;
  let lastTold = 0;
  metrics.beforeScrape("database", async () => {
    const idle = pool.idleCount + runPool.idleCount;
    const all = pool.totalCount + runPool.totalCount;
    metrics.databasePoolConnections.set({ state: "idle" }, idle);
    metrics.databasePoolConnections.set({ state: "used" }, all - idle);
    metrics.databasePoolWaiting.set(pool.waitingCount + runPool.waitingCount);
    if (clock.known) metrics.clockOffset.set((clock.now() - Date.now()) / 1_000);
    const ping = (pings += 1);
    const tell = (up: 0 | 1): void => {
      // An older ping, whose connection was lost long ago, may end after a newer one.
      if (ping < lastTold) return;
      lastTold = ping;
      metrics.databaseUp.set(up);
    };
    // Not set to 0 before the ping: another scrape may read it meanwhile. A timer sets it if the server hangs,
    // because this scrape ends before the ping does.
    const hangs = timers.after(HANGS_MS, () => {
      tell(0);
    });
    try {
      await pingDatabase();
      tell(1);
    } catch (error) {
      tell(0);
      throw error;
    } finally {
      hangs.cancel();
    }
  });

  return {
    pool,
    runPool,
    leasePool,
    notifications,
    clock,
    accounts,
    apiKeys,
    smtpSettings,
    signingSecrets: createSigningSecrets({ pool, keyRing }),
    circuits: createCircuits({ pool }),
    history: createRunHistory({ pool }),
    ledger: createRunLedger({ pool: runPool }),
    destinations: createDestinationPolicy({ rules, accountRules }),
    dial,
    mailer,
    kubernetes,
    keyRing,
    metrics,
    log,
    pingDatabase,
    /** To be called after everything that uses the foundation has ended. */
    async close(): Promise<void> {
      closing = true;
      await mailer.close();
      await apiKeys.flush().catch(usesNotWritten);
      clock.stop();
      await notifications.close();
      await Promise.all([pool.end(), runPool.end(), leasePool.end()]);
    },
  };
}
