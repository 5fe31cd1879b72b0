import { Logger, makeWorkerUtils, run, type TaskList, type WorkerUtils } from "graphile-worker";
import { setImmediate } from "node:timers/promises";
import { Agent } from "undici";
import { post } from "./raw-post.ts";

const BATCH = 2_000;

/**
 * graphile-worker, emptying a queue of `count` jobs, `width` at a time. Each job is one POST of the same bytes.
 * `tuned`: with a local queue and batched completion, as its documentation recommends for throughput.
 */
export async function benchGraphileWorker(options: {
  databaseUrl: string;
  url: string;
  tuned: boolean;
  count: number;
  width: number;
}): Promise<number> {
  const { databaseUrl: connectionString, url, tuned, count, width } = options;
  const logger = new Logger(() => () => undefined);
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  for (let made = 0; made < count; made += BATCH)
    await utils.addJobs(
      Array.from({ length: Math.min(BATCH, count - made) }, () => ({
        identifier: "post",
        payload: { hello: "world" },
      })),
    );

  const dispatcher = new Agent({ connections: width });
  const taskList: TaskList = {
    post: async (payload) => {
      await post(dispatcher, url, JSON.stringify(payload));
    },
  };
  const begun = performance.now();
  const runner = await run({
    connectionString,
    logger,
    taskList,
    noHandleSignals: true,
    concurrency: width,
    maxPoolSize: tuned ? 10 : width + 2,
    ...(tuned
      ? {
          preset: {
            worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
          },
        }
      : {}),
  });
  // Emitted when a result has been written back, or is about to be with the next batch.
  let done = 0;
  const allDone = Promise.withResolvers<void>();
  runner.events.on("job:complete", () => {
    done += 1;
    if (done >= count) allDone.resolve();
  });
  await allDone.promise;
  while (await anyLeft(utils)) await setImmediate();
  const seconds = (performance.now() - begun) / 1_000;
  await runner.stop();
  await utils.release();
  await dispatcher.close();
  return count / seconds;
}

async function anyLeft(utils: WorkerUtils): Promise<boolean> {
  return utils.withPgClient(async (client) => {
    const { rows } = await client.query<{ left: boolean }>(
      "select exists (select from graphile_worker._private_jobs) as left",
    );
    return rows[0]?.left === true;
  });
}
