import type { Router } from "@koa/router";
import type Koa from "koa";
import type { Static, TSchema } from "typebox";
import type { User } from "../../domain/account.ts";
import { clientAddress, parseTrustedProxies, type TrustedProxies } from "../client-address.ts";
import type { BodyRoom } from "../body-room.ts";
import { answerText, type ApiAnswer } from "../endpoint.ts";
import { ApiError } from "../errors.ts";
import { readIdempotencyKey } from "../idempotency.ts";
import { queryObject } from "../query.ts";
import { BODY_LIMITS, createBodyReader } from "../request-body.ts";
import type { GatewayState } from "../request-envelope.ts";
import type { executionRoutes } from "../routes/executions.ts";
import type { jobRoutes } from "../routes/jobs.ts";
import type { mailRoutes } from "../routes/mail.ts";
import { createValidators } from "../validate.ts";
import { accountRoutes, type AccountRouteOptions } from "./account-routes.ts";
import { credentialRoutes, type CredentialRouteOptions } from "./credential-routes.ts";
import {
  API_PATH,
  DASHBOARD_ENDPOINTS,
  type Access,
  type DashboardEndpoint,
  type DashboardOperation,
} from "./endpoints.ts";
import { dashboardJobRoutes, type DashboardJobRouteOptions } from "./job-routes.ts";
import { overviewRoutes, type OverviewRouteOptions } from "./overview-routes.ts";
import type { DashboardHandler, DashboardRequest } from "./request.ts";
import { refuseCrossOrigin } from "./same-origin.ts";
import { readSessionCookie } from "./session-cookie.ts";
import { sessionRoutes, type SessionRouteOptions } from "./session-routes.ts";
import { singleSignOnRoutes, type SingleSignOnRouteOptions } from "./single-sign-on-routes.ts";
import type { StaticFiles } from "./static-files.ts";

/** What the dashboard needs that the REST API does not. */
export type DashboardOptions = SessionRouteOptions &
  Pick<SingleSignOnRouteOptions, "singleSignOn"> &
  Pick<AccountRouteOptions, "binding"> &
  Pick<CredentialRouteOptions, "apiKeys" | "smtpSettings" | "signingSecrets"> &
  Pick<OverviewRouteOptions, "statistics" | "circuits"> &
  Pick<DashboardJobRouteOptions, "manifest"> & {
    /** The built app; undefined: only its API is served. */
    files: StaticFiles | undefined;
  };

type Parts = DashboardOptions &
  SingleSignOnRouteOptions &
  OverviewRouteOptions &
  CredentialRouteOptions &
  DashboardJobRouteOptions &
  AccountRouteOptions & {
    /** For the bodies of those who are signed in; others' are small. */
    room: BodyRoom;
    /** Default: none. */
    trustedProxies?: TrustedProxies;
    rest: ReturnType<typeof jobRoutes> &
      ReturnType<typeof executionRoutes> &
      ReturnType<typeof mailRoutes>;
  };

type BodyOf<E> = E extends { body: infer S extends TSchema } ? Static<S> : undefined;
type QueryOf<E> = E extends { query: infer S extends TSchema } ? Static<S> : undefined;
type Handlers = {
  [K in DashboardOperation]: DashboardHandler<
    BodyOf<(typeof DASHBOARD_ENDPOINTS)[K]>,
    QueryOf<(typeof DASHBOARD_ENDPOINTS)[K]>
  >;
};

