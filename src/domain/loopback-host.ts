/**
 * Whether the host of a URL or of a Host header is this machine itself: `localhost:8080`, `127.0.0.1`, `[::1]`,
 * `a.localhost`. Passwords and sessions go there over plain http, too.
 */
export function isLoopbackHost(host: string): boolean {
  const name = host.replace(/:\d+$/, "").toLowerCase();
  return (
    name === "localhost" ||
    name.endsWith(".localhost") ||
    name === "[::1]" ||
    /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(name)
  );
}
