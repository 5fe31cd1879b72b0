import type { ServerResponse } from "node:http";
import type { Clock, Random } from "../../src/domain/ports/clock.ts";
import { startArrivalServer } from "./arrivals.ts";
import type { Arrival } from "./evidence.ts";
import type { ReceiverMood } from "./fault-plan.ts";

export interface Receiver {
  readonly url: string;
  mood: ReceiverMood;
  close(): Promise<void>;
}

/** Path of requests that a receiver answers only after `LONG_MS` while it is well. */
export const LONG = "long";
/** Shorter than the jobs' time-out (`PATIENCE`). */
const LONG_MS = 4_000;
/** Longer than the jobs' time-out. */
const HANG_MS = 20_000;

/** How it treats a request depends on its mood when the request's headers arrive. */
export async function startReceiver(options: {
  clock: Clock;
  random: Random;
  log: Arrival[];
}): Promise<Receiver> {
  const { clock, random, log } = options;
  const server = await startArrivalServer({
    now: () => clock.now(),
    log,
    onArrival: (arrival, request, response) => {
      const { mood } = receiver;
      const begin = (): void => {
        behave(mood, arrival, response);
      };
      const long = request.url === `/${LONG}` && mood === "well";
      request.on("end", () => {
        if (long) later(LONG_MS, begin);
        else begin();
      });
    },
  });
  const { later } = server;
  const receiver: Receiver = {
    url: `http://127.0.0.1:${server.port}/`,
    mood: "well",
    close: () => server.close(),
  };

  function behave(mood: ReceiverMood, arrival: Arrival, response: ServerResponse): void {
    const answer = (status: number, headers: Record<string, string> = {}): void => {
      arrival.answered = status;
      arrival.endedAt = clock.now();
      response.writeHead(status, headers).end();
    };
    switch (mood) {
      case "well":
        answer(200);
        break;
      case "fails":
        answer(500);
        break;
      case "busy":
        answer(503, { "retry-after": "2" });
        break;
      case "hangs":
        later(HANG_MS, () => response.destroy());
        break;
      case "resets":
        response.socket?.resetAndDestroy();
        break;
      case "slow":
        later(300 + random() * 2_000, () => {
          answer(200);
        });
        break;
    }
  }

  return receiver;
}
