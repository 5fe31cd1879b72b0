/**
 * What it costs when somebody else's transaction stays open, such as a backup or a report. PostgreSQL cannot remove
 * rows that it may still see, so the rows of finished runs stay in the queue's tables and indexes. It is measured by
 * runs that come one at a time, because each has to be searched for. Beside graphile-worker, which has finished as many
 * jobs on the same server.
 */
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { Agent } from "undici";
import { createPool, transaction } from "../src/postgres/pool.ts";
import { createBenchWorker, createDurableDelivery } from "./durable-delivery.ts";
import { dueRuns } from "./due-runs.ts";
import { benchGraphileWorker } from "./graphile-worker.ts";
import { median } from "./median.ts";
import { post } from "./raw-post.ts";
import { startSink } from "./sink-process.ts";

const LOAD = { count: 5_000, width: 64 };
/** How many of each are done while the transaction is open, before the second measurement. */
const BEHIND = 50_000;
/** Measured one after the other; all but the last `MEASURED` only warm up. */
const SINGLE = 300;
const MEASURED = 100;

export interface OpenSnapshotFigures {
  behind: number;
  /**
   * Medians, in milliseconds, of one run from before it is created until it is recorded: without such a transaction,
   * and after it has stayed open.
   */
  carillon: { without: number; after: number };
  graphile: { without: number; after: number };
}

export async function benchOpenSnapshot(target: {
  databaseUrl: string;
}): Promise<OpenSnapshotFigures> {
  const { databaseUrl } = target;
  const sink = await startSink("http-sink");
  const url = `http://127.0.0.1:${sink.port}/`;
  const durable = await createDurableDelivery({ databaseUrl, url });
  const pool = createPool({ url: databaseUrl, applicationName: "somebody else", max: 1 });
  const measure = async () => ({
    carillon: await single({ databaseUrl, url }),
    graphile: await singleOfGraphile({ databaseUrl, url }),
  });
  try {
    await durable.run(LOAD);
    await benchGraphileWorker({ databaseUrl, url, tuned: true, ...LOAD });
    const without = await measure();
    // Otherwise PostgreSQL would end this transaction for being idle.
    await pool.query("set idle_in_transaction_session_timeout = 0");
    const after = await transaction(pool, async (client) => {
      await client.query("set transaction isolation level repeatable read");
      await client.query("select count(*) from runs");
      for (let done = 0; done < BEHIND; done += LOAD.count) {
        await durable.run(LOAD);
        await benchGraphileWorker({ databaseUrl, url, tuned: true, ...LOAD });
      }
      return measure();
    });
    return {
      behind: BEHIND,
      carillon: { without: without.carillon, after: after.carillon },
      graphile: { without: without.graphile, after: after.graphile },
    };
  } finally {
    await durable.close();
    await pool.end();
    sink.close();
  }
}

async function single(target: { databaseUrl: string; url: string }): Promise<number> {
  const { clock, ledger, start, close } = await createBenchWorker(target);
  let recorded = Promise.withResolvers<void>();
  const worker = start(() => {
    recorded.resolve();
  });
  const took = await oneByOne(async () => {
    recorded = Promise.withResolvers();
    await dueRuns({ ledger, count: 1, urls: [target.url], now: clock.now() });
    await recorded.promise;
  });
  await worker.stop();
  await close();
  return took;
}

async function singleOfGraphile(target: { databaseUrl: string; url: string }): Promise<number> {
  const connectionString = target.databaseUrl;
  const logger = new Logger(() => () => undefined);
  const utils = await makeWorkerUtils({ connectionString, logger });
  const dispatcher = new Agent();
  const runner = await run({
    connectionString,
    logger,
    noHandleSignals: true,
    concurrency: LOAD.width,
    taskList: {
      post: async (payload) => {
        await post(dispatcher, target.url, JSON.stringify(payload));
      },
    },
  });
  let recorded = Promise.withResolvers<void>();
  runner.events.on("job:complete", () => {
    recorded.resolve();
  });
  const took = await oneByOne(async () => {
    recorded = Promise.withResolvers();
    await utils.addJob("post", { hello: "world" });
    await recorded.promise;
  });
  await runner.stop();
  await utils.release();
  await dispatcher.close();
  return took;
}

/** The median of the last `MEASURED`, in milliseconds. */
async function oneByOne(work: () => Promise<void>): Promise<number> {
  const took: number[] = [];
  while (took.length < SINGLE) {
    const began = performance.now();
    await work();
    took.push(performance.now() - began);
  }
  return median(took.slice(-MEASURED));
}
