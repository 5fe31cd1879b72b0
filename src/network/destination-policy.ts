import { isIP } from "node:net";
import type { DestinationPolicy } from "../domain/ports/destination-policy.ts";
import { classifyAddress } from "./address-class.ts";
import { portBlocked, type Protocol } from "./blocked-ports.ts";
import { refusalText } from "./destination-refused.ts";
import type { DestinationRules } from "./destination-rules.ts";

/**
 * Judges destinations without DNS. A webhook's URL has been through the WHATWG parser, which turns every spelling of an
 * IPv4 address (0x7f.1, 2130706433, 127。0。0。1) into the dotted one.
 */
export function createDestinationPolicy(options: {
  rules: DestinationRules;
  accountRules: (account: string) => Promise<DestinationRules>;
}): DestinationPolicy {
  return {
    refusal: async (account, url) => {
      if (url.protocol !== "http:" && url.protocol !== "https:")
        return "only http and https URLs can be called";
      if (url.username !== "" || url.password !== "")
        return "user info in a URL is refused; use a header instead";
      return judge(account, "webhook", url.hostname, urlPort(url));
    },
    mailServerRefusal: async (account, { host, port }) => judge(account, "smtp", host, port),
  };

  async function judge(
    account: string,
    protocol: Protocol,
    host: string,
    port: number,
  ): Promise<string | null> {
    const all = [options.rules, await options.accountRules(account)];
    const address = literal(host.replace(/^\[|\]$/g, ""));
    const allowed =
      address === null
        ? !portBlocked(protocol, port) || all.some((rules) => rules.allowsPort(port))
        : (classifyAddress(address) === "global" && !portBlocked(protocol, port)) ||
          all.some((rules) => rules.allows(address, port));
    return allowed ? null : refusalText(protocol, host, port);
  }
}

function urlPort(url: URL): number {
  if (url.port !== "") return Number(url.port);
  return url.protocol === "https:" ? 443 : 80;
}

/** RFC 6761: `localhost` and the names below it are the loopback, whatever DNS says. */
function literal(host: string): string | null {
  if (isIP(host) !== 0) return host;
  const name = host.toLowerCase().replace(/\.$/, "");
  return name === "localhost" || name.endsWith(".localhost") ? "127.0.0.1" : null;
}
