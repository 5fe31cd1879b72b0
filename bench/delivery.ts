/**
 * A queue of due webhooks emptied by one delivery worker: claimed, started, signed, sent through guard and
 * breaker, recorded. Beside bare POSTs, the least that a queue can do, and graphile-worker with a task that
 * is one POST.
 */
import { createPool } from "../src/postgres/pool.ts";
import { benchBareQueue } from "./bare-queue.ts";
import { benchGraphileWorker } from "./graphile-worker.ts";
import { benchRawPost } from "./raw-post.ts";
import { median } from "./median.ts";
import { startSink } from "./sink-process.ts";
import { createDurableDelivery } from "./durable-delivery.ts";

const LOAD = { count: 10_000, width: 64 };
/** Of each: the processor time of a run halves within 40,000, ours and graphile-worker's. */
const WARM_UP = { count: 20_000, width: 64 };
const ROUNDS = 7;

export interface DeliveryFigures {
  /** Medians of what a second saw done. */
  durable: number;
  raw: number;
  bareQueue: number;
  graphileDefault: number;
  graphileTuned: number;
  /** Medians of what durable was of the others in the same round, and of the least of a queue ÷ raw. */
  share: { ofRaw: number; ofTuned: number; ofDefault: number; bareOfRaw: number };
}

export async function benchDelivery(target: { databaseUrl: string }): Promise<DeliveryFigures> {
  const sink = await startSink("http-sink");
  const url = `http://127.0.0.1:${sink.port}/`;
  const graphile = (tuned: boolean, load: typeof LOAD) =>
    benchGraphileWorker({ databaseUrl: target.databaseUrl, url, tuned, ...load });
  const durable = await createDurableDelivery({ databaseUrl: target.databaseUrl, url });
  const pool = createPool({ url: target.databaseUrl, applicationName: "bench", max: 4 });
  const bareQueue = (load: typeof LOAD) => benchBareQueue({ pool, url, ...load });
  const rounds: Record<"durable" | "raw" | "bare" | "plain" | "tuned", number>[] = [];
  try {
    await benchRawPost(url, WARM_UP);
    await durable.run(WARM_UP);
    await bareQueue(WARM_UP);
    await graphile(true, WARM_UP);
    // In turns: whatever else the machine does meanwhile is done to all of them.
    while (rounds.length < ROUNDS) {
      rounds.push({
        raw: await benchRawPost(url, LOAD),
        durable: await durable.run(LOAD),
        tuned: await graphile(true, LOAD),
        bare: await bareQueue(LOAD),
        plain: await graphile(false, { ...LOAD, count: LOAD.count / 5 }),
      });
      await sink.ask("arrivals");
    }
  } finally {
    await durable.close();
    await pool.end();
    sink.close();
  }
  return {
    durable: median(rounds.map(({ durable }) => durable)),
    raw: median(rounds.map(({ raw }) => raw)),
    bareQueue: median(rounds.map(({ bare }) => bare)),
    graphileDefault: median(rounds.map(({ plain }) => plain)),
    graphileTuned: median(rounds.map(({ tuned }) => tuned)),
    share: {
      ofRaw: median(rounds.map(({ durable, raw }) => durable / raw)),
      ofTuned: median(rounds.map(({ durable, tuned }) => durable / tuned)),
      ofDefault: median(rounds.map(({ durable, plain }) => durable / plain)),
      bareOfRaw: median(rounds.map(({ bare, raw }) => bare / raw)),
    },
  };
}
