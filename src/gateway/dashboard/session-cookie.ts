import { SESSION_DAYS } from "../../domain/account.ts";
import { isLoopbackHost } from "../../domain/loopback-host.ts";

/**
 * A cookie of this very host. `__Host-` binds it to host and TLS (RFC 6265bis 4.1.3.2), so that no sibling
 * domain can plant one. On plain http browsers refuse such a cookie; there it has another name, and only
 * on the loopback, where the traffic never leaves the machine.
 */
interface HostCookie {
  /** Without the prefix. */
  name: string;
  maxAgeSeconds: number;
  sameSite: "Strict" | "Lax";
}

/** As long as the session itself. */
const SESSION: HostCookie = {
  name: "carillon_session",
  maxAgeSeconds: SESSION_DAYS * 86_400,
  sameSite: "Strict",
};

/**
 * The cookie of one sign-in, named by its `state`, so that a sign-in in a second tab does not overwrite it. Lax: the
 * browser must send it when the provider redirects back to us.
 */
function singleSignOn(state: string): HostCookie {
  return {
    name: `carillon_single_sign_on_${state.slice(0, 8)}`,
    maxAgeSeconds: 600,
    sameSite: "Lax",
  };
}

/** The form of our own states; what comes back may be anything. */
const STATE = /^[\w-]{8,}$/;

/** The session token among the cookies of a request to `host`; undefined when there is none. */
export function readSessionCookie(header: string, host: string): string | undefined {
  return read(SESSION, header, host);
}

/** `Set-Cookie` that stores the token, or with null takes it away. */
export function sessionCookie(token: string | null, host: string): string {
  return write(SESSION, token, host);
}

/** The token of the sign-in of this state that is under way at the provider. */
export function readSingleSignOnCookie(
  header: string,
  host: string,
  state: string,
): string | undefined {
  return STATE.test(state) ? read(singleSignOn(state), header, host) : undefined;
}

export function singleSignOnCookie(token: string | null, host: string, state: string): string {
  return write(singleSignOn(state), token, host);
}

/**
 * One cookie of the header. Around names only spaces and tabs are left out, and not what else counts as white space, such
 * as U+00A0: a browser may let a sibling domain set a cookie of that name, since it has no prefix.
 */
const PAIR = /^[ \t]*([^ \t=]+)[ \t]*=[ \t]*([^ \t]*)[ \t]*$/;

function read({ name }: HostCookie, header: string, host: string): string | undefined {
  const names = isLoopbackHost(host) ? [`__Host-${name}`, name] : [`__Host-${name}`];
  for (const pair of header.split(";")) {
    const [, found = "", value] = PAIR.exec(pair) ?? [];
    if (names.includes(found)) return value;
  }
  return undefined;
}

function write(cookie: HostCookie, token: string | null, host: string): string {
  const { name, maxAgeSeconds, sameSite } = cookie;
  const secure = !isLoopbackHost(host);
  return [
    `${secure ? "__Host-" : ""}${name}=${token ?? ""}`,
    "Path=/",
    `Max-Age=${token === null ? 0 : maxAgeSeconds}`,
    "HttpOnly",
    `SameSite=${sameSite}`,
    ...(secure ? ["Secure"] : []),
  ].join("; ");
}
