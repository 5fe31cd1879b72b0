import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { Writable } from "node:stream";
import { monotonic, timers } from "../../../cmd/system.ts";
import type { Job } from "../../../src/domain/job.ts";
import type { Cursor } from "../../../src/domain/cursor.ts";
import type { Users } from "../../../src/domain/ports/accounts.ts";
import type { JobStore } from "../../../src/domain/ports/job-store.ts";
import type { EmailLog, Mailer } from "../../../src/domain/ports/mail.ts";
import { parseTrustedProxies } from "../../../src/gateway/client-address.ts";
import { createGateway, type GatewayOptions } from "../../../src/gateway/gateway.ts";
import { startMailCatcher, type MailCatcher } from "../../../src/mail/mail-catcher.ts";
import { createMailer } from "../../../src/mail/mailer.ts";
import { otpMessage } from "../../../src/mail/otp-message.ts";
import { createDestinationPolicy } from "../../../src/network/destination-policy.ts";
import { parseDestinationRules } from "../../../src/network/destination-rules.ts";
import { createGuardedDial } from "../../../src/network/guarded-dial.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { createApiKeys } from "../../../src/postgres/api-keys.ts";
import { createCircuits } from "../../../src/postgres/circuits.ts";
import { createDashboardStatistics } from "../../../src/postgres/dashboard-statistics.ts";
import { createPostgresClock } from "../../../src/postgres/clock.ts";
import { createEmailLog } from "../../../src/postgres/email-log.ts";
import { createIdempotencyKeys } from "../../../src/postgres/idempotency-keys.ts";
import { createInvitations } from "../../../src/postgres/invitations.ts";
import { parseKeyRing } from "../../../src/postgres/key-ring.ts";
import { createNotifications } from "../../../src/postgres/notifications.ts";
import { createOtps } from "../../../src/postgres/otps.ts";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { createPostgresJobIndex } from "../../../src/postgres/postgres-job-index.ts";
import { createPostgresJobStore } from "../../../src/postgres/postgres-job-store.ts";
import { createRunHistory } from "../../../src/postgres/run-history.ts";
import { createRunLedger } from "../../../src/postgres/run-ledger.ts";
import { createRunQueue } from "../../../src/postgres/run-queue.ts";
import { createSessions } from "../../../src/postgres/sessions.ts";
import { createSignInBrake } from "../../../src/postgres/sign-in-brake.ts";
import { createSigningSecrets } from "../../../src/postgres/signing-secrets.ts";
import { createSmtpSettingsStore } from "../../../src/postgres/smtp-settings.ts";
import { createUsers } from "../../../src/postgres/users.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { createDependencyChecks, createReadiness } from "../../../src/telemetry/readiness.ts";
import { metricValue } from "../../metric-value.ts";
import { createTestDatabase } from "../../postgres/database.ts";
import { aCursor } from "../../unit/domain/decide-builders.ts";

export interface Reply {
  status: number;
  headers: Headers;
  text: string;
  json: Record<string, unknown>;
}

export interface Request {
  method?: string;
  path: string;
  /** By default the first account's key; null: none. */
  key?: string | null;
  json?: unknown;
  body?: string | Uint8Array<ArrayBuffer>;
  headers?: Record<string, string>;
  /** Sends the body without its length. */
  chunked?: boolean;
}

export type Harness = Awaited<ReturnType<typeof startHarness>>;

/** Lets a test wrap or replace parts, to make what the gateway depends on fail. */
export interface Overrides {
  mailer?: (mailer: Mailer) => Mailer;
  emailLog?: (log: EmailLog) => EmailLog;
  jobs?: (jobs: JobStore) => JobStore;
  users?: (users: Users) => Users;
  limits?: GatewayOptions["limits"];
  bodyBytes?: GatewayOptions["bodyBytes"];
  timers?: GatewayOptions["timers"];
  monotonic?: GatewayOptions["monotonic"];
  trustedProxies?: GatewayOptions["trustedProxies"];
  /** For single sign-on: the provider has to know the address before the start. By default the system chooses one. */
  port?: number;
  singleSignOn?: (pool: Pool) => NonNullable<GatewayOptions["dashboard"]["singleSignOn"]>;
}

