/**
 * A queue of due webhooks emptied by one delivery worker: claimed, started, signed, sent through guard and
 * breaker, recorded. Beside bare POSTs, the least that a queue can do, and graphile-worker with a task that
 * is one POST.
 */
import { createPool } from "../src/postgres/pool.ts";
import { benchBareQueue } from "./bare-queue.ts";
import { benchGraphileWorker } from "./graphile-worker.ts";
import { benchRawPost } from "./raw-post.ts";
import { startSink } from "./sink-process.ts";
import { createDurableDelivery } from "./durable-delivery.ts";

const LOAD = { count: 10_000, width: 64 };
const WARM_UP = { count: 1_000, width: 64 };
const ROUNDS = 5;

export interface DeliveryFigures {
  rounds: number;
  /** Medians of what a second saw done. */
  durable: number;
  raw: number;
  bareQueue: number;
  graphileDefault: number;
  graphileTuned: number;
  /** Median of durable ÷ raw of the same round. */
  share: number;
}

export async function benchDelivery(target: { databaseUrl: string }): Promise<DeliveryFigures> {
  const sink = await startSink("http-sink");
  const url = `http://127.0.0.1:${sink.port}/`;
  const graphile = (tuned: boolean, load: typeof LOAD) =>
    benchGraphileWorker({ databaseUrl: target.databaseUrl, url, tuned, ...load });
  const durable = await createDurableDelivery({ databaseUrl: target.databaseUrl, url });
  const pool = createPool({ url: target.databaseUrl, applicationName: "bench", max: 4 });
  const bareQueue = (load: typeof LOAD) => benchBareQueue({ pool, url, ...load });
  const figures = { durable: [], raw: [], bare: [], plain: [], tuned: [], share: [] } as Record<
    "durable" | "raw" | "bare" | "plain" | "tuned" | "share",
    number[]
  >;
  try {
    await benchRawPost(url, WARM_UP);
    await durable.run(WARM_UP);
    await bareQueue(WARM_UP);
    await graphile(true, WARM_UP);
    // In turns: whatever else the machine does meanwhile is done to all of them.
    for (let round = 0; round < ROUNDS; round += 1) {
      const raw = await benchRawPost(url, LOAD);
      const ours = await durable.run(LOAD);
      figures.raw.push(raw);
      figures.durable.push(ours);
      figures.share.push(ours / raw);
      figures.bare.push(await bareQueue(LOAD));
      figures.tuned.push(await graphile(true, LOAD));
      figures.plain.push(await graphile(false, { ...LOAD, count: LOAD.count / 5 }));
      await sink.ask("arrivals");
    }
  } finally {
    await durable.close();
    await pool.end();
    sink.close();
  }
  return {
    rounds: ROUNDS,
    durable: median(figures.durable),
    raw: median(figures.raw),
    bareQueue: median(figures.bare),
    graphileDefault: median(figures.plain),
    graphileTuned: median(figures.tuned),
    share: median(figures.share),
  };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
