import type { Addressee } from "./job-outline.ts";

/**
 * Whom a target calls, for limits, circuits and claims: the account and the URL's origin, or the account's SMTP server.
 * Accounts never share a destination, so that the failures of one do not hold up another.
 */
export function destinationKey(account: string, target: Addressee): string {
  return keyOfParts({
    account,
    destination: target.kind === "webhook" ? originOf(target.url) : MAIL_SERVER,
  });
}

/** The part of a `destinationKey` that stands for the account's SMTP server. */
export const MAIL_SERVER = "smtp";

export function isMailServer(key: string): boolean {
  return key.endsWith(` ${MAIL_SERVER}`);
}

/** Makes a `destinationKey` from its parts: an account, which is a uuid, has no space in it. */
export function keyOfParts({
  account,
  destination,
}: {
  account: string;
  destination: string;
}): string {
  return `${account} ${destination}`;
}

/** The parts of a `destinationKey`. */
export function partsOfKey(key: string): { account: string; destination: string } {
  const space = key.indexOf(" ");
  return { account: key.slice(0, space), destination: key.slice(space + 1) };
}

function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url;
}
