/**
 * The session cookie. `__Host-` binds it to this very host and to TLS (RFC 6265bis 4.1.3.2), so that no
 * sibling domain can plant one. On plain http browsers refuse such a cookie; there it has another name,
 * and only on the loopback, where the traffic never leaves the machine.
 */
const SECURE_NAME = "__Host-carillon_session";
const LOOPBACK_NAME = "carillon_session";

/** Seven days, as long as the session itself. */
const MAX_AGE_SECONDS = 7 * 86_400;

/** Whether the Host header names this machine itself: `localhost:8080`, `127.0.0.1`, `[::1]`, `a.localhost`. */
export function isLoopbackHost(host: string): boolean {
  const name = host.replace(/:\d+$/, "").toLowerCase();
  return (
    name === "localhost" ||
    name.endsWith(".localhost") ||
    name === "[::1]" ||
    /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(name)
  );
}

/** The session token among the cookies of a request to `host`; undefined when there is none. */
export function readSessionCookie(header: string, host: string): string | undefined {
  const names = isLoopbackHost(host) ? [SECURE_NAME, LOOPBACK_NAME] : [SECURE_NAME];
  for (const pair of header.split(";")) {
    const equals = pair.indexOf("=");
    if (equals !== -1 && names.includes(pair.slice(0, equals).trim()))
      return pair.slice(equals + 1).trim();
  }
  return undefined;
}

/** `Set-Cookie` that stores the token, or with null takes it away. */
export function sessionCookie(token: string | null, host: string): string {
  const secure = !isLoopbackHost(host);
  return [
    `${secure ? SECURE_NAME : LOOPBACK_NAME}=${token ?? ""}`,
    "Path=/",
    `Max-Age=${token === null ? 0 : MAX_AGE_SECONDS}`,
    "HttpOnly",
    "SameSite=Strict",
    ...(secure ? ["Secure"] : []),
  ].join("; ");
}
