import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

/** What a test waits for usually comes within milliseconds. On a busy machine it comes later, which is no failure. */
const expect = { poll: { timeout: 15_000 } };

/**
 * Tests do not run in the order in which they are written, so that a test that depends on another one fails. The
 * order is always the same, so that it fails at once. `--sequence.seed=N` gives another. Files whose tests build on
 * each other set `shuffle: false`.
 */
const sequence = { shuffle: { tests: true } };

/**
 * Runs one file less at a time than there are cores, but at least two, because they mostly wait for servers. Tests that
 * load the machine themselves, with faults and with compressed time, run one file at a time.
 */
export default defineConfig({
  test: {
    maxWorkers: Math.max(2, availableParallelism() - 1),
    sequence: { seed: 5 },
    projects: [
      {
        // The fuzzes take seconds on an idle machine and many on a busy one.
        test: {
          name: "unit",
          include: ["test/unit/**/*.test.ts"],
          testTimeout: 120_000,
          expect,
          sequence,
        },
      },
      {
        test: {
          name: "integration",
          expect,
          sequence,
          include: ["test/integration/**/*.test.ts", "test/conformance/**/*.test.ts"],
          exclude: ["test/integration/kubernetes/**", "test/conformance/kubernetes.test.ts"],
          globalSetup: ["test/postgres/global-setup.ts"],
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: "kubernetes",
          expect,
          sequence,
          include: [
            "test/integration/kubernetes/**/*.test.ts",
            "test/conformance/kubernetes.test.ts",
            "test/charts/**/*.test.ts",
            "test/e2e/kubernetes/**/*.test.ts",
          ],
          globalSetup: ["test/kubernetes/global-setup.ts", "test/postgres/global-setup.ts"],
          testTimeout: 60_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          name: "faults",
          expect,
          include: ["test/faults/**/*.test.ts"],
          testTimeout: 420_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          name: "compressed-time",
          include: ["test/compressed-time/**/*.test.ts"],
          globalSetup: ["test/postgres/global-setup.ts"],
          testTimeout: 180_000,
          hookTimeout: 60_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          name: "e2e",
          expect,
          include: ["test/e2e/**/*.test.ts"],
          exclude: ["test/e2e/kubernetes/**"],
          globalSetup: ["test/postgres/global-setup.ts"],
          // Single tests start the whole program three times, or browse through it.
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
