import { randomBytes } from "node:crypto";
import type { Server } from "node:http";
import { getHeapStatistics } from "node:v8";
import { Router } from "@koa/router";
import Koa from "koa";
import type { MailMessage } from "../domain/mail.ts";
import type { ApiKeys } from "../domain/ports/accounts.ts";
import type { Circuits } from "../domain/ports/circuits.ts";
import type { Clock, Monotonic, Timers } from "../domain/ports/clock.ts";
import type { DashboardStatistics } from "../domain/ports/dashboard.ts";
import type { DestinationPolicy } from "../domain/ports/destination-policy.ts";
import type { IdempotencyKeys } from "../domain/ports/idempotency-keys.ts";
import type { JobIndex } from "../domain/ports/job-index.ts";
import type { JobStore } from "../domain/ports/job-store.ts";
import type { EmailLog, Mailer, Otps } from "../domain/ports/mail.ts";
import type { RunHistory } from "../domain/ports/run-history.ts";
import type { RunLedger } from "../domain/ports/run-ledger.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Readiness } from "../telemetry/readiness.ts";
import { within } from "../waiting/within.ts";
import { createAnswerRoom } from "./answer-room.ts";
import { authenticate } from "./authenticate.ts";
import type { TrustedProxies } from "./client-address.ts";
import { dashboardPage } from "./dashboard-page.ts";
import { createJobInventory } from "./dashboard/job-inventory.ts";
import { routeDashboard, type DashboardOptions } from "./dashboard/dashboard-router.ts";
import { docsPage } from "./docs-page.ts";
import { bodyRoomBytes, createBodyRoom } from "./body-room.ts";
import type { ApiRequest, Handler } from "./endpoint.ts";
import { routeEndpoint, type BodyOf, type QueryOf } from "./endpoint-route.ts";
import { createHttpServer, DRAIN_MS, type HttpServer } from "./http-server.ts";
import { openApiDocument } from "./openapi.ts";
import type { Page } from "./page.ts";
import { createListTurns, type InTurn } from "./read-turns.ts";
import { createRateLimiter, type RateLimits } from "./rate-limit.ts";
import { BODY_LIMITS, createBodyReader } from "./request-body.ts";
import { requestEnvelope, type GatewayState } from "./request-envelope.ts";
import { executionRoutes } from "./routes/executions.ts";
import { jobRoutes } from "./routes/jobs.ts";
import { mailRoutes } from "./routes/mail.ts";
import { serviceRoutes } from "./routes/service.ts";
import { ENDPOINTS, type EndpointDefinition, type OperationId } from "./schema/endpoints.ts";

export interface GatewayOptions {
  apiKeys: ApiKeys;
  jobs: JobStore;
  /** The same jobs, for the dashboard's lists. */
  jobIndex: JobIndex;
  ledger: RunLedger;
  history: RunHistory;
  circuits: Pick<Circuits, "list">;
  mailer: Mailer;
  emailLog: EmailLog;
  otps: Otps;
  idempotency: IdempotencyKeys;
  destinations: DestinationPolicy;
  otpMessage: (passcode: { to: string; code: string; minutes: number }) => MailMessage;
  /** For /readyz: asks everything that the gateway depends on. */
  ready: Readiness;
  clock: Clock;
  timers: Timers;
  monotonic: Monotonic;
  metrics: Metrics;
  log: Logger;
  /** For the OpenAPI document. */
  version: string;
  /** Per API key and process. */
  limits: RateLimits;
  /** Bytes of request bodies at a time; see createBodyRoom. Default: bodyRoomBytes. */
  bodyBytes?: number;
  /** Connections to PostgreSQL that the stores have: lists do not take all of them. */
  databaseConnections: number;
  /** Whose X-Forwarded-For is believed. */
  trustedProxies: TrustedProxies;
  /** Sign-in, the dashboard's API and its pages. */
  dashboard: DashboardOptions;
}

export interface Gateway {
  /** The HTTP server, which also answers in JSON what never becomes a request. Call once, then listen. */
  server(): Server;
  /**
   * Stops accepting; resolves when the last answer is out and the work for clients who have gone away is done, after
   * 25 s at most.
   */
  close(): Promise<void>;
  /** Resolves when no work for a request is under way. */
  workDone(): Promise<void>;
}

type Handlers = {
  [K in OperationId]: Handler<BodyOf<(typeof ENDPOINTS)[K]>, QueryOf<(typeof ENDPOINTS)[K]>>;
};

/** The room of answers for that of bodies: an answer is in memory once, a body several times over. */
const ANSWERS_TO_BODIES = 4;

