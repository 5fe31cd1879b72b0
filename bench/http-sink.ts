/** Answers 200 at once and remembers when each call arrived. Started by sink-process.ts. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

let arrivals: number[] = [];
const server = createServer((request, response) => {
  request.resume();
  request.on("end", () => {
    arrivals.push(performance.timeOrigin + performance.now());
    response.end("ok");
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
process.on("message", (question) => {
  if (question === "count") process.send?.(arrivals.length);
  else {
    process.send?.(arrivals);
    arrivals = [];
  }
});
process.on("disconnect", () => process.exit());
