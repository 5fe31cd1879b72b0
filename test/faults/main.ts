/**
 * `npm run faults -- [--seeds N | --seed N] [--seconds S] [--jobs N] [--keep]`: rounds of the fault suite,
 * one after the other, with their numbers. Exits 1 when a round found a violation.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { summary, violationLines } from "./report.ts";
import { runRound, type RoundReport } from "./round.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "20" },
    seed: { type: "string" },
    first: { type: "string", default: "1" },
    seconds: { type: "string", default: "60" },
    jobs: { type: "string", default: "300" },
    keep: { type: "boolean", default: false },
  },
});
const first = Number(values.seed ?? values.first);
const count = values.seed === undefined ? Number(values.seeds) : 1;
const home = await mkdtemp(join(tmpdir(), "carillon-faults-"));
const reports: RoundReport[] = [];
for (let seed = first; seed < first + count; seed += 1) {
  const directory = join(home, `seed-${seed}`);
  const report = await runRound({
    seed,
    seconds: Number(values.seconds),
    jobs: Number(values.jobs),
    directory,
    say: (line) => {
      console.log(line);
    },
  });
  reports.push(report);
  console.log(summary([report]));
  const bad = violationLines(report);
  for (const line of bad) console.log(line);
  if (bad.length === 0 && !values.keep) await rm(directory, { recursive: true, force: true });
  else console.log(`  logs: ${directory}`);
}
if (count > 1) console.log(`\nall ${count} seeds\n${summary(reports)}`);
const failed = reports.filter((report) => violationLines(report).length > 0);
if (failed.length > 0) {
  console.log(`FAILED seeds: ${failed.map(({ plan }) => plan.seed).join(", ")}`);
  process.exitCode = 1;
} else if (!values.keep) await rm(home, { recursive: true, force: true });
