/**
 * Somebody else's transaction that stays open, such as a backup or a report: nothing that it may still see can be
 * removed, so whatever a queue has done stays in its tables and indexes, and a queue that reads past it gets slower
 * with each run. Beside graphile-worker tuned, in turns, on the same server.
 */
import { createPool } from "../src/postgres/pool.ts";
import { createDurableDelivery } from "./durable-delivery.ts";
import { benchGraphileWorker } from "./graphile-worker.ts";
import { median } from "./median.ts";
import { startSink } from "./sink-process.ts";

const LOAD = { count: 5_000, width: 64 };
const ROUNDS = 3;
/** Of each, done while the transaction is open, before it is measured again. */
const BEHIND = 40_000;

export interface OpenSnapshotFigures {
  behind: number;
  /** Webhooks a second, medians: without such a transaction, and behind it. */
  durable: { without: number; after: number };
  graphileTuned: { without: number; after: number };
}

export async function benchOpenSnapshot(target: {
  databaseUrl: string;
}): Promise<OpenSnapshotFigures> {
  const { databaseUrl } = target;
  const sink = await startSink("http-sink");
  const url = `http://127.0.0.1:${sink.port}/`;
  const durable = await createDurableDelivery({ databaseUrl, url });
  const pool = createPool({ url: databaseUrl, applicationName: "somebody else", max: 1 });
  const graphile = (load: typeof LOAD) =>
    benchGraphileWorker({ databaseUrl, url, tuned: true, ...load });
  const rounds = async () => {
    const durables: number[] = [];
    const graphiles: number[] = [];
    while (durables.length < ROUNDS) {
      durables.push(await durable.run(LOAD));
      graphiles.push(await graphile(LOAD));
    }
    return { durable: median(durables), graphile: median(graphiles) };
  };
  try {
    await rounds();
    const without = await rounds();
    const somebody = await pool.connect();
    await somebody.query("begin isolation level repeatable read");
    await somebody.query("select count(*) from runs");
    for (let done = 0; done < BEHIND; done += LOAD.count) {
      await durable.run(LOAD);
      await graphile(LOAD);
    }
    const after = await rounds();
    await somebody.query("rollback");
    somebody.release();
    return {
      behind: BEHIND,
      durable: { without: without.durable, after: after.durable },
      graphileTuned: { without: without.graphile, after: after.graphile },
    };
  } finally {
    await durable.close();
    await pool.end();
    sink.close();
  }
}
