import type { Sessions } from "../../domain/ports/accounts.ts";
import type { Monotonic } from "../../domain/ports/clock.ts";
import { DependencyUnavailable } from "../../domain/ports/dependency-unavailable.ts";
import type {
  Identities,
  IdentityProvider,
  SingleSignOns,
} from "../../domain/ports/single-sign-on.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { ApiAnswer } from "../endpoint.ts";
import { ApiError } from "../errors.ts";
import { createTokenBuckets } from "../rate-limit.ts";
import type { DashboardRequest } from "./request.ts";
import type { CallbackQuery, SingleSignOn } from "./schemas.ts";
import { readSingleSignOnCookie, sessionCookie, singleSignOnCookie } from "./session-cookie.ts";

interface Parts {
  provider: IdentityProvider;
  attempts: SingleSignOns;
  identities: Identities;
}

export interface SingleSignOnRouteOptions {
  sessions: Pick<Sessions, "create" | "delete">;
  /** Undefined: no provider is configured. */
  singleSignOn?: Parts;
  monotonic: Monotonic;
  log: Pick<Logger, "warn" | "error">;
}

/** Sign-ins that the clients of one address may begin. Anybody can, and each is kept for ten minutes. */
const BEGINNINGS = { perSecond: 10, burst: 100 };

/** Why nobody is signed in. The page puts it into words, so that a forged link cannot show its own text. */
type Reason =
  | Exclude<Awaited<ReturnType<Identities["userOf"] | Identities["accept"]>>["kind"], "user">
  /** No sign-in is under way in this browser, or no longer. */
  | "expired"
  | "refused"
  | "unavailable"
  | "failed";

/**
 * Sign-in through an OpenID provider. The page asks where to go and navigates there itself: the redirects of a
 * submitted form would have to be allowed by the page's policy (`form-action`).
 */
export function singleSignOnRoutes(options: SingleSignOnRouteOptions) {
  const { sessions, monotonic, log } = options;
  const beginningsOf = createTokenBuckets({ ...BEGINNINGS, monotonic });
  return {
    async beginSingleSignOn(request: DashboardRequest<SingleSignOn>): Promise<ApiAnswer> {
      const { origin, host, token, client, body } = request;
      const { provider, attempts } = configured();
      if (origin !== provider.publicUrl)
        throw new ApiError(
          "invalid_request",
          `sign in with ${provider.name} at ${provider.publicUrl}/dashboard/: the provider sends you back there`,
        );
      if (!beginningsOf(client).take())
        throw new ApiError(
          "sign_in_delayed",
          "too many sign-ins have been begun from your network: try again in a second",
          { retryAfterSeconds: 1 },
        );
      const { url, checks } = await beginAtProvider(provider);
      // Ended here: the session cookie does not come along from the provider's site, and the callback could not end it.
      if (token !== undefined) await sessions.delete(token);
      const attempt = await attempts.begin(checks);
      // The invitation's token travels with the browser, which has it anyway; here only its hash is kept.
      const cookie = body.invitation === undefined ? attempt : `${attempt}.${body.invitation}`;
      return {
        status: 200,
        body: { url },
        headers: { "Set-Cookie": singleSignOnCookie(cookie, host, checks.state) },
      };
    },

    async finishSingleSignOn(
      request: DashboardRequest<undefined, CallbackQuery>,
    ): Promise<ApiAnswer> {
      const parts = configured();
      const { host, requestId, cookies, query } = request;
      const { state = "" } = query;
      const cookie = readSingleSignOnCookie(cookies, host, state);
      // Another sign-in may be under way in this browser: its cookie stays.
      if (cookie === undefined) return notSignedIn("expired");
      const removed = singleSignOnCookie(null, host, state);
      try {
        const result = await finish(parts, cookie, request);
        if (typeof result === "string") return notSignedIn(result, removed);
        if (request.token !== undefined) await sessions.delete(request.token);
        // Always a new session: nobody can make a user sign in to a session known to others.
        const session = await sessions.create(result.user);
        if (!session) return notSignedIn("unknown", removed);
        return redirect("/dashboard/", removed, sessionCookie(session.token, host));
      } catch (error) {
        // This is a person's browser, not a program: whatever happens, it is sent back to the page.
        log.error({ err: error, request_id: requestId }, "single sign-on failed");
        return notSignedIn("failed", removed);
      }
    },
  };

  function configured(): Parts {
    if (!options.singleSignOn)
      throw new ApiError("not_found", "single sign-on is not configured (CARILLON_OIDC_ISSUER)");
    return options.singleSignOn;
  }

  async function finish(
    { provider, attempts, identities }: Parts,
    cookie: string,
    request: DashboardRequest<undefined, CallbackQuery>,
  ): Promise<Reason | { user: string }> {
    const { query, requestId: request_id } = request;
    const [attempt = "", invitation] = cookie.split(".");
    // Taken before the provider is asked: the same callback finds nothing a second time.
    const checks = await attempts.take(attempt);
    if (!checks) return "expired";
    const outcome = await provider.finish(query, checks).catch((error: unknown) => {
      if (!(error instanceof DependencyUnavailable)) throw error;
      log.warn({ err: error, request_id }, "single sign-on: the provider does not answer");
      return undefined;
    });
    if (!outcome) return "unavailable";
    if (outcome.kind === "refused") {
      log.warn({ reason: outcome.reason, request_id }, "single sign-on refused");
      return "refused";
    }
    const { person } = outcome;
    const known = await identities.userOf(person);
    const invited = known.kind === "unknown" && invitation !== undefined;
    const found = invited ? await identities.accept(invitation, person) : known;
    return found.kind === "user" ? { user: found.user.id } : found.kind;
  }
}

async function beginAtProvider(provider: IdentityProvider) {
  try {
    return await provider.begin();
  } catch (error) {
    if (!(error instanceof DependencyUnavailable)) throw error;
    throw new ApiError(
      "dependency_unavailable",
      `${provider.name} does not answer: try again later, or sign in with your password`,
      { retryAfterSeconds: 5, cause: error },
    );
  }
}

/** The reason is in the fragment, which goes to no server and into no log. */
function notSignedIn(reason: Reason, ...cookies: string[]): ApiAnswer {
  return redirect(`/dashboard/#sign-in=${reason}`, ...cookies);
}

function redirect(location: string, ...cookies: string[]): ApiAnswer {
  return {
    status: 303,
    body: { message: "see the dashboard" },
    headers: { Location: location, ...(cookies.length > 0 && { "Set-Cookie": cookies }) },
  };
}
