/** Preloaded into a measured program: SIGUSR2 collects all garbage, so that what is left is in use. */
import { collectGarbage } from "../test/collect-garbage.ts";

process.on("SIGUSR2", () => {
  collectGarbage();
});
