import { describe, expect, test } from "vitest";
import { classifyAddress, type AddressClass } from "../../../src/network/address-class.ts";
import { createDestinationPolicy } from "../../../src/network/destination-policy.ts";
import { parseDestinationRules } from "../../../src/network/destination-rules.ts";

const ADDRESSES: Record<AddressClass, readonly string[]> = {
  global: [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "192.175.48.6",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2000::1",
    "2001:200::1",
    "2001:3::1",
    "2001:4:112::1",
    "2001:20::1",
    "2001:2f:ffff::1",
    "2001:30::1",
    "2001:4860:4860::8888",
    "2001:db7::1",
    "2001:db9::1",
    "2003::1",
    "2606:4700:4700::1111",
    "2620:4f:8000::6",
    "2a00:1450::1",
    "3ffe:ffff::1",
    "3fff:1000::1",
    "::ffff:8.8.8.8",
    "::ffff:808:808",
    "0:0:0:0:0:ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "64:ff9b::808:808",
  ],
  private: [
    "10.0.0.0",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.0",
    "100.100.100.199",
    "100.100.100.201",
    "100.127.255.255",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.0",
    "192.0.0.1",
    "192.0.0.7",
    "192.0.0.8",
    "192.0.0.170",
    "192.0.0.171",
    "192.0.0.255",
    "192.0.2.0",
    "192.0.2.255",
    "192.88.99.0",
    "192.88.99.2",
    "192.168.0.0",
    "192.168.255.255",
    "198.18.0.0",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "240.0.0.0",
    "255.255.255.254",
    "::ffff:10.0.0.1",
    "::ffff:a00:1",
    "::ffff:192.168.1.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::a00:1",
    "64:ff9b::c0a8:101",
    "100::",
    "100::1",
    "100:0:0:1::1",
    "2001:1::",
    "2001:2::1",
    "2001:2:0:ffff::1",
    "2001:10::1",
    "2001:1f:ffff::1",
    "2001:5::1",
    "2001:100::1",
    "2001:1ff:ffff::1",
    "2001:db8::1",
    "2001:db8:ffff::1",
    "3fff::1",
    "3fff:fff::1",
    "4000::1",
    "5f00::1",
    "5fff::1",
    "6000::1",
    "8000::1",
    "c000::1",
    "e000::1",
    "fc00::1",
    "fd00::1",
    "fd00:42::43",
    "fd00:ec1:ffff::1",
    "fd00:ec3::254",
    "fd20:ce::253",
    "fdff:ffff::1",
    "fec0::1",
    "feff::1",
    "1::1",
    "200::1",
    "400::1",
  ],
  never: [
    "0.0.0.0",
    "0.0.0.1",
    "0.255.255.255",
    "100.100.100.200",
    "127.0.0.0",
    "127.0.0.1",
    "127.1.2.3",
    "127.255.255.255",
    "168.63.129.16",
    "169.254.0.0",
    "169.254.169.254",
    "169.254.255.255",
    "192.0.0.9",
    "192.0.0.10",
    "192.0.0.192",
    "224.0.0.0",
    "224.0.0.251",
    "239.255.255.255",
    "255.255.255.255",
    "::",
    "::1",
    "0:0:0:0:0:0:0:1",
    "0000:0000:0000:0000:0000:0000:0000:0001",
    "::7f00:1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::FFFF:127.0.0.1",
    "::ffff:7f00:1",
    "0:0:0:0:0:ffff:7f00:0001",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::ffff:0.0.0.0",
    "::ffff:224.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::169.254.169.254",
    "64:ff9b::",
    "64:ff9b:1::",
    "64:ff9b:1::8.8.8.8",
    "64:ff9b:1:ffff::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:1::1",
    "2001:1::2",
    "2001:1::3",
    "2002::1",
    "2002:7f00:1::1",
    "2002:a00:1::",
    "2002:808:808::1",
    "::ffff:100.100.100.200",
    "64:ff9b::6464:64c8",
    "fd00:42::42",
    "fd00:100::100:200",
    "fd00:a9fe:a9fe::1",
    "fd00:c1::a9fe:a9fe",
    "fd00:ec2::23",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::",
    "fe80::1",
    "fe80::1%eth0",
    "febf:ffff::1",
    "ff00::1",
    "ff02::1",
    "ff0e::1",
    "2606:4700::1%eth0",
  ],
};

