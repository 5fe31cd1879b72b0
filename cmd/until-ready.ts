import { pause } from "../src/waiting/pause.ts";
import type { Readiness } from "../src/telemetry/readiness.ts";
import { timers } from "./system.ts";

const ASK_EVERY_MS = 1_000;

/**
 * Asks until the process has been ready once, because readiness remembers that only when somebody asks: without
 * probes, a process that served for hours would call itself `starting` at its first failure.
 */
export async function untilReady(readiness: Readiness, signal: AbortSignal): Promise<void> {
  while (!signal.aborted && (await readiness()).status === "starting")
    await pause(ASK_EVERY_MS, timers, signal);
}
