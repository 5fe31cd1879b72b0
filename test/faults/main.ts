/**
 * `npm run faults` (see `USAGE`): rounds of the fault suite, one after the other, with their figures. Exits with 1
 * when a round found a violation or came to no verdict; the evidence of such a round is kept in a directory that it
 * names.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { OwnControlPlane } from "../kubernetes/own-control-plane.ts";
import { startFaultyControlPlane } from "./cluster.ts";
import { TOPOLOGIES, type Topology } from "./plan.ts";
import { summary, violationLines } from "./report.ts";
import { runRound, type RoundReport } from "./round.ts";
import { wholeNumber } from "./whole-number.ts";

const USAGE = `npm run faults -- [--topology standalone|kubernetes|both] [--seeds N] [--first-seed S] [--seconds S]
  [--jobs N] [--keep]`;

const values = options();
const topologies =
  values.topology === "both" ? TOPOLOGIES : TOPOLOGIES.filter((each) => each === values.topology);
if (topologies.length === 0) {
  console.error(`--topology: ${TOPOLOGIES.join(", ")} or both, not ${values.topology}`);
  process.exit(2);
}
const count = (name: "seeds" | "first-seed" | "seconds" | "jobs", least: number): number =>
  wholeNumber(name, values[name], least);
const first = count("first-seed", 0);
const seeds = Array.from({ length: count("seeds", 1) }, (_, index) => first + index);
const size = { seconds: count("seconds", 20), jobs: count("jobs", 1) };

// Processes, database and API server end with this process, also when it is interrupted.
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.once(signal, () => {
    process.exit(130);
  });

const home = await mkdtemp(join(tmpdir(), "carillon-faults-"));
const say = (line: string): void => {
  console.log(line);
};
const failed: string[] = [];
for (const topology of topologies) await runTopology(topology);
if (failed.length > 0) {
  console.log(`\nFAILED: ${failed.join(", ")}; evidence in ${home}`);
  process.exitCode = 1;
} else if (!values.keep) await rm(home, { recursive: true, force: true });

function options() {
  try {
    return parseArgs({
      options: {
        topology: { type: "string", default: "standalone" },
        seeds: { type: "string", default: "20" },
        "first-seed": { type: "string", default: "1" },
        seconds: { type: "string", default: "36" },
        jobs: { type: "string", default: "250" },
        keep: { type: "boolean", default: false },
      },
    }).values;
  } catch (error) {
    console.error(`${(error as Error).message}\n${USAGE}`);
    return process.exit(2);
  }
}

async function runTopology(topology: Topology): Promise<void> {
  const reports: RoundReport[] = [];
  let controlPlane: OwnControlPlane | undefined;
  const began = performance.now();
  for (const seed of seeds) {
    const name = `${topology} seed ${seed}`;
    const directory = join(home, `${topology}-${seed}`);
    try {
      if (topology === "kubernetes") {
        controlPlane ??= await startFaultyControlPlane(say);
        if (controlPlane === undefined) {
          say("NO VERDICT: no control plane to do faults to");
          failed.push(`${topology} (no control plane)`);
          return;
        }
      }
      const report = await runRound({ seed, ...size, controlPlane, directory, say });
      reports.push(report);
      const bad = violationLines(report);
      for (const line of bad) say(line);
      const verdict = bad.length === 0 ? "in order" : "VIOLATED";
      say(`${name}: ${verdict}, ${report.seconds.toFixed(0)} s\n${summary([report])}`);
      if (bad.length > 0) failed.push(name);
      if (bad.length === 0 && !values.keep) await rm(directory, { recursive: true, force: true });
      else say(`  evidence: ${directory}`);
    } catch (error) {
      say(`${name}: NO VERDICT: ${error instanceof Error ? error.stack : String(error)}`);
      failed.push(`${name} (no verdict)`);
      await writeFile(join(directory, "error.txt"), String(error)).catch(() => undefined);
      // It may be the control plane that is broken: the next round starts another.
      await controlPlane?.stop();
      controlPlane = undefined;
    }
  }
  await controlPlane?.stop();
  const minutes = ((performance.now() - began) / 60_000).toFixed(1);
  if (reports.length > 0)
    say(
      `\n${topology}: ${reports.length} of ${seeds.length} seeds, ${minutes} min\n${summary(reports)}`,
    );
}
