import { randomUUID } from "node:crypto";
import type Koa from "koa";
import type { Monotonic } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { createSwarmWarning } from "../telemetry/swarm-warning.ts";
import { ApiError, errorAnswer } from "./errors.ts";

export interface GatewayState {
  /** Always made here: a client cannot choose it. */
  requestId: string;
  /** The route's pattern; undefined while none matched. */
  route?: string;
  account?: string;
  keyId?: string;
  /** The dashboard's user. */
  userId?: string;
  /** The address of who has no session yet, such as for a sign-in. */
  client?: string;
  /** What the path names: a job, a key, a user. */
  id?: string;
}

/**
 * nginx's status for a client that went away before its answer began. koa's status is still 404 then, which
 * would look like an answer.
 */
const UNANSWERED = "499";

/** Label values are a fixed set, whatever a client sends. */
const METHODS = new Set(["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"]);

const SECURITY_HEADERS = {
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-store",
};

/**
 * Around every request: its id, headers, one line of log, metrics, and the one place where an error
 * becomes an answer. Query strings, bodies and keys are not logged.
 */
export function requestEnvelope(options: {
  metrics: Metrics;
  log: Logger;
  monotonic: Monotonic;
}): Koa.Middleware<GatewayState> {
  const { metrics, log, monotonic } = options;
  const message = "dependency unavailable";
  /**
   * By dependency and kind of error. An outage fails every request, and must not write a line for each: its cause may
   * be a full disk.
   */
  const outages = new Map<string, ReturnType<typeof createSwarmWarning>>();
  return async (ctx, next) => {
    const began = monotonic();
    ctx.state.requestId = randomUUID().replaceAll("-", "");
    ctx.set(SECURITY_HEADERS);
    ctx.set("X-Request-Id", ctx.state.requestId);
    metrics.httpRequestsInFlight.inc();
    ctx.res.once("close", finished);
    try {
      refuseMalformed(ctx);
      await next();
      answerUnrouted(ctx);
    } catch (error) {
      answerError(ctx, error);
    }

    function finished(): void {
      metrics.httpRequestsInFlight.dec();
      const seconds = (monotonic() - began) / 1_000;
      const labels = {
        method: METHODS.has(ctx.method) ? ctx.method : "OTHER",
        route: ctx.state.route ?? "unmatched",
        status: ctx.res.headersSent ? String(ctx.res.statusCode) : UNANSWERED,
      };
      metrics.httpRequests.inc(labels);
      metrics.httpRequestDuration.observe(labels, seconds);
      log.info(
        {
          ...labels,
          request_id: ctx.state.requestId,
          account: ctx.state.account,
          key_id: ctx.state.keyId,
          user_id: ctx.state.userId,
          client: ctx.state.client,
          id: ctx.state.id,
          duration_ms: Math.round(seconds * 1_000),
          // The client went away before the answer was out.
          ...(ctx.res.writableFinished ? {} : { aborted: true }),
        },
        "request",
      );
    }
  };

  function answerError(ctx: Koa.ParameterizedContext<GatewayState>, error: unknown): void {
    const answer = errorAnswer(error);
    const about = { request_id: ctx.state.requestId };
    if (answer.unexpected) log.error({ err: error, ...about }, "unexpected error");
    else if (error instanceof DependencyUnavailable) {
      const outage = `${error.name} ${error.dependency}`;
      const warn = outages.get(outage) ?? createSwarmWarning({ log, monotonic, message });
      outages.set(outage, warn);
      warn({ err: error, ...about });
    } else if (answer.body.code === "dependency_unavailable")
      log.warn({ err: error, ...about }, message);
    if (answer.body.code === "rate_limited") metrics.rateLimited.inc();
    ctx.status = answer.status;
    ctx.set({ ...answer.headers });
    ctx.type = "application/json";
    ctx.body = JSON.stringify(answer.body);
    // The unread rest of the body is thrown away, so that a client that is still sending gets to the answer.
    if (!ctx.req.readableEnded) ctx.req.resume();
  }
}

/** Refuses what Node accepts and HTTP does not. */
function refuseMalformed(ctx: Koa.ParameterizedContext<GatewayState>): void {
  if (ctx.req.httpVersion === "1.1" && ctx.get("host") === "")
    throw new ApiError("malformed_request", "the Host header is missing");
  // RFC 9112, 3.2: a proxy before us may have used the other one.
  if ((ctx.req.headersDistinct["host"]?.length ?? 0) > 1)
    throw new ApiError("malformed_request", "the Host header is given more than once");
  const form = ctx.url.startsWith("/") || /^https?:\/\//i.test(ctx.url) || ctx.url === "*";
  if (!form || !hasPath(ctx))
    throw new ApiError("malformed_request", "the request target cannot be read");
}

/** False: a target in absolute form that is no URL, such as `http://[::1/`, for which koa throws. */
function hasPath(ctx: Koa.ParameterizedContext<GatewayState>): boolean {
  try {
    return ctx.path !== "";
  } catch {
    return false;
  }
}

/** Answers 404, 405 and OPTIONS, which the router leaves without a body. */
function answerUnrouted(ctx: Koa.ParameterizedContext<GatewayState>): void {
  if (ctx.body !== undefined && ctx.body !== null && ctx.body !== "") return;
  // For a path that it does not know, the router's Allow is empty, whatever the request's method.
  const allowed = ctx.res.hasHeader("Allow") && ctx.response.get("Allow") !== "";
  if (!allowed) ctx.remove("Allow");
  if (ctx.method === "OPTIONS" && (allowed || ctx.url === "*")) {
    ctx.status = 204;
    return;
  }
  const refused = ctx.status === 405 || ctx.status === 501;
  if (ctx.status === 404 || ctx.method === "OPTIONS" || (refused && !allowed))
    throw new ApiError("not_found", "no such route: /docs and /openapi.json list them all");
  if (refused)
    throw new ApiError(
      "method_not_allowed",
      `${ctx.method} is not allowed here: use ${ctx.response.get("Allow")}`,
    );
}
