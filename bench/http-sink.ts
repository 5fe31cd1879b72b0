/** A receiver that remembers when each call arrived. Started by sink-process.ts. */
import { startReceiver } from "./http-receiver.ts";

let arrivals: number[] = [];
const port = await startReceiver(() => {
  arrivals.push(performance.timeOrigin + performance.now());
});
process.on("message", (question) => {
  if (question === "count") process.send?.(arrivals.length);
  else {
    process.send?.(arrivals);
    arrivals = [];
  }
});
process.on("disconnect", () => process.exit());
process.send?.({ port });
