import type { Router } from "@koa/router";
import type Koa from "koa";
import type { User } from "../../domain/account.ts";
import { clientAddress, type TrustedProxies } from "../client-address.ts";
import type { AnswerRoom } from "../answer-room.ts";
import type { BodyRoom } from "../body-room.ts";
import { routeEndpoint, type BodyOf, type QueryOf } from "../endpoint-route.ts";
import { ApiError } from "../errors.ts";
import { BODY_LIMITS, createBodyReader } from "../request-body.ts";
import type { GatewayState } from "../request-envelope.ts";
import type { executionRoutes } from "../routes/executions.ts";
import type { jobRoutes } from "../routes/jobs.ts";
import type { mailRoutes } from "../routes/mail.ts";
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
  Pick<CredentialRouteOptions, "smtpSettings" | "signingSecrets"> &
  Pick<OverviewRouteOptions, "statistics"> &
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
    /** For the bodies of users who are signed in; all other bodies are small. */
    room: BodyRoom;
    answers: AnswerRoom;
    trustedProxies: TrustedProxies;
    rest: ReturnType<typeof jobRoutes> &
      ReturnType<typeof executionRoutes> &
      ReturnType<typeof mailRoutes>;
  };

type Handlers = {
  [K in DashboardOperation]: DashboardHandler<
    BodyOf<(typeof DASHBOARD_ENDPOINTS)[K]>,
    QueryOf<(typeof DASHBOARD_ENDPOINTS)[K]>
  >;
};

/** Puts the dashboard's own API and its files on the gateway's router. */
export function routeDashboard(router: Router<GatewayState>, parts: Parts): void {
  const { rest } = parts;
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
  // Not the API's paths: GET would then be a method of each of them.
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

  /** Refusals in this order: 403 for another site, 401, 403 for the role, 400, then what the handler refuses. */
  function route(endpoint: DashboardEndpoint, handler: DashboardHandler): void {
    const { access } = endpoint;
    routeEndpoint<DashboardRequest>(router, {
      path: API_PATH + endpoint.path,
      endpoint,
      admit: async (ctx) => {
        const host = ctx.get("host");
        const origin = ctx.get("origin");
        if (endpoint.method !== "GET")
          refuseCrossOrigin({ host, origin, secFetchSite: ctx.get("sec-fetch-site") });
        const cookies = ctx.get("cookie");
        const token = readSessionCookie(cookies, host);
        const session = access === "open" ? undefined : await authorised(access, token);
        const user = session?.user;
        if (user) {
          ctx.state.account = user.account;
          ctx.state.userId = user.id;
        }
        const client = clientAddress({
          peer: ctx.ip,
          forwardedFor: ctx.get("x-forwarded-for"),
          trusted: parts.trustedProxies,
        });
        if (access === "open") ctx.state.client = client;
        const { account = "" } = user ?? {};
        const fresh = session?.fresh ?? false;
        return { account, user, token, fresh, cookies, host, origin, client };
      },
      handler,
      bodies: access === "open" ? readers.open : readers.normal,
      room: parts.room,
      answers: parts.answers,
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
