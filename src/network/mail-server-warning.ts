import { Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import type { DestinationPolicy } from "../domain/ports/destination-policy.ts";

/** Milliseconds for each name server: a person waits for the command. If DNS is slow, there is no warning. */
const RESOLVING = { timeout: 1_000, tries: 1 };
/** A Service: only the cluster's DNS knows it, and whether it may be called depends on the account's namespace. */
const SERVICE = /\.svc(?:\.|$)/i;

/**
 * Why no mail would go to this server, as far as these rules and this machine's DNS can tell; null: no objection.
 */
export async function mailServerWarning(options: {
  policy: Pick<DestinationPolicy, "mailServerRefusal">;
  account: string;
  server: { host: string; port: number };
  /** Default: asks DNS, without the hosts file and search domains. */
  addressesOf?: (host: string) => Promise<readonly string[]>;
}): Promise<string | null> {
  const { policy, account, server, addressesOf = askDns } = options;
  const refusal = await policy.mailServerRefusal(account, server);
  if (refusal !== null || isIP(server.host) !== 0 || SERVICE.test(server.host)) return refusal;
  for (const host of await addressesOf(server.host)) {
    const ofAddress = await policy.mailServerRefusal(account, { ...server, host });
    if (ofAddress !== null) return `${server.host} is ${host}; ${ofAddress}`;
  }
  return null;
}

async function askDns(host: string): Promise<string[]> {
  const resolver = new Resolver(RESOLVING);
  const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  return answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
}
