/** `npm run controller`: every replica delivers; the one that leads schedules. */
import { runController } from "./controller-part.ts";
import { serve } from "./serving.ts";

await serve("controller", async ({ configuration, foundation, store, ending, identity }) => {
  const { jobs, leadership, reporter, secretHeaders } = store;
  const controller = runController({
    foundation,
    configuration,
    jobs,
    leadership,
    ...(reporter ? { reporter } : {}),
    ...(secretHeaders ? { secretHeaders } : {}),
    worker: identity,
  });
  ending.add("controller", () => controller.end());
  controller.onFailure((error) => {
    foundation.log.error({ err: error }, "a part that must not end has ended: stopping");
    process.exitCode = 1;
    process.kill(process.pid, "SIGTERM");
  });
  foundation.log.info({ worker: identity }, "ready");
  return controller;
});
