import { BlockList, isIP } from "node:net";
import { InvalidInput } from "../domain/findings.ts";
import { canonicalAddress } from "./address-class.ts";

/** What an operator allows besides global addresses. */
export interface DestinationRules {
  allows(address: string, port: number): boolean;
  /** Whether any address at all may be reached on this port: all that can be told without DNS. */
  allowsPort(port: number): boolean;
}

/**
 * `CIDR[:port]` rules, comma-separated: `127.0.0.0/8`, `10.1.2.3/32:8443`, `fd00::/8`, `::1/128:8080`.
 * An address alone stands for itself; IPv6 with a port may be bracketed (`[::1]:8080`). A rule without
 * a port allows every port. Throws InvalidInput with the first text that is not a rule.
 */
export function parseDestinationRules(text: string): DestinationRules {
  // By family and port. In a list of both families, IPv4 addresses match IPv6 rules as ::ffff:0:0/96: `::/0` would
  // allow the loopback of both.
  const lists = new Map<string, BlockList>();
  const ports = new Set<number>();
  let anyPort = false;
  for (const part of text.split(",")) {
    const rule = part.trim();
    if (rule === "") continue;
    const { network, bits, port } = parseRule(rule);
    anyPort ||= port === null;
    if (port !== null) ports.add(port);
    const key = `${family(network)} ${port ?? "*"}`;
    const list = lists.get(key) ?? new BlockList();
    lists.set(key, list);
    list.addSubnet(network, bits, family(network));
  }
  return {
    allows: (address, port) => {
      const canonical = canonicalAddress(address);
      if (isIP(canonical) === 0 || canonical.includes("%")) return false;
      const kind = family(canonical);
      return ["*", port].some((of) => lists.get(`${kind} ${of}`)?.check(canonical, kind) ?? false);
    },
    allowsPort: (port) => anyPort || ports.has(port),
  };
}

const RULE =
  /^(?:\[(?<bracketed>[^\]]+)\]|(?<four>[\d.]+)|(?<six>[\da-f:.]+)(?=\/))(?:\/(?<bits>\d{1,3}))?(?::(?<port>\d{1,5}))?$/i;

function parseRule(rule: string): { network: string; bits: number; port: number | null } {
  // In an IPv6 address without a prefix all colons belong to the address; only brackets tell the port's (`[::1]:80`).
  const parts = isIP(rule) === 0 ? RULE.exec(rule)?.groups : { six: rule };
  const address = parts?.["bracketed"] ?? parts?.["four"] ?? parts?.["six"] ?? "";
  const version = isIP(address);
  const widest = version === 6 ? 128 : 32;
  const bits = parts?.["bits"] === undefined ? widest : Number(parts["bits"]);
  const port = parts?.["port"] === undefined ? null : Number(parts["port"]);
  if (
    version === 0 ||
    address.includes("%") ||
    bits > widest ||
    (port !== null && (port < 1 || port > 65_535))
  )
    throw new InvalidInput([
      {
        field: "",
        message: `"${rule}" is not CIDR[:port], for instance 10.0.0.0/8 or ::1/128:8080`,
      },
    ]);
  // A rule for ::ffff:10.0.0.0/104 would never match: addresses are compared in their canonical form, which is IPv4.
  const network = canonicalAddress(address);
  if (version === 6 && isIP(network) === 4) {
    if (bits < 96)
      throw new InvalidInput([{ field: "", message: `"${rule}": write it as an IPv4 network` }]);
    return { network, bits: bits - 96, port };
  }
  return { network, bits, port };
}

function family(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 6 ? "ipv6" : "ipv4";
}
