import { BlockList, isIP, SocketAddress } from "node:net";
import { InvalidInput } from "../domain/findings.ts";

/** The proxies whose X-Forwarded-For is believed. */
export interface TrustedProxies {
  has(address: string): boolean;
}

/** `cidrs` may also be single addresses. Throws InvalidInput that names the first that is neither. */
export function parseTrustedProxies(cidrs: readonly string[]): TrustedProxies {
  // A list of both would take IPv4 addresses for ::ffff:0:0/96, so that `::/0` would trust all of them.
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() };
  for (const cidr of cidrs) {
    const [network = "", prefix, more] = cidr.split("/");
    const version = isIP(network);
    const widest = version === 6 ? 128 : 32;
    const bits = /^\d{1,3}$/.test(prefix ?? String(widest)) ? Number(prefix ?? widest) : Infinity;
    // Mapped peers are compared as IPv4, so that ::ffff:10.0.0.0/104 would trust nobody: refused.
    const plain = canonical(network)?.version === version && !network.includes("%");
    if (!plain || more !== undefined || bits > widest)
      throw new InvalidInput([
        { field: "", message: `"${cidr}" is not a CIDR, for instance 10.0.0.0/8 or fd00::/8` },
      ]);
    lists[family(version)].addSubnet(network, bits, family(version));
  }
  return {
    has(address) {
      const kind = family(isIP(address));
      return lists[kind].check(address, kind);
    },
  };
}

/**
 * The client that a request is counted for: the peer, unless that is a trusted proxy. Then it is the rightmost hop
 * of X-Forwarded-For that is not one (anybody can write what stands further left), the leftmost hop when all are
 * trusted, and the peer when a hop cannot be read. IPv6 addresses are cut to their /64, which is what one client has.
 */
export function clientAddress(request: {
  /** The socket's; empty when the client is gone. */
  peer: string;
  /** The header, empty when there is none. */
  forwardedFor: string;
  trusted: TrustedProxies;
}): string {
  const { peer, forwardedFor, trusted } = request;
  const peerAddress = canonical(peer);
  if (peerAddress === undefined) return peer;
  let client = peerAddress;
  const hops = forwardedFor.split(",");
  while (trusted.has(client.address)) {
    const hop = hops.pop();
    if (hop === undefined) break;
    const next = canonical(withoutPort(hop.trim()));
    if (next === undefined) return keyOf(peerAddress);
    client = next;
  }
  return keyOf(client);
}

interface Address {
  address: string;
  version: 4 | 6;
}

/**
 * `::ffff:192.0.2.1` becomes 192.0.2.1. A zone is dropped, since it names a link of this machine. Undefined: not an
 * address.
 */
function canonical(text: string): Address | undefined {
  const [address = ""] = text.split("%");
  const version = isIP(address);
  if (version === 0) return undefined;
  if (version === 4) return { address, version: 4 };
  const six = new SocketAddress({ address, family: "ipv6" }).address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(six)?.[1];
  return mapped === undefined ? { address: six, version: 6 } : { address: mapped, version: 4 };
}

/** Some proxies add a port: `192.0.2.1:50000`, `[2001:db8::1]:50000`. */
function withoutPort(hop: string): string {
  const parts = /^(?:\[([^\]]*)\]|([\d.]+))(?::\d{1,5})?$/.exec(hop);
  return parts?.[1] ?? parts?.[2] ?? hop;
}

function keyOf({ address, version }: Address): string {
  if (version === 4) return address;
  const [left = [], right = []] = address
    .split("::")
    .map((half) => half.split(":").filter((group) => group !== ""));
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => "0");
  return `${[...left, ...zeros, ...right].slice(0, 4).join(":")}::/64`;
}

function family(version: number): "ipv4" | "ipv6" {
  return version === 6 ? "ipv6" : "ipv4";
}
