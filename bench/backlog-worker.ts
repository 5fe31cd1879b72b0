/** One delivery worker in a process of its own, so that its memory is nobody else's. Run by backlog.ts. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createBenchWorker } from "./durable-delivery.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const [databaseUrl = ""] = process.argv.slice(2);
const bench = await createBenchWorker({ databaseUrl });
bench.start(() => undefined);
process.on("message", () => {
  collect();
  const { user, system } = process.cpuUsage();
  process.send?.({ rss: process.memoryUsage.rss(), cpuMs: (user + system) / 1_000 });
});
process.on("disconnect", () => process.exit());
process.send?.({});
