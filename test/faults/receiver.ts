import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Clock, Random } from "../../src/domain/ports/clock.ts";
import type { Arrival } from "./evidence.ts";
import type { ReceiverMood } from "./fault-plan.ts";

export interface Receiver {
  readonly url: string;
  mood: ReceiverMood;
  close(): Promise<void>;
}

/** The path of those that a receiver in good health answers after `LONG_MS`. */
export const LONG = "long";
/** Shorter than the jobs' time-out. */
const LONG_MS = 4_000;
/** Longer than it. */
const HANG_MS = 20_000;

/**
 * A real HTTP server that writes every request into `log` at its headers, before it decides what to do to
 * it: from there on the call may have had its effect.
 */
export async function startReceiver(options: {
  clock: Clock;
  random: Random;
  log: Arrival[];
}): Promise<Receiver> {
  const { clock, random, log } = options;
  const timers = new Set<NodeJS.Timeout>();

  function later(ms: number, work: () => void): void {
    const timer = setTimeout(() => {
      timers.delete(timer);
      work();
    }, ms);
    timers.add(timer);
  }

  const receiver = {
    url: "",
    mood: "well" as ReceiverMood,
    close: async () => {
      for (const timer of timers) clearTimeout(timer);
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };

  const server = createServer((request, response) => {
    const arrival = arrivalOf(request, clock.now());
    log.push(arrival);
    request.on("error", () => undefined);
    response.on("error", () => undefined);
    response.on("close", () => {
      arrival.endedAt ??= clock.now();
    });
    request.resume();
    const { mood } = receiver;
    const begin = (): void => {
      behave(mood, arrival, response);
    };
    const long = request.url === `/${LONG}` && mood === "well";
    request.on("end", () => {
      if (long) later(LONG_MS, begin);
      else begin();
    });
  });

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

  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return receiver;
}

function arrivalOf(request: IncomingMessage, at: number): Arrival {
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
