import { lookup as getaddrinfo, Resolver } from "node:dns/promises";
import { createFairSemaphore, type FairSemaphore } from "../waiting/fair-semaphore.ts";

export interface ResolvedHost {
  /** Only the first ones of a very large answer. */
  addresses: string[];
  /** Not from DNS, which does not know the name as it stands, but from the hosts file or by a search domain. */
  bySystem?: boolean;
}

/** The addresses of a name. Rejects with a DNS error (`code` ENOTFOUND, EAI_AGAIN, …). */
export type Lookup = (host: string) => Promise<ResolvedHost>;

/** Milliseconds to wait for AAAA once A is there: some servers mishandle AAAA, and a dial has 10 s in all. */
const AAAA_AFTER_A = 500;
/**
 * Milliseconds to wait for A once AAAA is there: until A has been asked for again, which takes up to 3 s, since
 * Node checks once a second. Most clusters reach no IPv6 address, and one of the two questions, which are sent at
 * once, may well get lost.
 */
const A_AFTER_AAAA = 3_500;
/** Milliseconds in line for the system's resolver: a dial waits no longer. */
const PATIENCE = 10_000;
/**
 * Most addresses of one kind; more than anybody tries. An answer of 64 KiB can have four thousand, chosen by the
 * owner of the name's server, and each must be checked. Only addresses that were checked are dialled.
 */
const MOST_ADDRESSES = 64;
/**
 * c-ares shortens `timeout` to about a second for servers that have been answering quickly, and lengthens it again
 * only in the last try. In all that is 5 s for a silent server that was quick, and 8 to 9 s for another one, of a
 * dial's 10 s. A name server whose own question to another one got lost needs more than two seconds (CoreDNS: 2 s
 * each).
 */
const RESOLVING = { timeout: 2_000, maxTimeout: 2_000, tries: 4 };
/** Most names in line: by default more than a process has attempts in flight and connections being opened ahead. */
const MAX_WAITING = 2_000;

/**
 * Asks the DNS servers directly first. `dns.lookup` runs getaddrinfo on libuv's threads, two at a time for the
 * whole process: two names with a dead name server would hold up everybody, PostgreSQL's connections included. The
 * system's own resolver, which knows the hosts file and the search domains (`receiver.team-a.svc`), is asked only
 * for names without a dot and for those that do not exist according to DNS. Somebody's name server may first say
 * that a name does not exist, and then fall silent, so that such names take only one of the two threads. To be made
 * once in a process.
 */
export function createLookup(
  options: {
    /** Name servers to ask instead of the system's. */
    servers?: () => readonly string[];
    /** In place of the system's resolver, which cannot be told whom to ask. */
    system?: (host: string) => Promise<string[]>;
    /** Milliseconds. */
    patience?: number;
  } = {},
): Lookup {
  const { system = systemLookup, patience = PATIENCE } = options;
  const makeResolver = (): Resolver => {
    const made = new Resolver(RESOLVING);
    if (options.servers) made.setServers(options.servers());
    return made;
  };
  let resolver = makeResolver();
  const dottedTurns = createFairSemaphore({ atOnce: 1, maxWaiting: MAX_WAITING });
  // Names without a dot are answered by the installation's own name servers, not by a user's. So they do not stand
  // in line behind the others, and take the second thread for no longer than PostgreSQL's own name would.
  const plainTurns = createFairSemaphore({ atOnce: 1, maxWaiting: MAX_WAITING });

  return async (host) => {
    if (!host.replace(/\.$/, "").includes(".")) return inTurn(host, plainTurns);
    const answers = await askBothKinds(host);
    const addresses = answers.flatMap((answer) =>
      answer.status === "fulfilled" ? answer.value.slice(0, MOST_ADDRESSES) : [],
    );
    // Half an answer is enough: some servers mishandle AAAA queries.
    if (addresses.length > 0) return { addresses };
    if (
      answers.some(
        (answer) => answer.status === "rejected" && !ANSWERED.has(errorCodeOf(answer.reason)),
      )
    )
      readServersAgain();
    const failure = answers.find(
      (answer) => answer.status === "rejected" && !ABSENT.has(errorCodeOf(answer.reason)),
    );
    if (failure?.status === "rejected") throw unresolved(host, failure.reason);
    return inTurn(host, dottedTurns);
  };

  /**
   * A resolver keeps the servers that the system had when it was made, for instance those of a network that a
   * laptop has left.
   */
  function readServersAgain(): void {
    const fresh = makeResolver();
    if (String(fresh.getServers()) !== String(resolver.getServers())) resolver = fresh;
  }

  /**
   * Waits for the second kind only for a while: c-ares would ask every server several times, with the other kind at
   * hand.
   */
  async function askBothKinds(host: string): Promise<PromiseSettledResult<string[]>[]> {
    const a = resolver.resolve4(host);
    const aaaa = resolver.resolve6(host);
    const late = Promise.withResolvers<never>();
    const waitForOther = Promise.any([a.then(() => AAAA_AFTER_A), aaaa.then(() => A_AFTER_AAAA)]);
    const timer = waitForOther.then(
      (ms) =>
        setTimeout(() => {
          late.reject(new Error("not answered in time"));
        }, ms),
      () => undefined,
    );
    const answers = await Promise.allSettled(
      [a, aaaa].map((kind) => Promise.race([kind, late.promise])),
    );
    clearTimeout(await timer);
    return answers;
  }

  async function inTurn(host: string, turns: FairSemaphore): Promise<ResolvedHost> {
    if (!(await turns.acquire(AbortSignal.timeout(patience)))) throw unresolved(host);
    try {
      const addresses = await system(host);
      return { addresses: addresses.slice(0, 2 * MOST_ADDRESSES), bySystem: true };
    } finally {
      turns.release();
    }
  }
}

async function systemLookup(host: string): Promise<string[]> {
  const found = await getaddrinfo(host, { all: true });
  return found.map(({ address }) => address);
}

function unresolved(host: string, cause?: unknown): Error {
  return Object.assign(new Error(`${host} cannot be resolved for now`, { cause }), {
    code: "EAI_AGAIN",
  });
}

/** A name server answered: no such name, or no record of this type. */
const ANSWERED = new Set(["ENOTFOUND", "ENODATA"]);
/** The same, or there is no DNS server at all. */
const ABSENT = new Set([...ANSWERED, "ECONNREFUSED"]);

/** The code of a DNS or system error; empty when it has none. */
export function errorCodeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
