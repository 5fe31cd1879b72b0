import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { OwnControlPlane } from "../kubernetes/own-control-plane.ts";
import { leaveOut } from "../leave-out.ts";
import { startFaultyControlPlane } from "./cluster.ts";
import { summary, violationLines } from "./report.ts";
import { runRound } from "./round.ts";

// Short rounds, to be run with every change; `npm run faults` does long ones.
interface Round {
  seed: number;
  seconds: number;
  jobs: number;
}

/** Of a round without violations nothing is kept; its figures go to standard error. */
async function run(
  round: Round,
  controlPlane?: OwnControlPlane,
): Promise<{ enough: boolean; violations: string[] }> {
  const directory = await mkdtemp(join(tmpdir(), "carillon-faults-"));
  const report = await runRound({ ...round, controlPlane, directory });
  const { plan, seconds, verdict } = report;
  const title = `${plan.topology}, seed ${round.seed}, ${seconds.toFixed(0)} s`;
  process.stderr.write(`${title} (logs: ${directory})\n${summary([report])}\n`);
  if (report.faults.skipped > 0) leaveOut("clock jumps, because libfaketime is not installed");
  const violations = violationLines(report);
  if (violations.length === 0) await rm(directory, { recursive: true, force: true });
  // A machine that is too slow to create jobs in time would prove nothing.
  return { enough: verdict.delivered > round.jobs / 10, violations };
}

test("standalone: everything is accounted for", async () => {
  const outcome = await run({ seed: 1, seconds: 36, jobs: 200 });
  expect(outcome).toEqual({ enough: true, violations: [] });
});

describe("kubernetes", () => {
  let controlPlane: OwnControlPlane | undefined;

  beforeAll(async () => {
    controlPlane = await startFaultyControlPlane((line) => {
      process.stderr.write(`control plane: ${line}\n`);
    });
    if (controlPlane === undefined) leaveOut("faults of a control plane, because there is none");
    // Long enough to build kube-apiserver first.
  }, 1_200_000);
  afterAll(async () => {
    await controlPlane?.stop();
  });

  test("everything is accounted for", async ({ skip }) => {
    skip(controlPlane === undefined, "no control plane to do faults to");
    const outcome = await run({ seed: 8, seconds: 26, jobs: 150 }, controlPlane);
    expect(outcome).toEqual({ enough: true, violations: [] });
  });
});
