/**
 * The IANA special-purpose address registries, complete as of 2025-10:
 * https://www.iana.org/assignments/iana-ipv4-special-registry and …/iana-ipv6-special-registry
 * and the blocks that other registries take out of the unicast space (multicast, site-local, reserved).
 * The most specific row decides. `reach`: `global` as the registry's "Globally Reachable: True";
 * `embeds`: the IPv4 address in the last 32 bits decides; `private` and `never`: see `AddressClass`.
 */
export interface SpecialBlock {
  cidr: string;
  name: string;
  reach: "global" | "embeds" | "private" | "never";
}

export const SPECIAL_IPV4: readonly SpecialBlock[] = [
  { cidr: "0.0.0.0/8", name: "this network", reach: "never" },
  { cidr: "10.0.0.0/8", name: "private use", reach: "private" },
  { cidr: "100.64.0.0/10", name: "shared address space (carrier NAT)", reach: "private" },
  // Not in a registry: there clouds answer their machines, as others do at 169.254.169.254, with their credentials.
  { cidr: "100.100.100.200/32", name: "Alibaba Cloud metadata", reach: "never" },
  { cidr: "127.0.0.0/8", name: "loopback", reach: "never" },
  // Not in a registry, but in Azure's documentation, "What is IP address 168.63.129.16?": there the node's host
  // answers.
  { cidr: "168.63.129.16/32", name: "Azure WireServer", reach: "never" },
  { cidr: "169.254.0.0/16", name: "link-local", reach: "never" },
  { cidr: "172.16.0.0/12", name: "private use", reach: "private" },
  { cidr: "192.0.0.0/24", name: "IETF protocol assignments", reach: "private" },
  { cidr: "192.0.0.0/29", name: "IPv4 service continuity prefix", reach: "private" },
  { cidr: "192.0.0.8/32", name: "IPv4 dummy address", reach: "private" },
  // Globally reachable according to the registry, but the network's own gateway answers.
  { cidr: "192.0.0.9/32", name: "port control protocol anycast", reach: "never" },
  { cidr: "192.0.0.10/32", name: "TURN anycast", reach: "never" },
  { cidr: "192.0.0.170/32", name: "NAT64 discovery", reach: "private" },
  { cidr: "192.0.0.171/32", name: "NAT64 discovery", reach: "private" },
  { cidr: "192.0.0.192/32", name: "Oracle Cloud Classic metadata", reach: "never" },
  { cidr: "192.0.2.0/24", name: "documentation", reach: "private" },
  { cidr: "192.31.196.0/24", name: "AS112", reach: "global" },
  { cidr: "192.52.193.0/24", name: "AMT", reach: "global" },
  { cidr: "192.88.99.0/24", name: "6to4 relay anycast (deprecated)", reach: "private" },
  { cidr: "192.88.99.2/32", name: "6a44 relay anycast", reach: "private" },
  { cidr: "192.168.0.0/16", name: "private use", reach: "private" },
  { cidr: "192.175.48.0/24", name: "AS112 direct delegation", reach: "global" },
  { cidr: "198.18.0.0/15", name: "benchmarking", reach: "private" },
  { cidr: "198.51.100.0/24", name: "documentation", reach: "private" },
  { cidr: "203.0.113.0/24", name: "documentation", reach: "private" },
  { cidr: "224.0.0.0/4", name: "multicast", reach: "never" },
  { cidr: "240.0.0.0/4", name: "reserved", reach: "private" },
  { cidr: "255.255.255.255/32", name: "limited broadcast", reach: "never" },
];

export const SPECIAL_IPV6: readonly SpecialBlock[] = [
  // Everything that IANA has not given out as global unicast (2000::/3) is reserved.
  { cidr: "::/0", name: "reserved", reach: "private" },
  { cidr: "2000::/3", name: "global unicast", reach: "global" },
  { cidr: "::/96", name: "IPv4-compatible (deprecated)", reach: "never" },
  { cidr: "::/128", name: "unspecified", reach: "never" },
  { cidr: "::1/128", name: "loopback", reach: "never" },
  { cidr: "::ffff:0:0/96", name: "IPv4-mapped", reach: "embeds" },
  { cidr: "::ffff:0:0:0/96", name: "IPv4-translated", reach: "never" },
  // With DNS64 every IPv4-only host has such an address: the IPv4 address in it counts.
  { cidr: "64:ff9b::/96", name: "NAT64", reach: "embeds" },
  { cidr: "64:ff9b:1::/48", name: "local-use NAT64", reach: "never" },
  { cidr: "100::/64", name: "discard-only", reach: "private" },
  { cidr: "100:0:0:1::/64", name: "dummy prefix", reach: "private" },
  { cidr: "2001::/23", name: "IETF protocol assignments", reach: "private" },
  { cidr: "2001::/32", name: "Teredo", reach: "never" },
  { cidr: "2001:1::1/128", name: "port control protocol anycast", reach: "never" },
  { cidr: "2001:1::2/128", name: "TURN anycast", reach: "never" },
  { cidr: "2001:1::3/128", name: "DNS-SD service registration anycast", reach: "never" },
  { cidr: "2001:2::/48", name: "benchmarking", reach: "private" },
  { cidr: "2001:3::/32", name: "AMT", reach: "global" },
  { cidr: "2001:4:112::/48", name: "AS112", reach: "global" },
  { cidr: "2001:10::/28", name: "ORCHID (deprecated)", reach: "private" },
  { cidr: "2001:20::/28", name: "ORCHIDv2", reach: "global" },
  { cidr: "2001:30::/28", name: "drone remote ID", reach: "global" },
  { cidr: "2001:db8::/32", name: "documentation", reach: "private" },
  { cidr: "2002::/16", name: "6to4", reach: "never" },
  { cidr: "2620:4f:8000::/48", name: "AS112 direct delegation", reach: "global" },
  { cidr: "3fff::/20", name: "documentation", reach: "private" },
  { cidr: "5f00::/16", name: "segment routing", reach: "private" },
  { cidr: "fc00::/7", name: "unique local", reach: "private" },
  // Clouds have chosen unique local addresses for what answers at 169.254.169.254, or beside it, over IPv4.
  { cidr: "fd00:42::42/128", name: "Scaleway metadata", reach: "never" },
  { cidr: "fd00:100::100:200/128", name: "Alibaba Cloud metadata", reach: "never" },
  { cidr: "fd00:a9fe:a9fe::1/128", name: "Akamai metadata", reach: "never" },
  { cidr: "fd00:c1::a9fe:a9fe/128", name: "Oracle Cloud metadata", reach: "never" },
  { cidr: "fd00:ec2::/32", name: "AWS metadata, Pod Identity, DNS and time", reach: "never" },
  { cidr: "fd20:ce::254/128", name: "Google Cloud metadata", reach: "never" },
  { cidr: "fe80::/10", name: "link-local", reach: "never" },
  { cidr: "fec0::/10", name: "site-local (deprecated)", reach: "private" },
  { cidr: "ff00::/8", name: "multicast", reach: "never" },
];
