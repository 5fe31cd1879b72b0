import { expect, test, vi } from "vitest";
import { createTestDatabase } from "../postgres/database.ts";
import { check } from "./checker.ts";
import { summary, describeViolation } from "./report.ts";
import { runRound } from "./round.ts";

// Adds crons of 100 to 300 ms to those that people can ask for. Everything else is the product as it is.
vi.mock(import("../../src/domain/schedule.ts"), async (importOriginal) => {
  const { withShortCrons } = await import("./short-crons.ts");
  const original = await importOriginal();
  return { ...original, compileSchedule: withShortCrons(original.compileSchedule) };
});

/** So many violations are described in full; the others are only counted. */
const DESCRIBED = 6;

// Few and short, to be run with every change; `npm run compressed-time` does others.
const SEEDS = seedsOf(process.env["CARILLON_COMPRESSED_TIME_SEEDS"] ?? "1-3");
const SECONDS = Number(process.env["CARILLON_COMPRESSED_TIME_SECONDS"] ?? "10");

/** `7`, or `1000-1019`. */
function seedsOf(text: string): number[] {
  const [first = 0, last = first] = text.split("-").map(Number);
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

test.each(SEEDS)("seed %i: everything is accounted for", async (seed) => {
  const database = await createTestDatabase();
  try {
    const began = performance.now();
    const evidence = await runRound({ seed, seconds: SECONDS, url: database.url });
    const verdict = check(evidence);
    const took = ((performance.now() - began) / 1_000).toFixed(0);
    process.stderr.write(
      `compressed time, seed ${seed}, ${took} s\n${summary(evidence, verdict)}\n`,
    );
    const violations = verdict.violations
      .slice(0, DESCRIBED)
      .map((each) => describeViolation(each, evidence));
    for (const violation of violations) process.stderr.write(`  VIOLATION ${violation}\n`);
    expect({
      seed,
      violations: verdict.violations.length,
      // A machine that is too slow to reach its fire times would prove nothing.
      enough: verdict.fireTimes > SECONDS * 20,
    }).toEqual({ seed, violations: 0, enough: true });
  } finally {
    await database.drop();
  }
});
