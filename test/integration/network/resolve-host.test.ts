import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createLookup } from "../../../src/network/resolve-host.ts";
import { until } from "../../until.ts";
import { startDnsServer, type DnsServer } from "./dns-server.ts";

let dns: DnsServer;
beforeAll(async () => {
  dns = await startDnsServer((name, asked) => {
    // Queries for AAAA are answered at once: there is none.
    if (name === "slow.example" && (asked === 1 || asked === 2)) return undefined;
    if (name === "many.example") return Array.from({ length: 100 }, (_, i) => `203.0.114.${i}`);
    if (name === "both.example") {
      const both = ["203.0.114.7", "2606:4700:0:0:0:0:0:1"];
      return asked === 1 ? undefined : both;
    }
    return name === "known.example" || name === "slow.example" ? ["203.0.114.7"] : null;
  });
});
afterAll(() => {
  dns.close();
});

/** In milliseconds: more than a test may take. */
const PATIENT = 60_000;

/** A lookup with a system resolver that does not answer until it is told to. */
function stuckSystem(patience: number) {
  const asked: string[] = [];
  const waiting = new Map<string, PromiseWithResolvers<string[]>>();
  const lookup = createLookup({
    servers: () => [dns.address],
    patience,
    system: (host) => {
      asked.push(host);
      const answer = Promise.withResolvers<string[]>();
      waiting.set(host, answer);
      return answer.promise;
    },
  });
  return {
    lookup: async (host: string) => (await lookup(host)).addresses,
    asked,
    answer: (host: string, addresses: string[]) => waiting.get(host)?.resolve(addresses),
    fail: (host: string) =>
      waiting.get(host)?.reject(Object.assign(new Error("no"), { code: "ENOTFOUND" })),
  };
}

/** Waits until DNS has been asked for all of them. */
async function askedDns(names: readonly string[]): Promise<void> {
  await until("all names asked for", () => names.every((name) => dns.asked.includes(name)));
}

test("of very many addresses the first are taken, each of which is to be checked", async () => {
  const { lookup } = stuckSystem(PATIENT);
  const addresses = await lookup("many.example");
  expect(addresses).toHaveLength(64);
  expect(addresses).toContain("203.0.114.63");
});

test("of very many addresses of the system's, which does not say of which kind, the first are taken", async () => {
  const many = Array.from({ length: 300 }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
  const lookup = createLookup({ servers: () => [dns.address], system: async () => many });
  expect(await lookup("many")).toEqual({ addresses: many.slice(0, 128), bySystem: true });
});

test("of a name that both questions were answered for no timer is left", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const { lookup } = stuckSystem(PATIENT);
    await lookup("known.example");
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test("a server that was quick may take more than two seconds for a name", async () => {
  const { lookup } = stuckSystem(PATIENT);
  for (let n = 0; n < 5; n += 1) await lookup("known.example");
  expect(await lookup("slow.example")).toEqual(["203.0.114.7"]);
});

test("a lost question for A is asked again, although AAAA is there", async () => {
  const { lookup } = stuckSystem(PATIENT);
  expect(await lookup("both.example")).toEqual(["203.0.114.7", "2606:4700::1"]);
});

describe("names that DNS does not know and the system's resolver does not answer", () => {
  test("take one thread, and nobody else's", async () => {
    const { lookup, asked, answer } = stuckSystem(PATIENT);
    const names = ["one.dead.example", "two.dead.example", "three.dead.example"];
    const answers = names.map((name) => lookup(name));
    await until("the first", () => asked.length > 0);
    await askedDns(names);
    // After this round trip to DNS, the system would have been asked for the others, too.
    expect(await lookup("known.example")).toEqual(["203.0.114.7"]);
    expect(asked).toHaveLength(1);

    const plain = lookup("database");
    await until("the name without a dot", () => asked.includes("database"));
    answer("database", ["10.0.0.5"]);
    expect(await plain).toEqual(["10.0.0.5"]);

    for (let turn = 1; turn <= names.length; turn += 1) {
      const name = await until(
        "the next",
        () => asked.filter((one) => one !== "database")[turn - 1],
      );
      answer(name, [`10.0.0.${turn}`]);
    }
    expect((await Promise.all(answers)).flat().toSorted()).toEqual([
      "10.0.0.1",
      "10.0.0.2",
      "10.0.0.3",
    ]);
  });

  test("are not asked for when nobody waits for them any more", async () => {
    const { lookup, asked, answer } = stuckSystem(200);
    const stuck = lookup("stuck.dead.example");
    await until("the first", () => asked.length > 0);
    await expect(lookup("late.dead.example")).rejects.toMatchObject({ code: "EAI_AGAIN" });
    answer("stuck.dead.example", ["10.0.0.1"]);
    expect(await stuck).toEqual(["10.0.0.1"]);
    const next = lookup("next.dead.example");
    await until("the next", () => asked.includes("next.dead.example"));
    answer("next.dead.example", ["10.0.0.2"]);
    expect(await next).toEqual(["10.0.0.2"]);
    expect(asked).toEqual(["stuck.dead.example", "next.dead.example"]);
  });

  test("leave the turn to the next when they fail", async () => {
    const { lookup, asked, answer, fail } = stuckSystem(PATIENT);
    const absent = lookup("absent.dead.example");
    await until("the first", () => asked.length > 0);
    const next = lookup("after.dead.example");
    fail("absent.dead.example");
    await expect(absent).rejects.toMatchObject({ code: "ENOTFOUND" });
    await until("the next", () => asked.includes("after.dead.example"));
    answer("after.dead.example", ["10.0.0.2"]);
    expect(await next).toEqual(["10.0.0.2"]);
  });
});

test("the system's resolver is asked for the hosts file's names", async () => {
  const { addresses } = await createLookup({ servers: () => [dns.address] })("localhost");
  expect(["127.0.0.1", "::1"]).toEqual(expect.arrayContaining(addresses));
});

test("the servers of a network that was left are asked no longer than until they fail", async () => {
  // Nobody listens on the discard port.
  let servers = ["127.0.0.1:9"];
  const lookup = createLookup({ servers: () => servers, system: async () => ["10.0.0.5"] });
  expect(await lookup("known.example")).toEqual({ addresses: ["10.0.0.5"], bySystem: true });
  servers = [dns.address];
  expect(await lookup("known.example")).toEqual({ addresses: ["10.0.0.5"], bySystem: true });
  expect(await lookup("known.example")).toEqual({ addresses: ["203.0.114.7"] });
});