/** Puts the dashboard's own API and its files on the gateway's router. */
export function routeDashboard(router: Router<GatewayState>, parts: Parts): void {
  const { rest } = parts;
  const trusted = parts.trustedProxies ?? parseTrustedProxies([]);
  const handlers: Handlers = {
    ...sessionRoutes(parts),
    ...singleSignOnRoutes(parts),
    ...credentialRoutes(parts),
    ...overviewRoutes(parts),
    ...dashboardJobRoutes(parts),
    ...accountRoutes(parts),
    createJob: (request) => rest.createJob(request),
    updateJob: (request) => rest.updateJob(request),
    deleteJob: (request) => rest.deleteJob(request),
    pauseJob: (request) => rest.pauseJob(request),
    resumeJob: (request) => rest.resumeJob(request),
    runJob: (request) => rest.runJob(request),
    listExecutions: (request) => rest.listExecutions(request),
    listLogs: (request) => rest.listLogs(request),
  };
  const validators = createValidators();
  const readers = {
    open: createBodyReader({ limitBytes: BODY_LIMITS.open }),
    normal: createBodyReader({ limitBytes: BODY_LIMITS.normal }),
  };
  for (const [id, endpoint] of Object.entries(DASHBOARD_ENDPOINTS) as [
    DashboardOperation,
    DashboardEndpoint,
  ][])
    route(endpoint, handlers[id]);

  const { files } = parts;
  if (!files) return;
  router.get(["/dashboard", "/dashboard/"], (ctx) => page(ctx, ""));
  // Not the API's own paths, of which GET would be a method then.
  router.get(/^\/dashboard\/(?!api(?:\/|$))/, (ctx) =>
    page(ctx, ctx.path.slice("/dashboard/".length)),
  );

  async function page(ctx: Koa.ParameterizedContext<GatewayState>, path: string): Promise<void> {
    ctx.state.route = "/dashboard";
    if (ctx.path === "/dashboard") {
      ctx.redirect("/dashboard/");
      return;
    }
    await files?.serve(ctx, path);
  }

  /** 403 for another site, 401, 403 for the role, then 400 and whatever the handler says. */
  function route(endpoint: DashboardEndpoint, handler: DashboardHandler): void {
    const checkQuery = validators.compile(endpoint.query);
    const checkBody = endpoint.body ? validators.compile(endpoint.body) : undefined;
    const readBody = endpoint.access === "open" ? readers.open : readers.normal;
    const path = API_PATH + endpoint.path;
    router.register(path.replaceAll(/\{(\w+)\}/g, ":$1"), [endpoint.method], async (ctx) => {
      ctx.state.route = path;
      const host = ctx.get("host");
      const origin = ctx.get("origin");
      if (endpoint.method !== "GET")
        refuseCrossOrigin({ host, origin, secFetchSite: ctx.get("sec-fetch-site") });
      const cookies = ctx.get("cookie");
      const token = readSessionCookie(cookies, host);
      const session =
        endpoint.access === "open" ? undefined : await authorised(endpoint.access, token);
      const user = session?.user;
      if (user) ctx.state.account = user.account;
      const query = checkQuery(queryObject(ctx.querystring, endpoint.query));
      const account = user?.account ?? "";
      const answering = async (): Promise<ApiAnswer> => {
        const json = checkBody ? await readBody(ctx) : undefined;
        const request: DashboardRequest = {
          account,
          requestId: ctx.state.requestId,
          params: ctx.params,
          query,
          body: checkBody?.(json?.value),
          json,
          idempotencyKey: readIdempotencyKey(ctx.headers["idempotency-key"]?.toString()),
          user,
          token,
          fresh: session?.fresh ?? false,
          cookies,
          host,
          origin,
          client: clientAddress({
            peer: ctx.ip,
            forwardedFor: ctx.get("x-forwarded-for"),
            trusted,
          }),
        };
        // The validators have just made it what the handler takes.
        return handler(request as DashboardRequest<never, never>);
      };
      const bytes = checkBody ? readBody.mostBytes(ctx) : 0;
      const answer = await parts.room.within({ account, bytes }, answering);
      ctx.status = answer.status;
      ctx.set({ ...answer.headers });
      ctx.type = "application/json";
      ctx.body = answerText(answer);
    });
  }

  async function authorised(
    access: Exclude<Access, "open">,
    token: string | undefined,
  ): Promise<{ user: User; fresh: boolean }> {
    const session = token === undefined ? undefined : await parts.sessions.authenticate(token);
    if (!session) throw new ApiError("signed_out", "you are not signed in");
    const { user } = session;
    if (access === "owner" && user.role !== "owner")
      throw new ApiError("forbidden", "only owners of the account may do this");
    if (access === "admin" && !user.admin)
      throw new ApiError("forbidden", "only administrators of the installation may do this");
    return session;
  }
}
