/** One delivery worker in a process of its own, so that the memory measured is its alone. Started by backlog.ts. */
import { collectGarbage } from "../test/collect-garbage.ts";
import { createBenchWorker } from "./durable-delivery.ts";

const [databaseUrl = ""] = process.argv.slice(2);
const bench = await createBenchWorker({ databaseUrl });
bench.start(() => undefined);
process.on("message", () => {
  collectGarbage();
  const { user, system } = process.cpuUsage();
  process.send?.({ rss: process.memoryUsage.rss(), cpuMs: (user + system) / 1_000 });
});
process.on("disconnect", () => process.exit());
process.send?.({});
