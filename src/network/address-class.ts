import { BlockList, isIP, SocketAddress } from "node:net";
import { SPECIAL_IPV4, SPECIAL_IPV6, type SpecialBlock } from "./special-addresses.ts";

/**
 * `global`: anybody may be called there. `private`: only by rule, or as a service of the account's own
 * namespace. `never`: only by rule (loopback, link-local, multicast and the like).
 */
export type AddressClass = "global" | "private" | "never";

interface Row {
  bits: number;
  list: BlockList;
  reach: SpecialBlock["reach"];
}

/** A list for each block, the most specific first: the first hit decides. */
function compile(blocks: readonly SpecialBlock[], family: "ipv4" | "ipv6"): Row[] {
  return blocks
    .map(({ cidr, reach }) => {
      const [network = "", prefix] = cidr.split("/");
      const list = new BlockList();
      list.addSubnet(network, Number(prefix), family);
      return { bits: Number(prefix), list, reach };
    })
    .toSorted((a, b) => b.bits - a.bits);
}

const IPV4 = compile(SPECIAL_IPV4, "ipv4");
const IPV6 = compile(SPECIAL_IPV6, "ipv6");

/** Throws TypeError for a text that is no address: a host name here would be a hole in the guard. */
export function classifyAddress(address: string): AddressClass {
  const family = isIP(address);
  if (family === 0) throw new TypeError(`not an IP address: ${address}`);
  if (family === 4) return lookUp(IPV4, new SocketAddress({ address })) ?? "global";
  // A zone (fe80::1%eth0) is only meaningful on this machine's links.
  if (address.includes("%")) return "never";
  return lookUp(IPV6, new SocketAddress({ address, family: "ipv6" })) ?? "never";
}

function lookUp(rows: readonly Row[], address: SocketAddress): AddressClass | undefined {
  const row = rows.find(({ list }) => list.check(address));
  if (row === undefined) return undefined;
  if (row.reach !== "embeds") return row.reach;
  return classifyAddress(embeddedIpv4(address.address));
}

/**
 * `::ffff:127.0.0.1` names the same endpoint as `127.0.0.1`: rules are written for the latter.
 * Other addresses are returned in their canonical spelling.
 */
export function canonicalAddress(address: string): string {
  if (isIP(address) !== 6 || address.includes("%")) return address;
  const canonical = new SocketAddress({ address, family: "ipv6" }).address;
  return MAPPED.check(canonical, "ipv6") ? embeddedIpv4(canonical) : canonical;
}

const MAPPED =
  compile([{ cidr: "::ffff:0:0/96", name: "IPv4-mapped", reach: "embeds" }], "ipv6")[0]?.list ??
  new BlockList();

/** The last 32 bits of an IPv6 address in any spelling. */
function embeddedIpv4(address: string): string {
  const dotted = /\d+\.\d+\.\d+\.\d+$/.exec(address);
  if (dotted) return dotted[0];
  const groups = address.split(":").slice(-2);
  const [high = 0, low = 0] = groups.map((group) =>
    Number.parseInt(group === "" ? "0" : group, 16),
  );
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}
