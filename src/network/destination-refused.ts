import { portBlocked, type Protocol } from "./blocked-ports.ts";

const SETTING =
  "an operator can allow it with CARILLON_ALLOW_DESTINATIONS or `carillon admin account allow`";

/**
 * The same text whatever is behind the destination: it repeats what the caller gave and never says what it resolved to,
 * whether anything listens there, or which of several addresses was refused. A closed port is named alone: whether the
 * address would be allowed is not told.
 */
export function refusalText(protocol: Protocol, host: string, port: number): string {
  return `destination refused: ${reason(protocol, host, port)}; ${SETTING}`;
}

function reason(protocol: Protocol, host: string, port: number): string {
  if (!portBlocked(protocol, port)) return `${host}:${port} is not a public address`;
  return protocol === "smtp"
    ? `${host}:${port} is not on port 25, 465, 587 or 2525`
    : `${host}:${port} is not called, as webhooks do not call port ${port}`;
}

/** The guard does not let this connection be made. Permanent until an operator changes a rule. */
export class DestinationRefused extends Error {
  override name = "DestinationRefused";
  readonly code = "EREFUSED_DESTINATION";
  constructor(protocol: Protocol, host: string, port: number) {
    super(refusalText(protocol, host, port));
  }
}
