import { isIP } from "node:net";
import type { DestinationPolicy } from "../domain/ports/destination-policy.ts";
import { classifyAddress } from "./address-class.ts";
import { portBlocked } from "./blocked-ports.ts";
import { refusalText } from "./destination-refused.ts";
import type { DestinationRules } from "./destination-rules.ts";

/**
 * What can be told about a webhook URL without DNS. The URL has been through the WHATWG parser, which
 * turns every spelling of an IPv4 address (0x7f.1, 2130706433, 127。0。0。1) into the dotted one.
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
      const host = url.hostname.replace(/^\[|\]$/g, "");
      const port = urlPort(url);
      const all = [options.rules, await options.accountRules(account)];
      const address = literal(host);
      const allowed =
        address === null
          ? !portBlocked("webhook", port) || all.some((rules) => rules.allowsPort(port))
          : (classifyAddress(address) === "global" && !portBlocked("webhook", port)) ||
            all.some((rules) => rules.allows(address, port));
      return allowed ? null : refusalText("webhook", url.hostname, port);
    },
  };
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
