import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { summary, violationLines } from "./report.ts";
import { runRound } from "./round.ts";

/** Short rounds for every change; `npm run faults` does long ones. */
const SEEDS = [1];
const SIZE = { seconds: 45, jobs: 200 };

test.each(SEEDS)("seed %i: everything is accounted for", async (seed) => {
  const home = await mkdtemp(join(tmpdir(), "carillon-faults-"));
  const report = await runRound({ seed, ...SIZE, directory: home });
  process.stderr.write(`faults, seed ${seed} (logs: ${home})\n${summary([report])}\n`);
  // A machine too slow to make jobs in time would prove nothing.
  expect(report.verdict.delivered).toBeGreaterThan(SIZE.jobs / 10);
  expect(violationLines(report)).toEqual([]);
  await rm(home, { recursive: true, force: true });
});
