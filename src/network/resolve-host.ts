import { lookup as systemLookup, Resolver } from "node:dns/promises";

/** Every address of a name. Rejects with a DNS error (`code` ENOTFOUND, ETIMEOUT, …). */
export type Lookup = (host: string) => Promise<string[]>;

/**
 * Asks the DNS servers directly first. `dns.lookup` runs getaddrinfo on libuv's four threads, where four
 * names with a dead name server would hold up every other account (and file access). The system's own
 * resolver is asked only for names without a dot and for those that DNS says do not exist: it knows the
 * hosts file and the search domains (`receiver.team-a.svc`).
 */
export function createLookup(options: { servers?: readonly string[] } = {}): Lookup {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  if (options.servers) resolver.setServers(options.servers);
  return async (host) => {
    const dotted = host.replace(/\.$/, "").includes(".");
    if (dotted) {
      const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
      const addresses = answers.flatMap((answer) =>
        answer.status === "fulfilled" ? answer.value : [],
      );
      const failure = answers.find(
        (answer) => answer.status === "rejected" && !ABSENT.has(codeOf(answer.reason)),
      );
      // Half an answer is used: an AAAA query that some servers mishandle must not fail the name.
      if (addresses.length > 0) return addresses;
      if (failure?.status === "rejected")
        throw Object.assign(
          new Error(`${host} cannot be resolved for now`, { cause: failure.reason }),
          {
            code: "EAI_AGAIN",
          },
        );
    }
    const found = await systemLookup(host, { all: true });
    return found.map(({ address }) => address);
  };
}

/** No such name, no record of this type, or no DNS server at all. */
const ABSENT = new Set(["ENOTFOUND", "ENODATA", "ECONNREFUSED"]);

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
