import { isIP, type Socket } from "node:net";
import { abortReason } from "../waiting/until-aborted.ts";

/** Milliseconds after which the next address is tried as well. */
const NEXT = 500;

/**
 * The first connection that is made to one of the addresses, which there must be; the others are destroyed. One that
 * takes its time is not given up for the next (RFC 8305, 5), as net's `autoSelectFamily` does: a lost packet is sent
 * again after a second, and the other address may be one that nobody reaches from here. Rejects when all have failed,
 * with the error of the first, or with the signal's reason.
 */
export function connectAny(options: {
  addresses: readonly string[];
  /** Begins to connect. */
  connect: (address: string) => Socket;
  signal: AbortSignal;
}): Promise<Socket> {
  const { connect, signal } = options;
  const left = inTurn(options.addresses);
  const tried = new Set<Socket>();
  let failures = 0;
  let timer: NodeJS.Timeout | undefined;
  return new Promise((resolve, reject) => {
    let failure: unknown;

    function over(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      for (const socket of tried) socket.destroy();
    }

    function abort(): void {
      over();
      reject(abortReason(signal));
    }

    function next(): void {
      clearTimeout(timer);
      const address = left.shift();
      if (address === undefined) return;
      const socket = connect(address);
      const first = tried.size === 0;
      tried.add(socket);
      // It stays with those that are not wanted: until somebody else listens, an error would be nobody's.
      const failed = (error: Error): void => {
        if (first) failure = error;
        failures += 1;
        if (left.length > 0) next();
        else if (failures === tried.size) {
          over();
          reject(failure);
        }
      };
      socket.once("error", failed);
      socket.once("connect", () => {
        socket.off("error", failed);
        tried.delete(socket);
        over();
        resolve(socket);
      });
      if (left.length > 0) timer = setTimeout(next, NEXT);
    }

    if (signal.aborted) abort();
    else {
      signal.addEventListener("abort", abort, { once: true });
      next();
    }
  });
}

/** One of each family in turn, beginning with the first one's (RFC 8305, 4). */
function inTurn(addresses: readonly string[]): string[] {
  const family = isIP(addresses[0] ?? "");
  const own = addresses.filter((address) => isIP(address) === family);
  const others = addresses.filter((address) => isIP(address) !== family);
  const longer = Math.max(own.length, others.length);
  return Array.from({ length: longer }, (_, place) => [own[place], others[place]])
    .flat()
    .filter((address) => address !== undefined);
}
