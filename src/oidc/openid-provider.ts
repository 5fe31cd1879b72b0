import {
  allowInsecureRequests,
  AuthorizationResponseError,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  calculatePKCECodeChallenge,
  ClientError,
  ClientSecretBasic,
  ClientSecretPost,
  customFetch,
  discovery,
  enableNonRepudiationChecks,
  fetchUserInfo,
  None,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
  ResponseBodyError,
  WWWAuthenticateChallengeError,
  type ClientAuth,
  type Configuration,
  type CustomFetch,
} from "openid-client";
import type { Monotonic } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type {
  IdentityProvider,
  ProviderPerson,
  SignInChecks,
} from "../domain/ports/single-sign-on.ts";

export interface OpenIdProviderOptions {
  issuer: string;
  clientId: string;
  /** Undefined: a public client, which PKCE alone protects. */
  clientSecret: string | undefined;
  name: string;
  /** Origin of the dashboard. */
  publicUrl: string;
  monotonic: Monotonic;
  /** Seconds for each call to the provider. */
  timeoutSeconds?: number;
}

/** Where the provider sends the browser back to, on the dashboard's public origin. */
export const CALLBACK_PATH = "/dashboard/api/single-sign-on/callback";

/** After so long the provider's metadata is read again; its keys, whenever one is unknown. */
const FRESH_MS = 3_600_000;
const TIMEOUT_SECONDS = 10;
/** Of one answer. Keys and claims have a few kilobytes; megabytes would hold up everybody while they are read. */
const MAX_ANSWER_BYTES = 1_048_576;

/**
 * Authorization code flow with PKCE, state and nonce (OpenID Connect Core 1.0, 3.1). The provider is not called
 * before somebody signs in. The operator chose its address, which may be a private one: these calls do not pass
 * the guard of webhooks.
 */
export function createOpenIdProvider(options: OpenIdProviderOptions): IdentityProvider {
  const { name, publicUrl, monotonic } = options;
  const issuer = new URL(options.issuer);
  const redirectUri = publicUrl + CALLBACK_PATH;
  const timeout = options.timeoutSeconds ?? TIMEOUT_SECONDS;
  let known: { at: number; configuration: Promise<Configuration> } | undefined;

  /** Concurrent callers share one discovery. A failed one is forgotten, so that the next caller tries again. */
  async function discovered(): Promise<Configuration> {
    if (known && monotonic() - known.at < FRESH_MS) return known.configuration;
    const mine = { at: monotonic(), configuration: discover() };
    known = mine;
    try {
      return await mine.configuration;
    } catch (error) {
      if (known === mine) known = undefined;
      throw error;
    }
  }

  async function discover(): Promise<Configuration> {
    try {
      return await discovery(issuer, options.clientId, undefined, clientAuth(options), {
        timeout,
        [customFetch]: fetchWhole,
        // Checks the ID token's signature too, not only the connection that it came over.
        execute: [
          enableNonRepudiationChecks,
          ...(issuer.protocol === "http:" ? [allowInsecureRequests] : []),
        ],
      });
    } catch (cause) {
      throw new DependencyUnavailable(name, { cause });
    }
  }

  async function personOf(
    parameters: Readonly<Record<string, string>>,
    checks: SignInChecks,
  ): Promise<ProviderPerson> {
    const configuration = await discovered();
    const current = new URL(redirectUri);
    for (const [key, value] of Object.entries(parameters)) current.searchParams.set(key, value);
    const tokens = await authorizationCodeGrant(configuration, current, {
      expectedState: checks.state,
      expectedNonce: checks.nonce,
      pkceCodeVerifier: checks.codeVerifier,
      idTokenExpected: true,
    });
    const claims = tokens.claims();
    if (!claims) throw new ClientError("the provider sent no ID token");
    const { sub } = claims;
    // Providers may keep the address for the userinfo endpoint (OpenID Connect Core 1.0, 5.4).
    const about =
      claims["email"] === undefined &&
      configuration.serverMetadata().userinfo_endpoint !== undefined
        ? await fetchUserInfo(configuration, tokens.access_token, sub)
        : claims;
    return {
      issuer: claims.iss,
      subject: sub,
      email: typeof about["email"] === "string" ? about["email"] : undefined,
      emailVerified: about["email_verified"] === true,
    };
  }

  return {
    name,
    publicUrl,
    async begin() {
      const configuration = await discovered();
      const checks = {
        state: randomState(),
        nonce: randomNonce(),
        codeVerifier: randomPKCECodeVerifier(),
      };
      const url = buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: "openid email",
        state: checks.state,
        nonce: checks.nonce,
        code_challenge: await calculatePKCECodeChallenge(checks.codeVerifier),
        code_challenge_method: "S256",
      });
      return { url: url.href, checks };
    },
    async finish(parameters, checks) {
      try {
        return { kind: "person", person: await personOf(parameters, checks) };
      } catch (error) {
        if (error instanceof DependencyUnavailable) throw error;
        if (isSilence(error)) throw new DependencyUnavailable(name, { cause: error });
        if (
          error instanceof ClientError ||
          error instanceof AuthorizationResponseError ||
          error instanceof ResponseBodyError ||
          error instanceof WWWAuthenticateChallengeError
        )
          return { kind: "refused", reason: reasonOf(error) };
        throw error;
      }
    },
  };
}

/** No answer, or one that says that the provider is out of order. */
class Silence extends Error {
  override name = "Silence";
}

function isSilence(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error instanceof Silence || isSilence(error.cause);
}

/** With the provider's code, such as `invalid_grant`, if it gave one; never with what it said about a person. */
function reasonOf(error: Error & { code?: string; error?: unknown }): string {
  const code = typeof error.error === "string" ? error.error.slice(0, 100) : error.code;
  return code === undefined ? error.message : `${error.message} (${code})`;
}

/** Reads the whole answer within the call's time: a connection that breaks in the middle counts as no answer. */
const fetchWhole: CustomFetch = async (url, { signal, duplex, ...options }) => {
  try {
    const answer = await fetch(url, {
      ...options,
      ...(signal ? { signal } : {}),
      ...(duplex ? { duplex } : {}),
    });
    const body = await readWhole(answer);
    if (answer.status >= 500) throw new Error(`the provider answered ${answer.status}`);
    return new Response(answer.status === 204 ? null : body, answer);
  } catch (cause) {
    throw new Silence("the provider does not answer", { cause });
  }
};

/** Counts the bytes as they come, decompressed: an answer that is too large is not read to its end. */
async function readWhole({ body }: Response): Promise<Buffer<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > MAX_ANSWER_BYTES)
      throw new Error(`an answer of more than ${MAX_ANSWER_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}

/** The method that the provider names; `client_secret_basic` when it names none (Discovery 1.0, 3). */
function clientAuth({ clientSecret }: OpenIdProviderOptions): ClientAuth {
  if (clientSecret === undefined) return None();
  const basic = ClientSecretBasic(clientSecret);
  const post = ClientSecretPost(clientSecret);
  return (server, client, body, headers) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    const authenticate = methods.includes("client_secret_basic") ? basic : post;
    authenticate(server, client, body, headers);
  };
}
