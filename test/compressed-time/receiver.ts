import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import type { Random } from "../../src/domain/ports/clock.ts";
import type { Dial } from "../../src/network/guarded-dial.ts";
import type { Arrival } from "../faults/evidence.ts";
import { between } from "../faults/seeded-random.ts";

/** How a receiver is; a URL's path says it. */
export const MOODS = ["ok", "ok-slow", "flaky", "flaky-slow", "fail", "fail-slow"] as const;
export type Mood = (typeof MOODS)[number];

/** A receiver of its own, as circuits and limits count them, for each job. `gone`: it answers 410 at times. */
export function urlOf(host: string, mood: Mood, gone: boolean): string {
  return `http://${host}.test/${mood}${gone ? "?gone" : ""}`;
}

export interface Receiver {
  arrivals: Arrival[];
  /** Connections to it, whatever host is asked for, until `cut` ends them and lets no more be made. */
  caller(): { dial: Dial; cut(): void };
  close(): Promise<void>;
}

/** A real HTTP server that plays all receivers. Each request is written down at its headers. */
export async function startReceiver(random: Random): Promise<Receiver> {
  const arrivals: Arrival[] = [];
  const timers = new Set<NodeJS.Timeout>();

  const server = createServer((request, response) => {
    const arrival = arrivalOf(request);
    arrivals.push(arrival);
    request.on("error", () => undefined);
    response.on("error", () => undefined);
    response.on("close", () => {
      arrival.endedAt ??= Date.now();
    });
    request.resume();
    request.on("end", () => {
      const path = request.url ?? "";
      const ms = path.includes("slow") ? between(random, 50, 400) : between(random, 0, 30);
      const timer = setTimeout(() => {
        timers.delete(timer);
        answer(path, arrival, response);
      }, ms);
      timers.add(timer);
    });
  });

  function answer(path: string, arrival: Arrival, response: ServerResponse): void {
    // The caller has gone: nobody hears what is answered.
    if (arrival.endedAt !== null) return;
    const failing = path.includes("fail") ? 0.5 : path.includes("flaky") ? 0.2 : 0;
    const chance = random();
    const gone = path.endsWith("?gone") && chance < 0.05;
    const status = gone ? 410 : chance < failing ? 503 : 200;
    arrival.answered = status;
    arrival.endedAt = Date.now();
    response.writeHead(status).end();
  }

  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;

  return {
    arrivals,
    caller: () => {
      const sockets = new Set<Socket>();
      let gone = false;
      return {
        dial: async ({ onread }) => {
          if (gone) return new Promise<never>(() => undefined);
          const socket = connect({ host: "127.0.0.1", port, ...(onread ? { onread } : {}) });
          sockets.add(socket);
          socket.once("close", () => sockets.delete(socket));
          await once(socket, "connect");
          return socket;
        },
        cut: () => {
          gone = true;
          for (const socket of sockets) socket.destroy();
        },
      };
    },
    close: async () => {
      for (const timer of timers) clearTimeout(timer);
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

function arrivalOf(request: IncomingMessage): Arrival {
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
    at: Date.now(),
    answered: null,
    endedAt: null,
  };
}
