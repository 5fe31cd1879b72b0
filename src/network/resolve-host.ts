import { lookup as getaddrinfo, Resolver } from "node:dns/promises";
import { createTurns, type Turns } from "../waiting/turns.ts";

export interface Found {
  /** Of a very large answer the first. */
  addresses: string[];
  /** DNS does not know the name as it stands: the hosts file does, or a search domain makes another one of it. */
  bySystem?: boolean;
}

/** The addresses of a name. Rejects with a DNS error (`code` ENOTFOUND, EAI_AGAIN, …). */
export type Lookup = (host: string) => Promise<Found>;

/** Milliseconds that AAAA is waited for when A is there: some servers mishandle it, and a dial has 10 s in all. */
const AAAA_AFTER_A = 500;
/**
 * And A when AAAA is there: until it has been asked for again, which takes up to 3 s, since Node looks once a second. From
 * most clusters no IPv6 address is reached, and of the two questions, which leave at once, one may well get lost.
 */
const A_AFTER_AAAA = 3_500;
/** Milliseconds in line for the system's resolver: as long as a dial waits, nobody wants it any more. */
const PATIENCE = 10_000;
/**
 * Addresses of one kind, more than anybody tries. An answer of 64 KiB has four thousand, which whoever runs a
 * name's server chooses, and each is checked; only those that were checked are dialled.
 */
const MOST_ADDRESSES = 64;
/**
 * c-ares shortens `timeout` for servers that have been answering quickly, which comes to a second, and only lengthens it
 * again in the last try: 5 s for a silent server that was quick, 8 to 9 s for another one, of a dial's 10 s. A name
 * server that asks another one, which lost a packet, needs more than two (CoreDNS: 2 s each).
 */
const RESOLVING = { timeout: 2_000, maxTimeout: 2_000, tries: 4 };
/** More than the attempts that a process has in flight. */
const MAX_WAITING = 1_000;

/**
 * Asks the DNS servers directly first. `dns.lookup` runs getaddrinfo on libuv's threads, two at a time for
 * the whole process: two names with a dead name server would hold up everybody, PostgreSQL's connections
 * among them. The system's own resolver is asked only for names without a dot and for those that DNS says
 * do not exist: it knows the hosts file and the search domains (`receiver.team-a.svc`). Whoever runs a
 * name's server can say so first and fall silent then, so that such names take one of the two threads at
 * most. To be made once in a process.
 */
export function createLookup(
  options: {
    /** Instead of the system's. */
    servers?: () => readonly string[];
    /** The system's resolver, which cannot be told whom to ask. */
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
  const dottedTurns = createTurns({ atOnce: 1, maxWaiting: MAX_WAITING });
  // No user's name server answers for these, only the installation's own: they do not stand in line behind
  // the others, and take the second thread for no longer than PostgreSQL's own name would.
  const plainTurns = createTurns({ atOnce: 1, maxWaiting: MAX_WAITING });

  return async (host) => {
    if (!host.replace(/\.$/, "").includes(".")) return inTurn(host, plainTurns);
    const answers = await askBothKinds(host);
    const addresses = answers.flatMap((answer) =>
      answer.status === "fulfilled" ? answer.value.slice(0, MOST_ADDRESSES) : [],
    );
    // Half an answer is used: an AAAA query that some servers mishandle must not fail the name.
    if (addresses.length > 0) return { addresses };
    if (
      answers.some((answer) => answer.status === "rejected" && !ANSWERED.has(codeOf(answer.reason)))
    )
      readServersAgain();
    const failure = answers.find(
      (answer) => answer.status === "rejected" && !ABSENT.has(codeOf(answer.reason)),
    );
    if (failure?.status === "rejected") throw unresolved(host, failure.reason);
    return inTurn(host, dottedTurns);
  };

  /** A resolver knows the servers of when it was made: those of the network that a laptop has left. */
  function readServersAgain(): void {
    const fresh = makeResolver();
    if (String(fresh.getServers()) !== String(resolver.getServers())) resolver = fresh;
  }

  /** c-ares asks every server twice for the one kind that is not answered, with the other in hand. */
  async function askBothKinds(host: string): Promise<PromiseSettledResult<string[]>[]> {
    const a = resolver.resolve4(host);
    const aaaa = resolver.resolve6(host);
    const late = Promise.withResolvers<never>();
    const patience = Promise.any([a.then(() => AAAA_AFTER_A), aaaa.then(() => A_AFTER_AAAA)]);
    const timer = patience.then(
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

  async function inTurn(host: string, turns: Turns): Promise<Found> {
    if (!(await turns.take(AbortSignal.timeout(patience)))) throw unresolved(host);
    try {
      const addresses = await system(host);
      return { addresses: addresses.slice(0, 2 * MOST_ADDRESSES), bySystem: true };
    } finally {
      turns.done();
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

/** No such name, or no record of this type. */
const ANSWERED = new Set(["ENOTFOUND", "ENODATA"]);
/** Or no DNS server at all. */
const ABSENT = new Set([...ANSWERED, "ECONNREFUSED"]);

/** Of a DNS or system error; empty when it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
