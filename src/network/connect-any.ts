import { isIP, type Socket } from "node:net";
import { abortReason } from "../waiting/until-aborted.ts";

/** Milliseconds after which the next address is tried as well. */
const NEXT = 500;

/**
 * Connects to the addresses (at least one) and resolves with the first connection that is made; the others are
 * destroyed. Unlike net's `autoSelectFamily`, it does not give up a slow connection when it tries the next address
 * (RFC 8305, 5): a lost packet is sent again after a second, and the next address may not be reachable from here.
 * Rejects with the error of the first address when all have failed, or with the signal's reason.
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
      // It stays on connections that are not wanted any more: an error without a listener would end the process.
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

/** Alternates between the families, beginning with that of the first address (RFC 8305, 4). */
function inTurn(addresses: readonly string[]): string[] {
  const family = isIP(addresses[0] ?? "");
  const own = addresses.filter((address) => isIP(address) === family);
  const others = addresses.filter((address) => isIP(address) !== family);
  const longer = Math.max(own.length, others.length);
  return Array.from({ length: longer }, (_, place) => [own[place], others[place]])
    .flat()
    .filter((address) => address !== undefined);
}
