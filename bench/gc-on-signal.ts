/** Preloaded into a measured program: on SIGUSR2 it collects all garbage, so that only memory in use is counted. */
import { collectGarbage } from "../test/collect-garbage.ts";

process.on("SIGUSR2", () => {
  collectGarbage();
});