/** The REST API over the domain's ports. Knows no database, mail or Kubernetes library. */
export function createGateway(given: GatewayOptions): Gateway {
  const turns = createListTurns({ connections: given.databaseConnections, timers: given.timers });
  const options = readingInTurn(given, turns.read);
  const { log, metrics } = options;
  const report = (error: unknown) => {
    log.warn({ err: error }, "after the answer");
  };
  const openApi = openApiDocument({ version: options.version });
  const rest = {
    ...mailRoutes({ ...options, report }),
    ...jobRoutes({
      ...options,
      pageInTurn: turns.page,
      listInTurn: turns.list,
      randomBytes,
      report,
    }),
    ...executionRoutes(options),
  };
  const handlers: Handlers = {
    ...rest,
    ...serviceRoutes({ ready: options.ready, openApi }),
  };

  const app = new Koa<GatewayState>();
  // No error output of koa's own: the envelope answers and logs.
  app.silent = true;
  const router = new Router<GatewayState>({ sensitive: true });
  const limiter = createRateLimiter({ ...options.limits, monotonic: options.monotonic });
  const bytes =
    options.bodyBytes ??
    bodyRoomBytes({
      heapLimit: getHeapStatistics().heap_size_limit,
      memoryLimit: process.constrainedMemory(),
    });
  const room = createBodyRoom({ bytes, timers: options.timers });
  const answers = createAnswerRoom({ bytes: ANSWERS_TO_BODIES * bytes });
  const readers = {
    normal: createBodyReader({ limitBytes: BODY_LIMITS.normal }),
    large: createBodyReader({ limitBytes: BODY_LIMITS.send }),
  };

  for (const [id, endpoint] of Object.entries(ENDPOINTS) as [OperationId, EndpointDefinition][])
    route(endpoint, handlers[id]);
  servePage(docsPage(openApi, options.limits));
  const inventory = createJobInventory({ ...options, ...options.dashboard });
  routeDashboard(router, {
    ...options,
    ...options.dashboard,
    inventory,
    rest,
    report,
    room,
    answers,
  });
  if (!options.dashboard.files) servePage(dashboardPage());
  router.get("/", (ctx) => {
    ctx.body = { service: "carillon", docs: "/docs", openapi: "/openapi.json" };
  });

  app.use(requestEnvelope({ metrics, log, monotonic: options.monotonic }));
  app.use(router.routes());
  app.use(router.allowedMethods());

  const respond = app.callback();
  /** The work for requests: it may go on long after the client has gone away. */
  const work = new Set<Promise<void>>();
  let http: HttpServer | undefined;
  return {
    server: () => (http ??= createHttpServer({ handle, metrics })).server,
    async close() {
      if (!http?.server.listening) return;
      await within(DRAIN_MS, http.end(options.timers).then(workDone), options.timers);
    },
    workDone,
  };

  async function handle(...request: Parameters<typeof respond>): Promise<void> {
    const mine = respond(...request);
    work.add(mine);
    await mine.finally(() => work.delete(mine));
  }

  async function workDone(): Promise<void> {
    await Promise.allSettled(work);
  }

  /** Refusals in this order: 401, 429, 400 and the like, then what the handler refuses. */
  function route(endpoint: EndpointDefinition, handler: Handler): void {
    routeEndpoint<ApiRequest>(router, {
      path: endpoint.path,
      endpoint,
      admit: async (ctx, again) => {
        if (!endpoint.authenticated) return { account: "" };
        const caller = await authenticate(options.apiKeys, ctx.get("x-api-key"));
        const { keyId, account, smtpRevision } = caller;
        ctx.state.account = account;
        ctx.state.keyId = keyId;
        if (!again) ctx.set(limiter.take(keyId));
        return { account, smtpRevision };
      },
      handler,
      bodies: endpoint.largeBody ? readers.large : readers.normal,
      room,
      answers,
    });
  }

  function servePage(page: Page): void {
    // Bytes, as in `serviceRoutes`.
    const html = Buffer.from(page.html);
    for (const path of page.paths)
      router.get(path, (ctx) => {
        ctx.state.route = page.paths[0] ?? path;
        ctx.set("Content-Security-Policy", page.contentSecurityPolicy);
        ctx.type = "text/html";
        ctx.body = html;
      });
  }
}

/** The options with the queries for lists run in turn: PostgreSQL takes long for them where there is much. */
function readingInTurn(options: GatewayOptions, inTurn: InTurn): GatewayOptions {
  const { emailLog, history, dashboard } = options;
  return {
    ...options,
    emailLog: { ...emailLog, list: (query) => inTurn(query.account, () => emailLog.list(query)) },
    history: {
      ...history,
      executions: (query) => inTurn(query.account, () => history.executions(query)),
      executionsAndMissed: (query) =>
        inTurn(query.account, () => history.executionsAndMissed(query)),
    },
    dashboard: { ...dashboard, statistics: inTurns(dashboard.statistics) },
  };

  function inTurns(statistics: DashboardStatistics): DashboardStatistics {
    return {
      activity: (query) => inTurn(query.account, () => statistics.activity(query)),
      otps: (account, days) => inTurn(account, () => statistics.otps(account, days)),
      statusCursors: (account) => inTurn(account, () => statistics.statusCursors(account)),
      lastRuns: (account, status) => inTurn(account, () => statistics.lastRuns(account, status)),
    };
  }
}
