/**
 * `npm run compressed-time` (see `USAGE`): rounds of compressed time, one after the other. It runs the tests of
 * compressed-time.test.ts with other seeds, so that the replaced compiler of schedules is set up in one place.
 */
import { spawn } from "node:child_process";
import { parseArgs } from "node:util";
import { wholeNumber } from "../faults/whole-number.ts";

const USAGE = "npm run compressed-time -- [--seeds N] [--first-seed S] [--seconds S]";

const values = options();
const count = (name: "seeds" | "first-seed" | "seconds", least: number): number =>
  wholeNumber(name, values[name], least);
const first = count("first-seed", 0);
const last = first + count("seeds", 1) - 1;

const tests = spawn("vitest", ["run", "--project", "compressed-time"], {
  stdio: "inherit",
  env: {
    ...process.env,
    CARILLON_COMPRESSED_TIME_SEEDS: `${first}-${last}`,
    CARILLON_COMPRESSED_TIME_SECONDS: String(count("seconds", 5)),
  },
});
tests.once("error", (error) => {
  console.error(error.message);
  process.exitCode = 1;
});
tests.once("close", (status) => {
  process.exitCode = status ?? 1;
});

function options() {
  try {
    return parseArgs({
      options: {
        seeds: { type: "string", default: "20" },
        "first-seed": { type: "string", default: "1" },
        seconds: { type: "string", default: "10" },
      },
    }).values;
  } catch (error) {
    console.error(`${(error as Error).message}\n${USAGE}`);
    return process.exit(2);
  }
}
