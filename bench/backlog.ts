import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout } from "node:timers/promises";
import { startChild } from "./child-process.ts";
import { createBenchWorker } from "./durable-delivery.ts";
import { dueRuns } from "./due-runs.ts";

const QUEUED = 100_000;
/** Hosts of one account that accept calls and never answer. */
const HANGING = Array.from({ length: 50 }, (_, index) => `127.0.0.${index + 1}`);
/** Runs of other accounts, created one at a time. */
const OTHERS = { count: 40, everyMs: 250 };

export interface BacklogFigures {
  queued: number;
  rssBeforeMb: number;
  /** The highest sample, each taken after garbage collection. */
  rssMb: number;
  /** Share of one core, while the queue is full. */
  cpuShare: number;
  /** Milliseconds from due to arrival, for the other accounts. */
  others: { p50: number; max: number };
}

/** 100,000 due runs of one account, whose 50 receivers hang; meanwhile the runs of other accounts fall due. */
export async function benchBacklog(target: { databaseUrl: string }): Promise<BacklogFigures> {
  const arrivals: number[] = [];
  const hanging = createServer((request) => request.resume()).listen(0, "0.0.0.0");
  const answering = createServer((request, response) => {
    arrivals.push(performance.now());
    request.resume();
    response.end();
  }).listen(0, "127.0.0.1");
  await Promise.all([once(hanging, "listening"), once(answering, "listening")]);
  const { port } = hanging.address() as AddressInfo;
  const answeringUrl = `http://127.0.0.1:${(answering.address() as AddressInfo).port}/`;

  const { clock, ledger, close } = await createBenchWorker(target);
  const worker = await startChild("backlog-worker.ts", [target.databaseUrl]);
  const sample = async () => {
    const figures = (await worker.ask("sample")) as { rss: number; cpuMs: number };
    return { rssMb: figures.rss / 2 ** 20, cpuMs: figures.cpuMs, at: performance.now() };
  };
  try {
    const before = await sample();
    await dueRuns({
      ledger,
      count: QUEUED,
      urls: HANGING.map((host) => `http://${host}:${port}/`),
      now: clock.now(),
    });
    const first = await sample();
    const samples = [first];
    const lateness: number[] = [];
    for (let made = 0; made < OTHERS.count; made += 1) {
      const due = performance.now();
      const seen = arrivals.length;
      await dueRuns({ ledger, count: 1, urls: [answeringUrl], now: clock.now() });
      while (arrivals.length === seen) await setTimeout(1);
      lateness.push((arrivals.at(-1) ?? Number.NaN) - due);
      await setTimeout(OTHERS.everyMs);
      if (made % 8 === 7) samples.push(await sample());
    }
    const last = samples.at(-1) ?? first;
    lateness.sort((a, b) => a - b);
    return {
      queued: QUEUED,
      rssBeforeMb: before.rssMb,
      rssMb: Math.max(...samples.map(({ rssMb }) => rssMb)),
      cpuShare: (last.cpuMs - first.cpuMs) / (last.at - first.at),
      others: {
        p50: lateness[Math.floor(lateness.length / 2)] ?? Number.NaN,
        max: lateness.at(-1) ?? Number.NaN,
      },
    };
  } finally {
    worker.kill();
    hanging.closeAllConnections();
    hanging.close();
    answering.closeAllConnections();
    answering.close();
    await close();
  }
}
