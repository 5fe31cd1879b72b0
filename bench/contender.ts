/**
 * One of those that delivery.ts compares, in a process of its own: in one process they share a heap and the compiler's
 * knowledge of the code that they have in common, and the same code took 1.04 to 1.06 of its own time. Arguments: name,
 * database URL, port of the receiver on this machine; without a port it is its own receiver. Each message is a load, the
 * answer how many a second it did.
 */
import { createPool } from "../src/postgres/pool.ts";
import { benchBareQueue } from "./bare-queue.ts";
import { createDurableDelivery } from "./durable-delivery.ts";
import { benchGraphileWorker } from "./graphile-worker.ts";
import { startReceiver } from "./http-receiver.ts";
import { benchPromisedQueue } from "./promised-queue.ts";
import { benchRawPost } from "./raw-post.ts";

export type Contender = "raw" | "durable" | "tuned" | "promised" | "bare" | "plain";
export interface Load {
  count: number;
  width: number;
}

const [name, databaseUrl = "", port] = process.argv.slice(2);
const url = `http://127.0.0.1:${port ?? (await startReceiver(() => undefined))}/`;

const CONTENDERS: Record<Contender, () => Promise<(load: Load) => Promise<number>>> = {
  raw: async () => (load) => benchRawPost(url, load),
  durable: async () => (await createDurableDelivery({ databaseUrl, url })).run,
  bare: async () => {
    const pool = createPool({ url: databaseUrl, applicationName: "bench", max: 4 });
    return (load) => benchBareQueue({ pool, url, ...load });
  },
  promised: async () => {
    const pool = createPool({ url: databaseUrl, applicationName: "bench", max: 4, plans: "fixed" });
    return (load) => benchPromisedQueue({ pool, url, ...load });
  },
  tuned: async () => (load) => benchGraphileWorker({ databaseUrl, url, tuned: true, ...load }),
  plain: async () => (load) => benchGraphileWorker({ databaseUrl, url, tuned: false, ...load }),
};

const run = await CONTENDERS[name as Contender]();
process.on("message", (load) => {
  void run(load as Load).then((perSecond) => process.send?.(perSecond));
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
