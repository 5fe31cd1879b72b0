import { open } from "node:fs/promises";
import { connect, isIP, type OnReadOpts, type Socket } from "node:net";
import { devNull } from "node:os";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import { untilAborted } from "../waiting/until-aborted.ts";
import { classifyAddress } from "./address-class.ts";
import { portBlocked, type Protocol } from "./blocked-ports.ts";
import { connectAny } from "./connect-any.ts";
import { DestinationRefused } from "./destination-refused.ts";
import type { DestinationRules } from "./destination-rules.ts";
import { errorCodeOf, createLookup, type ResolvedHost, type Lookup } from "./resolve-host.ts";

export interface DialRequest {
  account: string;
  protocol: Protocol;
  /** A name or a literal, IPv6 with or without brackets. */
  host: string;
  port: number;
  /** Milliseconds that the caller has in all, if that may be less than the dial's own limit. */
  timeoutMs?: number;
  /** Receives the bytes that are read, instead of the "data" event. Not for TLS. */
  onread?: OnReadOpts;
}

/**
 * Opens a TCP connection. Rejects with `DestinationRefused` by the guard; with `DependencyUnavailable`, before
 * anybody is called, when the rules cannot be read in time or this process has no more sockets; or with the
 * network's own error and its `code`. TLS is left to the caller, with the original name for SNI.
 */
export type Dial = (request: DialRequest) => Promise<Socket>;

/**
 * The only way out for webhooks and SMTP. Resolves the name once, checks every address it has, and connects to an
 * address that was checked: a name whose addresses change between check and connect (DNS rebinding) gains nothing.
 * One forbidden address is enough to refuse the name: otherwise an attacker would only have to retry until the
 * forbidden one comes first.
 */
export function createGuardedDial(options: {
  /** Installation-wide, CARILLON_ALLOW_DESTINATIONS. */
  rules: DestinationRules;
  accountRules: (account: string) => Promise<DestinationRules>;
  lookup?: Lookup;
  /** On Kubernetes: the namespace whose services the account may call; null for none. */
  clusterNamespace?: (account: string) => Promise<string | null>;
  /** Default cluster.local. */
  clusterDomain?: string;
  /** Milliseconds to resolve and connect. */
  timeoutMs?: number;
  /** Called when this process, or its machine, has no more sockets, or no local port for one. */
  onShortage?: (error: unknown) => void;
}): Dial {
  const { rules, accountRules, clusterNamespace, timeoutMs = 10_000 } = options;
  const lookup = options.lookup ?? createLookup();
  const clusterDomain = options.clusterDomain ?? "cluster.local";

  return async (request) => {
    const ms = Math.min(timeoutMs, request.timeoutMs ?? timeoutMs);
    const limit: Limit = { ms, signal: AbortSignal.timeout(ms) };
    try {
      return await dial(request, limit);
    } catch (error) {
      if (error instanceof DependencyUnavailable) throw error;
      if (SHORTAGES.has(errorCodeOf(error)) || isWithoutPort(error)) {
        options.onShortage?.(error);
        throw new DependencyUnavailable("machine", { cause: error });
      }
      if (!limit.signal.aborted) throw error;
      throw Object.assign(new Error(`not connected within ${ms} ms`, { cause: error }), {
        code: "ETIMEDOUT",
      });
    }
  };

  async function dial(request: DialRequest, limit: Limit): Promise<Socket> {
    const { account, protocol, port } = request;
    const host = request.host.replace(/^\[|\]$/g, "");
    const refused = (): DestinationRefused => new DestinationRefused(protocol, request.host, port);

    const found = isIP(host) ? { addresses: [host] } : await resolve(account, host, refused, limit);
    const { addresses } = found;
    const [accountsOwn, ownService] = await Promise.all([
      inTime("postgres", accountRules(account), limit),
      isOwnService(account, host, limit),
    ]);
    const blocked = portBlocked(protocol, port);
    const allowed = (address: string): boolean => {
      if (rules.allows(address, port) || accountsOwn.allows(address, port)) return true;
      if (blocked) return false;
      const reach = classifyAddress(address);
      return reach === "global" || (ownService && reach === "private");
    };
    if (addresses.length === 0 || !addresses.every(allowed)) {
      // A pod's search domains resolve NAME.NAMESPACE to a Service, and the answer must not tell that it exists. So
      // it is the same as `resolve` gives for a name that does not exist: refused if internal, otherwise not found.
      throw found.bySystem === true && !INTERNAL_NAME.test(host) ? notFound(host) : refused();
    }
    const { onread } = request;
    const socket = await connectAny({
      addresses,
      // The literals that were checked: there is no further lookup.
      connect: (address) => connect({ host: address, port, ...(onread && { onread }) }),
      signal: limit.signal,
    });
    socket.setNoDelay(true);
    return socket;
  }

  async function resolve(
    account: string,
    host: string,
    refused: () => Error,
    limit: Limit,
  ): Promise<ResolvedHost> {
    const { signal } = limit;
    try {
      return await untilAborted(lookup(fullName(host)), signal);
    } catch (error) {
      // Without files to open, glibc's first look-up and some of its plug-ins say of every name that it is not found.
      if (!signal.aborted) await openSomeFile();
      // The answer must not tell whether an internal name exists, unless it is the account's own Service. A name server
      // that is away, or a lack of sockets, tells nothing and is temporary: that error is passed on.
      if (signal.aborted || !INTERNAL_NAME.test(host) || TEMPORARY.has(errorCodeOf(error)))
        throw error;
      throw (await isOwnService(account, host, limit)) ? error : refused();
    }
  }

  async function isOwnService(account: string, host: string, limit: Limit): Promise<boolean> {
    if (clusterNamespace === undefined) return false;
    const name = fullName(host.toLowerCase().replace(/\.$/, ""));
    const service = name.endsWith(`.${clusterDomain}`)
      ? SERVICE_NAME.exec(name.slice(0, -clusterDomain.length - 1))
      : null;
    if (service === null) return false;
    return service[1] === (await inTime("kubernetes", clusterNamespace(account), limit));
  }

  /**
   * Completes a Service name with the cluster's domain, so that it does not depend on the search domains of this
   * pod.
   */
  function fullName(host: string): string {
    const name = host.replace(/\.$/, "");
    if (clusterNamespace === undefined || !SERVICE_NAME.test(name.toLowerCase())) return host;
    return `${name}.${clusterDomain}`;
  }
}

