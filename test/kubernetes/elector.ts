/**
 * One candidate in a process of its own, for tests that kill and stop it. Arguments: kubeconfig, Lease name,
 * identity, the wall clock's error in milliseconds. Writes a line for each change of leadership, with the time by a
 * clock that all processes of the machine share, because the line may be read much later.
 */
import { createLeaseElection } from "../../src/kubernetes/lease-election.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { connect } from "./cluster.ts";
import { realTime } from "./real-time.ts";

const [kubeconfig = "", name = "", identity = "", skew = "0"] = process.argv.slice(2);
const client = connect(kubeconfig, { connections: 1 });
const election = createLeaseElection({
  client,
  namespace: "default",
  name,
  identity,
  ...realTime,
  wallClock: () => Date.now() + Number(skew),
  log: createLogger({ output: "stderr" }),
  leaseDurationMs: 3_000,
  renewDeadlineMs: 2_000,
  retryPeriodMs: 400,
});
const say = (line: string) => process.stdout.write(`${process.hrtime.bigint()} ${line}\n`);
election.onChange((leading) => {
  if (!leading) say("not leading");
});
const end = new AbortController();
process.once("SIGTERM", () => end.abort());
// `holds()` is polled: it may turn false for a moment, and true again when a late renewal still succeeds.
let held = false;
const watching = setInterval(() => {
  const holds = election.holds();
  if (holds !== held) say(holds ? "leading" : "holds no more");
  held = holds;
}, 10);
await election.run(end.signal);
clearInterval(watching);
await client.close();
say("released");
