import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Instant } from "../../src/domain/instant.ts";
import type { Arrival } from "./evidence.ts";

export interface ArrivalServer {
  port: number;
  /** Does `work` after so many ms, unless the server is closed before. */
  later: (ms: number, work: () => void) => void;
  close: () => Promise<void>;
}

/**
 * A real HTTP server that records every request in `log` as soon as it has its headers, before it decides how to answer
 * it: from then on the call may have taken effect.
 */
export async function startArrivalServer(options: {
  now: () => Instant;
  log: Arrival[];
  onArrival: (arrival: Arrival, request: IncomingMessage, response: ServerResponse) => void;
}): Promise<ArrivalServer> {
  const { now, log, onArrival } = options;
  const timers = new Set<NodeJS.Timeout>();
  const server = createServer((request, response) => {
    const arrival = arrivalOf(request, now());
    log.push(arrival);
    request.on("error", () => undefined);
    response.on("error", () => undefined);
    response.on("close", () => {
      arrival.endedAt ??= now();
    });
    request.resume();
    onArrival(arrival, request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    later: (ms, work) => {
      const timer = setTimeout(() => {
        timers.delete(timer);
        work();
      }, ms);
      timers.add(timer);
    },
    close: async () => {
      for (const timer of timers) clearTimeout(timer);
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

function arrivalOf(request: IncomingMessage, at: Instant): Arrival {
  const header = (name: string): string => {
    const value = request.headers[name];
    if (typeof value !== "string") throw new Error(`a request without ${name}`);
    return value;
  };
  return {
    runId: header("webhook-id"),
    jobId: header("carillon-job-id"),
    scheduledAt: Date.parse(header("carillon-scheduled-at")),
    attempt: Number(header("carillon-attempt")),
    at,
    answered: null,
    endedAt: null,
  };
}