const rows = Object.entries(ADDRESSES).flatMap(([expected, addresses]) =>
  addresses.map((address) => ({ address, expected })),
);

test("the table is as long as it must be, and has no double", () => {
  expect(rows.length).toBeGreaterThanOrEqual(150);
  expect(new Set(rows.map(({ address }) => address)).size).toBe(rows.length);
});

test.each(rows)("$address is $expected", ({ address, expected }) => {
  expect(classifyAddress(address)).toBe(expected);
});

test.each(["localhost", "", "127.1", "0x7f000001", "1.2.3.4.5"])("%j is no address", (text) => {
  expect(() => classifyAddress(text)).toThrow(TypeError);
});

const none = parseDestinationRules("");
const policy = (rules = "", own = "") =>
  createDestinationPolicy({
    rules: parseDestinationRules(rules),
    accountRules: async () => parseDestinationRules(own),
  });

async function text(host: string): Promise<string | undefined> {
  return (await policy().refusal("a", new URL(`http://${host}/`)))?.replace(host, "HOST");
}

describe("URLs at POST", () => {
  test.each([
    "http://127.0.0.1/",
    "http://127.1/",
    "http://0x7f.1/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://017700000001/",
    "http://127。0。0。1/",
    "http://127.0.0.1./",
    "http://①②⑦.0.0.1/",
    "http://0/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://%31%32%37.0.0.1/",
    "http://localhost/",
    "http://LOCALHOST./",
    "http://a.localhost/",
    "http://10.0.0.1/",
    "http://169.254.169.254/latest/",
    "http://[fe80::1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://user@example.com/",
    "http://:pw@example.com/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "http://example.com:22/",
    "http://example.com:25/",
    ...[2375, 2379, 5432, 6379, 6443, 10250, 11211].map((port) => `https://example.com:${port}/`),
    "https://8.8.8.8:5432/",
  ])("%s is refused", async (url) => {
    expect(await policy().refusal("a", new URL(url))).toEqual(expect.any(String));
  });

  test.each([
    "http://example.com/",
    "https://example.com:8443/x?y",
    "http://8.8.8.8/",
    "http://0x8080808/",
    "https://[2606:4700::1111]/",
  ])("%s is allowed", async (url) => {
    expect(await policy().refusal("a", new URL(url))).toBeNull();
  });

  test("rules of the installation and of the account open addresses and ports", async () => {
    const local = new URL("http://127.0.0.1:6379/");
    expect(await policy("127.0.0.0/8").refusal("a", local)).toBeNull();
    expect(await policy("", "127.0.0.1/32:6379").refusal("a", local)).toBeNull();
    for (const url of ["https://127.0.0.1/", "http://127.0.0.1:443/"])
      expect(await policy("127.0.0.1/32:443").refusal("a", new URL(url))).toBeNull();
    expect(await policy("", "127.0.0.1/32:80").refusal("a", local)).toContain(
      "CARILLON_ALLOW_DESTINATIONS",
    );
  });

  test.each([
    { rules: "10.0.0.0/8", allowed: true },
    { rules: "10.0.0.0/8:5432", allowed: true },
    { rules: "10.0.0.0/8:6379, fd00::/8, 10.0.0.0/8:80", allowed: true },
    { rules: "10.0.0.0/8:6379, 10.0.0.0/8:5432", allowed: true },
    { rules: "10.0.0.0/8:6379", allowed: false },
  ])("a name's port, by $rules: $allowed", async ({ rules, allowed }) => {
    const url = new URL("http://database.example:5432/");
    expect((await policy(rules).refusal("a", url)) === null).toBe(allowed);
    expect((await policy("", rules).refusal("a", url)) === null).toBe(allowed);
  });

  test.each([
    { server: "smtp.example.com:587", allowed: true },
    { server: "smtp.example.com:2525", allowed: true },
    { server: "smtp.example.com:443", allowed: false },
    { server: "8.8.8.8:25", allowed: true },
    { server: "8.8.8.8:26", allowed: false },
    { server: "10.0.0.1:587", allowed: false },
    { server: "localhost:587", allowed: false },
    { server: "[::1]:587", allowed: false },
    { server: "[2606:4700::1111]:587", allowed: true },
    { server: "10.0.0.1:587", rules: "10.0.0.0/8", allowed: true },
    { server: "[::1]:1025", rules: "::1/128:1025", allowed: true },
    { server: "smtp.internal:26", rules: "10.0.0.0/8:26", allowed: true },
  ])("a mail server, $server, by $rules: $allowed", async ({ server, rules = "", allowed }) => {
    const [, host = "", port] = /^(.*):(\d+)$/.exec(server) ?? [];
    for (const each of [policy(rules), policy("", rules)]) {
      const refusal = await each.mailServerRefusal("a", { host, port: Number(port) });
      expect(refusal?.split(" is not ")[0]).toBe(
        allowed ? undefined : `destination refused: ${server}`,
      );
    }
  });

  test.each([
    { url: "http://10.0.0.1/", says: "10.0.0.1:80 is not a public address;" },
    { url: "https://example.com:5432/", says: "webhooks do not call port 5432;" },
    { url: "http://10.0.0.1:22/", says: "webhooks do not call port 22;" },
  ])("says whether the address or the port is the reason: $url", async ({ url, says }) => {
    expect(await policy("").refusal("a", new URL(url))).toContain(says);
  });
  test.each([
    { host: "10.0.0.1", port: 587, says: "10.0.0.1:587 is not a public address;" },
    { host: "smtp.example.com", port: 443, says: "not on port 25, 465, 587 or 2525;" },
  ])("of a mail server, too: $host:$port", async ({ says, ...server }) => {
    expect(await policy("").mailServerRefusal("a", server)).toContain(says);
  });

  test("the text is the same whatever is behind", async () => {
    expect(await text("10.0.0.1")).toBe(await text("127.0.0.1"));
    expect(await text("169.254.169.254")).toBe(await text("127.0.0.1"));
  });
});

