import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startStandalone } from "../test/e2e/program.ts";
import { median } from "./median.ts";

const ROUNDS = 5;

/** Milliseconds. */
export interface StartFigures {
  /** With an empty data directory: PostgreSQL is initialised, and the first account made. */
  firstMs: number;
  /** With that directory again; the median. */
  againMs: number;
  /** Node with nothing to do, from its start to its end; the median. */
  nodeMs: number;
}

/** Standalone, from its start until it says that it is ready, beside what Node alone takes to start and end. */
export async function benchStart(): Promise<StartFigures> {
  const dataDir = await mkdtemp(join(tmpdir(), "carillon-bench-"));
  try {
    const firstMs = await startAndStop(dataDir);
    const again: number[] = [];
    const node: number[] = [];
    while (again.length < ROUNDS) {
      node.push(await startNode());
      again.push(await startAndStop(dataDir));
    }
    return { firstMs, againMs: median(again), nodeMs: median(node) };
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

async function startAndStop(dataDir: string): Promise<number> {
  const program = await startStandalone(dataDir);
  program.signal("SIGTERM");
  await program.finished;
  return program.readyMs;
}

async function startNode(): Promise<number> {
  const begun = performance.now();
  await once(spawn(process.execPath, ["--eval", ""]), "exit");
  return performance.now() - begun;
}
