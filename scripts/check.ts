/**
 * The one command behind `npm test`: everything that CI checks, each step with its duration. All steps run even
 * when one fails, so that one run shows everything that is wrong. With names of steps as arguments only those
 * run, and the steps that they need: `npm test -- lint unit`.
 */
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";

interface Step {
  name: string;
  command: readonly string[];
  /** The name of a step that must have run before. */
  needs?: string;
}

const SOURCES = ["cmd", "src", "test", "scripts", "bench", "deploy"];

const STEPS: readonly Step[] = [
  { name: "format", command: ["prettier", "--check", "--log-level", "warn", "."] },
  { name: "lint", command: ["oxlint", "--type-aware", "--deny-warnings", ...SOURCES] },
  { name: "fences", command: ["node", "scripts/fences.ts"] },
  { name: "types", command: ["tsc", "--noEmit"] },
  { name: "dashboard-types", command: ["tsc", "-p", "src/dashboard"] },
  { name: "dashboard", command: ["node", "scripts/build-dashboard.ts"] },
  { name: "generated", command: ["node", "scripts/generate.ts", "--check"] },
  { name: "unit", command: ["vitest", "run", "--project", "unit"] },
  { name: "integration", command: ["vitest", "run", "--project", "integration"] },
  { name: "kubernetes", command: ["vitest", "run", "--project", "kubernetes"], needs: "dashboard" },
  { name: "e2e", command: ["vitest", "run", "--project", "e2e"], needs: "dashboard" },
  { name: "compressed-time", command: ["vitest", "run", "--project", "compressed-time"] },
  { name: "faults", command: ["vitest", "run", "--project", "faults"] },
];

interface Outcome {
  step: string;
  ok: boolean;
  seconds: number;
  tests: Tests;
}

interface Tests {
  passed: number;
  failed: number;
  skipped: number;
  /** What failed, and the messages. Repeated at the end of the output, for those who read only that. */
  failures: readonly string[];
}

const NO_TESTS: Tests = { passed: 0, failed: 0, skipped: 0, failures: [] };

const names = process.argv.slice(2);
const unknown = names.filter((name) => !STEPS.some((step) => step.name === name));
if (unknown.length > 0) {
  console.error(
    `no such step: ${unknown.join(", ")}; there are ${STEPS.map((s) => s.name).join(", ")}`,
  );
  process.exit(2);
}

const reports = await mkdtemp(join(tmpdir(), "carillon-check-"));
const outcomes: Outcome[] = [];
const needed = STEPS.flatMap(({ name, needs }) => (names.includes(name) ? [name, needs] : []));
for (const step of STEPS)
  if (names.length === 0 || needed.includes(step.name)) outcomes.push(await runStep(step));
await rm(reports, { recursive: true, force: true });

console.log("");
for (const { step, ok, seconds } of outcomes)
  console.log(`${ok ? "ok    " : "FAILED"} ${step.padEnd(15)} ${seconds.toFixed(1).padStart(6)} s`);
const total = { passed: 0, failed: 0, skipped: 0 };
for (const { tests } of outcomes) {
  total.passed += tests.passed;
  total.failed += tests.failed;
  total.skipped += tests.skipped;
}
const broken = outcomes.filter((outcome) => !outcome.ok);
console.log(
  `\n${total.passed} passed, ${total.failed} failed` +
    (total.skipped > 0 ? `, ${total.skipped} skipped` : ""),
);
if (broken.length > 0) {
  console.log(`failed steps: ${broken.map((outcome) => outcome.step).join(", ")}`);
  for (const failure of outcomes.flatMap(({ tests }) => tests.failures))
    console.log(`\n${failure}`);
  process.exitCode = 1;
}

async function runStep({ name, command }: Step): Promise<Outcome> {
  console.log(`\n== ${name}`);
  const report = join(reports, `${name}.json`);
  const [program = "", ...args] = command;
  const reporting =
    program === "vitest"
      ? ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`]
      : [];
  const started = performance.now();
  const code = await new Promise<number>((resolve, reject) => {
    const child = spawn(program, [...args, ...reporting], { stdio: "inherit" });
    child.once("error", reject);
    child.once("close", (status) => {
      resolve(status ?? 1);
    });
  });
  const tests = program === "vitest" ? await readReport(report) : NO_TESTS;
  // A hook that fails, or an error outside of every test, is in no report.
  const unsaid = program === "vitest" && code !== 0 && tests.failures.length === 0;
  return {
    step: name,
    ok: code === 0 && tests.failed === 0,
    seconds: (performance.now() - started) / 1_000,
    tests: unsaid
      ? { ...tests, failures: [`${name}: vitest ended with ${code}, see its output above`] }
      : tests,
  };
}

/** The part of vitest's JSON report that is read here. */
interface Report {
  numPassedTests: number;
  numFailedTests: number;
  numPendingTests: number;
  numTodoTests: number;
  testResults: readonly {
    name: string;
    /** Of the file itself: it could not be loaded, or a hook of it failed. */
    message: string;
    status: string;
    assertionResults: readonly { fullName: string; status: string; failureMessages: string[] }[];
  }[];
}

/** A run without a report did not get as far as its tests: it counts as one failure. */
async function readReport(path: string): Promise<Tests> {
  let report: Report;
  try {
    report = JSON.parse(await readFile(path, "utf8")) as Report;
  } catch (error) {
    return { ...NO_TESTS, failed: 1, failures: [`no report of the tests: ${String(error)}`] };
  }
  const failures = report.testResults.flatMap((file) => [
    ...file.assertionResults
      .filter(({ status }) => status === "failed")
      .map(({ fullName, failureMessages }) =>
        [`${relative(".", file.name)} > ${fullName}`, ...failureMessages].join("\n"),
      ),
    ...(file.status === "failed" && file.message !== ""
      ? [`${relative(".", file.name)}\n${file.message}`]
      : []),
  ]);
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests,
    skipped: report.numPendingTests + report.numTodoTests,
    failures,
  };
}
