import { required, type Configuration } from "../src/configuration/configuration.ts";
import { parseTrustedProxies } from "../src/gateway/client-address.ts";
import { createGateway, type Gateway } from "../src/gateway/gateway.ts";
import { DRAIN_MS } from "../src/gateway/http-server.ts";
import { otpMessage } from "../src/mail/otp-message.ts";
import { createEmailLog } from "../src/postgres/email-log.ts";
import { createIdempotencyKeys } from "../src/postgres/idempotency-keys.ts";
import { createOtps } from "../src/postgres/otps.ts";
import type { Readiness } from "../src/telemetry/readiness.ts";
import { within } from "../src/waiting/within.ts";
import { createDashboardPart } from "./dashboard-part.ts";
import type { Foundation } from "./foundation.ts";
import type { JobStoreChoice } from "./job-store-choice.ts";
import { parsedSetting } from "./parsed-setting.ts";
import { monotonic, timers } from "./system.ts";
import { VERSION } from "./version.ts";

/**
 * For the log entries of mails that were ended: their statements take milliseconds, and the process has 30 s in
 * all.
 */
const LAST_ENTRIES_MS = 2_000;

export interface GatewayPart extends Gateway {
  /**
   * Ends the mails that are still under way, also those of the mailer's other users, and waits until their outcome
   * has been written. To be called after `close`.
   */
  endMails(): Promise<void>;
}

/** The REST API and the dashboard on the foundation and a job store. */
export async function createGatewayPart(options: {
  foundation: Foundation;
  configuration: Configuration;
  store: Pick<JobStoreChoice, "jobs" | "jobIndex">;
  readiness: Readiness;
}): Promise<GatewayPart> {
  const { foundation, configuration, store, readiness } = options;
  const { pool, keyRing, mailer } = foundation;
  const idempotency = createIdempotencyKeys({
    pool,
    timers,
    report: (error) => {
      foundation.log.error({ err: error }, "what an idempotency key is to answer was not written");
    },
  });
  const gateway = createGateway({
    apiKeys: foundation.apiKeys,
    jobs: store.jobs,
    jobIndex: store.jobIndex,
    ledger: foundation.ledger,
    history: foundation.history,
    circuits: foundation.circuits,
    mailer,
    emailLog: createEmailLog({ pool, pace: { timers, monotonic } }),
    otps: createOtps({ pool, keyRing }),
    idempotency,
    destinations: foundation.destinations,
    otpMessage,
    ready: readiness,
    clock: foundation.clock,
    timers,
    monotonic,
    metrics: foundation.metrics,
    log: foundation.log,
    version: VERSION,
    databaseConnections: required(configuration, "databaseConnections"),
    trustedProxies: parsedSetting("CARILLON_TRUSTED_PROXIES", () =>
      parseTrustedProxies(required(configuration, "trustedProxies")),
    ),
    dashboard: await createDashboardPart({ foundation, configuration }),
    limits: {
      perSecond: required(configuration, "rateLimit"),
      burst: required(configuration, "rateLimitBurst"),
    },
  });
  return {
    ...gateway,
    async close() {
      const until = monotonic() + DRAIN_MS;
      await gateway.close();
      // An idempotency key that is left in flight says for 24 hours that its mail may have been sent.
      await within(Math.max(0, until - monotonic()), idempotency.written(), timers);
    },
    async endMails() {
      await mailer.close();
      const written = gateway.workDone().then(() => idempotency.written());
      await within(LAST_ENTRIES_MS, written, timers);
    },
  };
}