describe("rules", () => {
  test.each([
    { rule: "10.0.0.0/8", address: "10.1.2.3", port: 80, allowed: true },
    { rule: "10.0.0.0/8", address: "11.1.2.3", port: 80, allowed: false },
    { rule: "10.0.0.0/8", address: "::ffff:10.1.2.3", port: 80, allowed: true },
    { rule: "::ffff:10.0.0.0/104", address: "10.1.2.3", port: 80, allowed: true },
    { rule: "10.1.2.3", address: "10.1.2.3", port: 80, allowed: true },
    { rule: "10.1.2.3:8080", address: "10.1.2.3", port: 80, allowed: false },
    { rule: "10.1.2.3/32:8080", address: "10.1.2.3", port: 8080, allowed: true },
    { rule: "::1/128", address: "::1", port: 1, allowed: true },
    { rule: "fd00::1", address: "fd00::1", port: 1, allowed: true },
    { rule: "fd00::1", address: "fd00::2", port: 1, allowed: false },
    { rule: "::1/128:8080", address: "::1", port: 8080, allowed: true },
    { rule: "::1/128:8080", address: "::1", port: 8081, allowed: false },
    { rule: "[::1]:8080", address: "::1", port: 8080, allowed: true },
    { rule: "fd00::/8, 10.0.0.0/8", address: "fd12::1", port: 443, allowed: true },
    { rule: "10.0.0.0/8, 192.168.0.0/16", address: "10.1.2.3", port: 80, allowed: true },
    { rule: "::ffff:0:0/96", address: "10.1.2.3", port: 80, allowed: true },
    { rule: "fe80::/10", address: "fe80::1%eth0", port: 80, allowed: false },
    { rule: "", address: "127.0.0.1", port: 80, allowed: false },
    { rule: "::/0", address: "::1", port: 80, allowed: true },
    { rule: "::/0", address: "127.0.0.1", port: 80, allowed: false },
    { rule: "::/1", address: "::ffff:169.254.169.254", port: 80, allowed: false },
  ])("$rule on $address port $port: $allowed", ({ rule, address, port, allowed }) => {
    expect(parseDestinationRules(rule).allows(address, port)).toBe(allowed);
  });

  test.each([
    "10.0.0.0/33",
    "10.0.0/8",
    "example.com",
    "10.0.0.1:0",
    "10.0.0.1:65536",
    "::1/129",
    "*",
    "10.0.0.0/8:http",
    "fe80::1%eth0",
    "::ffff:0:0/95",
    "10.0.0.0/",
  ])("%j is refused", (rule) => {
    expect(() => parseDestinationRules(rule)).toThrow(rule);
  });

  test("nothing is allowed by nothing", () => {
    expect(none.allowsPort(80)).toBe(false);
  });
});
