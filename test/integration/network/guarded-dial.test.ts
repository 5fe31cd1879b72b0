import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { DestinationRefused } from "../../../src/network/destination-refused.ts";
import { parseDestinationRules } from "../../../src/network/destination-rules.ts";
import { createGuardedDial } from "../../../src/network/guarded-dial.ts";
import { createLookup } from "../../../src/network/resolve-host.ts";
import { aborted } from "../../../src/waiting/until-aborted.ts";
import { outOfFiles } from "../../out-of-files.ts";
import { startDnsServer, type DnsServer } from "./dns-server.ts";

let server: Server;
let port: number;
let connections = 0;
let dns: DnsServer;

beforeAll(async () => {
  server = createServer((socket) => {
    connections += 1;
    socket.on("error", () => undefined);
    socket.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  port = (server.address() as AddressInfo).port;
  dns = await startDnsServer((name, asked) => {
    switch (name) {
      case "loopback.example":
        return ["127.0.0.1"];
      case "mixed.example":
        return ["93.184.216.34", "127.0.0.1"];
      // A global address when it is checked, the loopback when the name is resolved again.
      case "rebinding.example":
        return asked <= 1 ? ["203.0.114.1"] : ["127.0.0.1"];
      case "metadata.example":
        return ["169.254.169.254"];
      case "receiver.team-a.svc.cluster.local":
        return ["10.96.0.9"];
      case "sneaky.team-a.svc.cluster.local":
        return ["127.0.0.1"];
      case "half-silent.example":
        return asked === 0 ? undefined : ["127.0.0.1"];
      case "silent.example":
        return undefined;
      default:
        return null;
    }
  });
});
afterAll(() => {
  server.close();
  dns.close();
});

/** Like the system's resolver, but independent of this machine's name servers. */
const system = async (host: string) => {
  if (host === "localhost") return ["::1", "127.0.0.1"];
  throw Object.assign(new Error(`no such name: ${host}`), { code: "ENOTFOUND" });
};
const none = async () => parseDestinationRules("");
const loopback = async () => ({ addresses: ["127.0.0.1"] });
/** Takes most of a `SHORT` time. */
const slow = async () => {
  await aborted(AbortSignal.timeout(200));
  return loopback();
};
const hangs = async () => new Promise<never>(() => undefined);
/** As if accounts had the names of their namespaces. */
const clusterNamespace = async (account: string) => account;
/** In milliseconds, for dials whose end is waited for. Other dials may take as long as a test. */
const SHORT = { timeoutMs: 300 };
const dialWith = (options: Partial<Parameters<typeof createGuardedDial>[0]> = {}) =>
  createGuardedDial({
    rules: parseDestinationRules(""),
    accountRules: none,
    lookup: createLookup({ servers: () => [dns.address], system }),
    timeoutMs: 30_000,
    ...options,
  });
const to = (host: string, change: object = {}) => ({
  account: "a",
  protocol: "webhook" as const,
  host,
  port,
  ...change,
});

test.each([
  "127.0.0.1",
  "[::1]",
  "localhost",
  "loopback.example",
  "mixed.example",
  "metadata.example",
  "::ffff:127.0.0.1",
  "no-such-host.internal",
])("%s is refused, and nothing is connected", async (host) => {
  const before = connections;
  const error = await dialWith()(to(host)).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(DestinationRefused);
  expect((error as Error).message.replace(host, "HOST")).toBe(
    new DestinationRefused("webhook", "HOST", port).message,
  );
  expect(connections).toBe(before);
});

test.each([
  { what: "the account's rules", dependency: "postgres", change: { accountRules: hangs } },
  {
    what: "the account's namespace",
    dependency: "kubernetes",
    change: { clusterNamespace: hangs },
  },
])("while $what cannot be had, nobody is called, and it is no destination's fault", async (row) => {
  const before = connections;
  const dial = dialWith({ ...SHORT, lookup: loopback, clusterNamespace, ...row.change });
  const error: unknown = await dial(to("web.a.svc")).catch((reason: unknown) => reason);
  expect(error).toMatchObject({ name: "DependencyUnavailable", dependency: row.dependency });
  expect(connections).toBe(before);
});

test.each(["127.0.0.1", "localhost", "receiver.team-a.svc"])(
  "a process that can open no more files calls nobody, and it is no fault of %s",
  async (host) => {
    const said = await outOfFiles(`
      import { parseDestinationRules } from "./src/network/destination-rules.ts";
      import { createGuardedDial } from "./src/network/guarded-dial.ts";
      const dial = createGuardedDial({
        rules: parseDestinationRules("127.0.0.0/8,::1/128"),
        accountRules: async () => parseDestinationRules(""),
        onShortage: (error) => console.log(error.code),
      });
      useUpFiles();
      const request = { account: "a", protocol: "webhook", host: "${host}", port: ${port} };
      await dial(request).catch((error) => console.log(error.name, error.dependency));
    `);
    expect(said).toBe("EMFILE\nDependencyUnavailable machine");
  },
);

test("that holds to the end of the time, most of which the name server took", async () => {
  const dial = dialWith({ ...SHORT, lookup: slow, accountRules: hangs });
  await expect(dial(to("web.example"))).rejects.toMatchObject({ dependency: "postgres" });
});

test("a name server that is silent about a Service is no failure of Kubernetes", async () => {
  const dial = dialWith({ ...SHORT, lookup: hangs, clusterNamespace });
  await expect(dial(to("web.a.svc"))).rejects.toMatchObject({ code: "ETIMEDOUT" });
});

test("a name that changes between check and connect gains nothing", async () => {
  const before = connections;
  // 203.0.114.1 cannot be reached here: what counts is that the loopback was not reached.
  const dial = dialWith({ timeoutMs: 1_500 });
  await expect(dial(to("rebinding.example"))).rejects.not.toBeInstanceOf(DestinationRefused);
  expect(dns.asked.filter((name) => name === "rebinding.example")).toHaveLength(1);
  expect(connections).toBe(before);
  // The second answer is checked like the first.
  await expect(dialWith()(to("rebinding.example"))).rejects.toBeInstanceOf(DestinationRefused);
  expect(connections).toBe(before);
});

test("a rule of the installation or of the account opens the way", async () => {
  const rules = parseDestinationRules(`127.0.0.1/32:${port}`);
  for (const options of [{ rules }, { accountRules: async () => rules }]) {
    const socket = await dialWith(options)(to("loopback.example"));
    expect(socket.remoteAddress).toBe("127.0.0.1");
    socket.destroy();
  }
  await expect(
    dialWith({ rules: parseDestinationRules("127.0.0.1/32:1") })(to("loopback.example")),
  ).rejects.toBeInstanceOf(DestinationRefused);
});

test("services of the account's own namespace only, and never the loopback", async () => {
  const dial = dialWith({ clusterNamespace });
  const name = "receiver.team-a.svc.cluster.local";
  // It is allowed, and then nobody answers at 10.96.0.9.
  const ends = dialWith({ clusterNamespace, ...SHORT });
  const own = await ends(to(name, { account: "team-a", port: 80 })).catch((e: unknown) => e);
  expect(own).not.toBeInstanceOf(DestinationRefused);
  for (const request of [
    to(name, { account: "team-b", port: 80 }),
    to("sneaky.team-a.svc.cluster.local", { account: "team-a", port: 80 }),
    to(name, { account: "team-a", port: 6443 }),
  ])
    await expect(dial(request)).rejects.toBeInstanceOf(DestinationRefused);
});

test("a silent name server ends with a time-out", async () => {
  await expect(dialWith(SHORT)(to("silent.example"))).rejects.toMatchObject({
    code: "ETIMEDOUT",
  });
});

test("an AAAA query that no name server answers does not keep the name's IPv4 address back", async () => {
  const other = await startDnsServer(() => undefined);
  onTestFinished(() => {
    other.close();
  });
  const socket = await dialWith({
    rules: parseDestinationRules("127.0.0.0/8"),
    lookup: createLookup({ servers: () => [dns.address, other.address] }),
  })(to("half-silent.example"));
  expect(socket.remoteAddress).toBe("127.0.0.1");
  socket.destroy();
});

test("SMTP has its own ports", async () => {
  await expect(dialWith()(to("8.8.8.8", { protocol: "smtp", port: 80 }))).rejects.toBeInstanceOf(
    DestinationRefused,
  );
});

test("an address at which nobody listens does not keep the name's next one back", async () => {
  const before = connections;
  const dial = dialWith({
    rules: parseDestinationRules("127.0.0.0/8"),
    lookup: async () => ({ addresses: ["127.0.0.2", "127.0.0.1"] }),
  });
  (await dial(to("receiver.example"))).destroy();
  await expect.poll(() => connections).toBe(before + 1);
});

test("a literal is looked up by nobody, and a name without an address is refused", async () => {
  const asked: string[] = [];
  const dial = dialWith({
    lookup: async (host) => {
      asked.push(host);
      return { addresses: [] };
    },
  });
  for (const host of ["127.0.0.1", "[::1]", "nowhere.example"])
    await expect(dial(to(host))).rejects.toBeInstanceOf(DestinationRefused);
  expect(asked).toEqual(["nowhere.example"]);
});

test("without a cluster there are no services of one's own", async () => {
  const asked: string[] = [];
  const dial = dialWith({
    lookup: async (host) => {
      asked.push(host);
      return { addresses: ["10.96.0.9"] };
    },
  });
  for (const host of ["web.team-a.svc", "web.team-a.svc.cluster.local", "10.96.0.9"])
    await expect(dial(to(host, { port: 80 }))).rejects.toBeInstanceOf(DestinationRefused);
  expect(asked).toEqual(["web.team-a.svc", "web.team-a.svc.cluster.local"]);
});

test.each([
  { host: "receiver.internal", code: "ENOTFOUND", refused: true },
  { host: "redis", code: "ENOTFOUND", refused: true },
  { host: "receiver.internal", code: "EAI_AGAIN", refused: false },
  { host: "receiver.example", code: "ENOTFOUND", refused: false },
])("$host, of which DNS says $code: refused is $refused", async ({ host, code, refused }) => {
  const dial = dialWith({
    lookup: async () => {
      throw Object.assign(new Error(code), { code });
    },
  });
  const error = await dial(to(host)).catch((reason: unknown) => reason);
  expect(error instanceof DestinationRefused).toBe(refused);
});

/** What names resolve to by a pod's search domains, or its hosts file. */
const searched: Record<string, string[]> = {
  "grafana.monitoring": ["10.96.0.9"],
  "pod-0.grafana.monitoring": ["10.96.0.9"],
  "grafana.monitoring.svc": ["10.96.0.9"],
  "here.hosts": ["127.0.0.1"],
};
const dialFromPod = (rules = "") =>
  dialWith({
    rules: parseDestinationRules(rules),
    lookup: createLookup({
      servers: () => [dns.address],
      system: async (host) => searched[host] ?? system(host),
    }),
  });

test.each(["monitoring", "nowhere"])(
  "from a pod, a Service in %s and one that is not there are told in one way",
  async (namespace) => {
    for (const name of ["grafana", "pod-0.grafana"])
      await expect(dialFromPod()(to(`${name}.${namespace}`, { port: 80 }))).rejects.toMatchObject({
        code: "ENOTFOUND",
      });
  },
);

test.each(["monitoring", "nowhere"])(
  "from a pod, an internal name in %s is refused, be it there or not",
  async (namespace) => {
    await expect(
      dialFromPod()(to(`grafana.${namespace}.svc`, { port: 80 })),
    ).rejects.toBeInstanceOf(DestinationRefused);
  },
);

test("from a pod, a name of the hosts file is called where a rule allows it", async () => {
  const socket = await dialFromPod("127.0.0.1")(to("here.hosts"));
  expect(socket.remoteAddress).toBe("127.0.0.1");
  socket.destroy();
});

test("from a pod, what DNS knows is refused with the words of the guard", async () => {
  await expect(dialFromPod()(to("loopback.example"))).rejects.toBeInstanceOf(DestinationRefused);
});

test.each([
  { host: "web.team-a.svc", account: "team-a", refused: false },
  { host: "web.team-a.svc.cluster.local", account: "team-a", refused: false },
  { host: "web.team-a.svc", account: "team-b", refused: true },
])("a Service $host that is not there, asked for by $account: refused is $refused", async (row) => {
  const dial = dialWith({
    clusterNamespace,
    lookup: async () => {
      throw Object.assign(new Error("ENOTFOUND"), { code: "ENOTFOUND" });
    },
  });
  const error = await dial(to(row.host, { account: row.account, port: 80 })).catch(
    (reason: unknown) => reason,
  );
  expect(error instanceof DestinationRefused).toBe(row.refused);
});
