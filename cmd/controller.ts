/** `npm run controller`: every replica delivers; the one that leads schedules. */
import { runController } from "./controller-part.ts";
import { serve } from "./serving.ts";

await serve("controller", async ({ configuration, foundation, store, shutdown, identity }) => {
  const controller = runController({ foundation, configuration, store, worker: identity });
  shutdown.add("controller", () => controller.end());
  foundation.log.info({ worker: identity }, "started");
  return controller;
});
