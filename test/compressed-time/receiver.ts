import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import type { Random } from "../../src/domain/ports/clock.ts";
import type { Dial } from "../../src/network/guarded-dial.ts";
import { startArrivalServer } from "../faults/arrivals.ts";
import type { Arrival } from "../faults/evidence.ts";
import { between } from "../faults/seeded-random.ts";

/** How a receiver behaves; the path of its URL. */
export const MOODS = ["ok", "ok-slow", "flaky", "flaky-slow", "fail", "fail-slow"] as const;
export type Mood = (typeof MOODS)[number];

/**
 * URL of a receiver. With the job's name as `host`, each job has a receiver of its own for circuits and limits. `gone`:
 * it answers 410 at times.
 */
export function urlOf(host: string, mood: Mood, gone: boolean): string {
  return `http://${host}.test/${mood}${gone ? "?gone" : ""}`;
}

/** Whether this receiver answers 410 at times. */
export function mayBeGone(url: string): boolean {
  return url.endsWith("?gone");
}

export interface Receiver {
  arrivals: Arrival[];
  /** Connects to it, whatever host is asked for. `cut` ends all connections, and lets no new one be made. */
  caller(): { dial: Dial; cut(): void };
  close(): Promise<void>;
}

/** One server plays all receivers. */
export async function startReceiver(random: Random): Promise<Receiver> {
  const arrivals: Arrival[] = [];
  const { port, later, close } = await startArrivalServer({
    now: () => Date.now(),
    log: arrivals,
    onArrival: (arrival, request, response) => {
      request.on("end", () => {
        const path = request.url ?? "";
        later(path.includes("slow") ? between(random, 50, 400) : between(random, 0, 30), () => {
          answer(path, arrival, response);
        });
      });
    },
  });

  function answer(path: string, arrival: Arrival, response: ServerResponse): void {
    // The caller has closed the connection, and would not get the answer.
    if (arrival.endedAt !== null) return;
    const failing = path.includes("fail") ? 0.5 : path.includes("flaky") ? 0.2 : 0;
    const chance = random();
    const gone = mayBeGone(path) && chance < 0.05;
    const status = gone ? 410 : chance < failing ? 503 : 200;
    arrival.answered = status;
    arrival.endedAt = Date.now();
    response.writeHead(status).end();
  }

  return {
    arrivals,
    caller: () => {
      const sockets = new Set<Socket>();
      let dead = false;
      return {
        dial: async ({ onread }) => {
          if (dead) return new Promise<never>(() => undefined);
          const socket = connect({ host: "127.0.0.1", port, ...(onread ? { onread } : {}) });
          sockets.add(socket);
          socket.once("close", () => sockets.delete(socket));
          await once(socket, "connect");
          return socket;
        },
        cut: () => {
          dead = true;
          for (const socket of sockets) socket.destroy();
        },
      };
    },
    close,
  };
}
