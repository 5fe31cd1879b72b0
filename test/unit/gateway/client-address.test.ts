import { describe, expect, test } from "vitest";
import { clientAddress, parseTrustedProxies } from "../../../src/gateway/client-address.ts";

const NONE: string[] = [];
const PROXIES = ["10.0.0.0/8", "fd00::/8"];

describe("clientAddress", () => {
  const cases: {
    name: string;
    peer: string;
    forwardedFor?: string;
    trusted?: string[];
    is: string;
  }[] = [
    { name: "no proxy", peer: "192.0.2.1", trusted: NONE, is: "192.0.2.1" },
    {
      name: "no proxy is trusted, so the header is the client's own",
      peer: "10.0.0.1",
      forwardedFor: "198.51.100.7",
      trusted: NONE,
      is: "10.0.0.1",
    },
    {
      name: "a peer that is no proxy",
      peer: "192.0.2.1",
      forwardedFor: "198.51.100.7",
      is: "192.0.2.1",
    },
    { name: "a proxy that says nothing of the client", peer: "10.0.0.1", is: "10.0.0.1" },
    { name: "a proxy's word", peer: "10.0.0.1", forwardedFor: "198.51.100.7", is: "198.51.100.7" },
    {
      name: "what the client wrote itself is further left",
      peer: "10.0.0.1",
      forwardedFor: "203.0.113.9, 10.9.9.9, 198.51.100.7",
      is: "198.51.100.7",
    },
    {
      name: "several proxies",
      peer: "10.0.0.1",
      forwardedFor: "203.0.113.9,198.51.100.7, 10.0.0.3 ,10.0.0.2",
      is: "198.51.100.7",
    },
    {
      name: "all are trusted: the furthest",
      peer: "10.0.0.1",
      forwardedFor: "10.0.0.3, 10.0.0.2",
      is: "10.0.0.3",
    },
    { name: "a proxy that says nothing", peer: "10.0.0.1", forwardedFor: " ", is: "10.0.0.1" },
    {
      name: "a peer in IPv6's writing of IPv4",
      peer: "::ffff:10.0.0.1",
      forwardedFor: "::ffff:198.51.100.7",
      is: "198.51.100.7",
    },
    {
      name: "the same in hexadecimal digits",
      peer: "::ffff:a00:1",
      forwardedFor: "::FFFF:C633:6407",
      is: "198.51.100.7",
    },
    {
      name: "with a port",
      peer: "10.0.0.1",
      forwardedFor: "198.51.100.7:50123",
      is: "198.51.100.7",
    },
    {
      name: "IPv6 with a port",
      peer: "fd00::1",
      forwardedFor: "[2001:db8:1:2:3:4:5:6]:50123",
      is: "2001:db8:1:2::/64",
    },
    {
      name: "IPv6 in brackets",
      peer: "fd00::1",
      forwardedFor: "[2001:db8::1]",
      is: "2001:db8:0:0::/64",
    },
    { name: "IPv6 by its /64", peer: "2001:DB8:1:2::abcd", is: "2001:db8:1:2::/64" },
    {
      name: "another address of that /64",
      peer: "2001:db8:1:2:ffff::1",
      trusted: NONE,
      is: "2001:db8:1:2::/64",
    },
    {
      name: "IPv6 with its zeros left out in the network",
      peer: "2001::4:5:6:7:8",
      is: "2001:0:0:4::/64",
    },
    { name: "the loopback", peer: "::1", is: "0:0:0:0::/64" },
    { name: "a link-local peer", peer: "fe80::1%eth0", is: "fe80:0:0:0::/64" },
    ...["unknown", "_hidden", "198.51.100.7.1", "1.2.3.4:", "198.51.100.7;x", "::1]", "", "%"].map(
      (garbage) => ({
        name: `a hop that cannot be read: ${JSON.stringify(garbage)}`,
        peer: "10.0.0.1",
        forwardedFor: `198.51.100.7, ${garbage}`,
        is: "10.0.0.1",
      }),
    ),
    {
      name: "a hop that cannot be read, told of by a proxy behind the peer",
      peer: "10.0.0.1",
      forwardedFor: "garbage, 10.0.0.2",
      is: "10.0.0.1",
    },
    {
      name: "a hop that cannot be read, behind one that can",
      peer: "10.0.0.1",
      forwardedFor: "garbage, 198.51.100.7",
      is: "198.51.100.7",
    },
    { name: "a client that is gone", peer: "", forwardedFor: "198.51.100.7", is: "" },
  ];
  test.each(cases)("$name", ({ peer, forwardedFor = "", trusted = PROXIES, is }) => {
    expect(clientAddress({ peer, forwardedFor, trusted: parseTrustedProxies(trusted) })).toBe(is);
  });
});

describe("parseTrustedProxies", () => {
  test("an address stands for itself", () => {
    const trusted = parseTrustedProxies(["10.1.2.3", "fd00::1"]);
    expect(["10.1.2.3", "10.1.2.4", "fd00::1", "fd00::2"].filter((a) => trusted.has(a))).toEqual([
      "10.1.2.3",
      "fd00::1",
    ]);
  });

  test.each([
    { of: "IPv6", cidr: "::/0", trusted: ["fd00::1"] },
    { of: "IPv4", cidr: "0.0.0.0/0", trusted: ["10.1.2.3"] },
  ])("a network of $of trusts $of alone", ({ cidr, trusted }) => {
    const proxies = parseTrustedProxies([cidr]);
    expect(["10.1.2.3", "fd00::1"].filter((address) => proxies.has(address))).toEqual(trusted);
  });

  test.each(["10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8/8", "10.0.0/8", "proxy", "fe80::1%eth0", ""])(
    "refuses %j",
    (cidr) => {
      expect(() => parseTrustedProxies(["10.0.0.0/8", cidr])).toThrow(`"${cidr}" is not a CIDR`);
    },
  );

  test("refuses IPv4 networks in IPv6's writing, which no peer would be in", () => {
    expect(() => parseTrustedProxies(["::ffff:10.0.0.0/104"])).toThrow("is not a CIDR");
  });
});
