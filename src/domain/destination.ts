import type { Target } from "./job.ts";

/**
 * Whom a target calls, as limits, circuits and claims count it: the account and the URL's origin, or
 * the account's SMTP server. Accounts never share a destination: one's failures are not another's.
 */
export function destinationKey(account: string, target: Target): string {
  return `${account} ${target.kind === "webhook" ? originOf(target.url) : "smtp"}`;
}

function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url;
}
