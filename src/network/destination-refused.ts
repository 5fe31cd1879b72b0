import type { Protocol } from "./blocked-ports.ts";

const SETTING =
  "an operator can allow it with CARILLON_ALLOW_DESTINATIONS or `carillon admin account allow`";

/**
 * The same text whatever is behind the destination: it repeats what the caller gave and never says what it resolved to,
 * whether anything listens there, or which of several addresses was refused.
 */
export function refusalText(protocol: Protocol, host: string, port: number): string {
  return protocol === "smtp"
    ? `destination refused: ${host}:${port} is not a public address and one of the ports 25, 465, 587, 2525; ${SETTING}`
    : `destination refused: ${host}:${port} is not a public address, or not a port that may be called; ${SETTING}`;
}

/** The guard does not let this connection be made. Permanent until an operator changes a rule. */
export class DestinationRefused extends Error {
  override name = "DestinationRefused";
  readonly code = "EREFUSED_DESTINATION";
  constructor(protocol: Protocol, host: string, port: number) {
    super(refusalText(protocol, host, port));
  }
}