const accountRules = async () => parseDestinationRules("");
const LOOPBACK = "127.0.0.0/8,::1/128";

/** A gateway on a real socket, over real PostgreSQL and a real SMTP server. */
export async function startHarness(overrides: Overrides = {}) {
  const database = await createTestDatabase();
  const pool = createPool({ url: database.url, applicationName: "gateway test" });
  const leasePool = createPool({
    url: database.url,
    applicationName: "gateway test lease",
    max: 1,
  });
  const notifications = createNotifications({
    url: database.url,
    applicationName: "gateway test notifications",
  });
  const keyRing = parseKeyRing(`test:${Buffer.alloc(32, 7).toString("base64")}`);
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  const lines: string[] = [];
  const log = createLogger({ output: lineSink(lines) });
  const rules = parseDestinationRules(LOOPBACK);
  const settings = createSmtpSettingsStore({ pool, keyRing });
  const mailer = createMailer({
    timers,
    monotonic,
    settings,
    dial: createGuardedDial({ rules, accountRules }),
    metrics,
    log,
  });
  const clock = createPostgresClock({ pool, monotonic });
  await clock.start();
  const accounts = createAccounts({ pool });
  const apiKeys = createApiKeys({ pool });
  const store = createPostgresJobStore({ pool, notifications, timers });
  const jobs = overrides.jobs?.(store) ?? store;
  const ledger = createRunLedger({ pool });
  const history = createRunHistory({ pool });
  const queue = createRunQueue({ pool, leasePool, notifications, random: () => 0.5 });
  const emailLog = createEmailLog({ pool });
  const catcher: MailCatcher = await startMailCatcher({
    smtpPort: 0,
    httpPort: 0,
    host: "127.0.0.1",
  });

  const users = createUsers({ pool });
  const gateway = createGateway({
    dashboard: {
      users: overrides.users?.(users) ?? users,
      sessions: createSessions({ pool }),
      accounts,
      smtpSettings: settings,
      signingSecrets: createSigningSecrets({ pool, keyRing }),
      invitations: createInvitations({ pool }),
      brake: createSignInBrake({ pool }),
      ...(overrides.singleSignOn && { singleSignOn: overrides.singleSignOn(pool) }),
      statistics: createDashboardStatistics({ pool }),
      manifest: ({ name, spec }) => ({ kind: "ScheduledJob", metadata: { name }, spec }),
      installation: { version: "0.0.0-test", retentionDays: 90, kubernetes: false },
      files: undefined,
    },
    apiKeys,
    jobs,
    jobIndex: createPostgresJobIndex({ pool, monotonic: () => performance.now() }),
    ledger,
    history,
    circuits: createCircuits({ pool }),
    mailer: overrides.mailer?.(mailer) ?? mailer,
    emailLog: overrides.emailLog?.(emailLog) ?? emailLog,
    otps: createOtps({ pool, keyRing }),
    idempotency: createIdempotencyKeys({
      pool,
      timers,
      report: (error) => {
        throw error;
      },
    }),
    destinations: createDestinationPolicy({ rules, accountRules }),
    otpMessage,
    ready: createReadiness(createDependencyChecks({ jobs: () => jobs.ping() })),
    clock,
    timers: overrides.timers ?? timers,
    monotonic: overrides.monotonic ?? monotonic,
    metrics,
    log,
    version: "0.0.0-test",
    databaseConnections: 10,
    limits: overrides.limits ?? { perSecond: 1_000, burst: 2_000 },
    bodyBytes: overrides.bodyBytes,
    trustedProxies: overrides.trustedProxies ?? parseTrustedProxies([]),
  });
  const server = gateway.server();
  server.listen(overrides.port ?? 0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;

  // These two have SMTP settings that lead to the mail catcher.
  const first = await newAccount("first", catcher.smtpPort);
  const second = await newAccount("second", catcher.smtpPort);
  const withoutSmtp = await newAccount("without-smtp");
  // The discard port: nothing listens on it, and the guard allows it on loopback.
  const brokenSmtp = await newAccount("broken-smtp", 9);

  return {
    port,
    pool,
    catcher,
    metrics,
    lines,
    jobs,
    ledger,
    clock,
    users,
    settings,
    first,
    second,
    withoutSmtp,
    brokenSmtp,
    newAccount,
    request,
    takeUp,
    deliverOne,
    /** How many requests are under way. */
    inFlight: async () =>
      metricValue((await metrics.render()).text, "carillon_http_requests_in_flight") ?? Number.NaN,
    async close() {
      await gateway.close();
      server.closeAllConnections();
      await mailer.close();
      await catcher.close();
      clock.stop();
      await notifications.close();
      await Promise.all([pool.end(), leasePool.end()]);
      await database.drop();
    },
  };

  /** Creates an account with a key, and with SMTP settings if `smtpPort` is given. */
  async function newAccount(name: string, smtpPort?: number) {
    const account = await accounts.create({ name });
    const { raw } = await apiKeys.create(account.id, "test");
    if (smtpPort !== undefined)
      await settings.set(account.id, {
        host: "127.0.0.1",
        port: smtpPort,
        username: null,
        password: null,
        from: "noreply@example.com",
        tls: "none",
      });
    return { account: account.id, key: raw };
  }

  async function request(options: Request): Promise<Reply> {
    const { method = "GET", path, key = first.key } = options;
    const body = options.json === undefined ? options.body : JSON.stringify(options.json);
    const reply = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      redirect: "manual",
      headers: {
        ...(key === null ? {} : { "X-API-Key": key }),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...options.headers,
      },
      ...(body === undefined
        ? {}
        : options.chunked
          ? { body: new Blob([body]).stream(), duplex: "half" }
          : { body }),
    });
    const text = await reply.text();
    const type = reply.headers.get("content-type") ?? "";
    return {
      status: reply.status,
      headers: reply.headers,
      text,
      json:
        text !== "" && type.startsWith("application/json")
          ? (JSON.parse(text) as Record<string, unknown>)
          : {},
    };
  }

  /** Gives the job a cursor, as the controller does first with a new job. */
  async function takeUp(account: string, id: string, change: Partial<Cursor> = {}): Promise<Job> {
    const job = await jobs.get(account, id);
    if (!job) throw new Error(`no job ${id}`);
    const from = (await ledger.cursors([job.uid])).get(job.uid);
    const { conflicts } = await ledger.apply([
      {
        job,
        spec: job.spec,
        from,
        to: aCursor(job, { position: clock.now(), ...change }),
        create: [],
        replace: [],
        missed: [],
      },
    ]);
    if (conflicts.length > 0) throw new Error("conflict");
    return job;
  }

  /** Claims the next run and records its outcome, as a delivery worker does. */
  async function deliverOne(httpStatus: number): Promise<void> {
    const claimed = await queue.claim({
      worker: "test",
      limit: 1,
      until: clock.now() + 1_000,
      leaseMs: 10_000,
    });
    const [run] = claimed;
    if (!run) throw new Error("nothing to deliver");
    await queue.start([run]);
    const success = httpStatus < 300;
    await queue.close([
      {
        run,
        next: "finished",
        execution: {
          status: success ? "success" : "failed",
          httpStatus,
          durationMs: 12,
          errorMessage: success ? null : `the receiver answered ${httpStatus}`,
          executedAt: clock.now(),
        },
      },
    ]);
  }
}

function lineSink(lines: string[]): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString());
      done();
    },
  });
}