/** Rejects with one of `SHORTAGES` when no file can be opened. */
async function openSomeFile(): Promise<void> {
  const file = await open(devNull);
  await file.close();
}

function notFound(host: string): Error {
  return Object.assign(new Error(`${host} is not found`), { code: "ENOTFOUND" });
}

/** The time limit of one dial. */
interface Limit {
  ms: number;
  signal: AbortSignal;
}

/**
 * An answer of a dependency that takes too long: DependencyUnavailable, because it is not the destination's fault.
 * It gets half of the time, so that the call's own time does not run out first.
 */
async function inTime<T>(dependency: string, answer: Promise<T>, limit: Limit): Promise<T> {
  const late = AbortSignal.any([limit.signal, AbortSignal.timeout(limit.ms / 2)]);
  try {
    return await untilAborted(answer, late);
  } catch (error) {
    throw late.aborted ? new DependencyUnavailable(dependency, { cause: error }) : error;
  }
}

/** Open files of the process, of the machine, or the kernel's memory have run out. */
const SHORTAGES = new Set(["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"]);
const TEMPORARY = new Set([...SHORTAGES, "EAI_AGAIN"]);

/**
 * Every local port is taken by a connection to this address, or was until a minute ago. Of an IPv6 address the system
 * says the same when it has none of its own, which does not pass.
 */
function isWithoutPort(error: unknown): boolean {
  return (
    errorCodeOf(error) === "EADDRNOTAVAIL" &&
    error instanceof Error &&
    "address" in error &&
    isIP(String(error.address)) === 4
  );
}

/** `NAME.NAMESPACE.svc`, also `POD.NAME.NAMESPACE.svc`, without the cluster's domain. */
const SERVICE_NAME = /^(?:[^.]+\.)+([^.]+)\.svc$/;
const INTERNAL_NAME =
  /^[^.]+\.?$|\.(?:svc|local|internal|localhost|arpa|lan|intranet|corp|home)\.?$/i;
