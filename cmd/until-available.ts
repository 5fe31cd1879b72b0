import { pause } from "../src/waiting/pause.ts";
import type { Monotonic, Timers } from "../src/domain/ports/clock.ts";
import { DependencyUnavailable } from "../src/domain/ports/dependency-unavailable.ts";

const RETRY_MS = 1_000;
/** Between two lines that say what is waited for. */
const PROGRESS_MS = 10_000;

/** Repeats `work` while a dependency does not answer yet, such as a database that starts at the same time as we do. */
export async function untilAvailable<T>(
  work: () => Promise<T>,
  options: { waitMs: number; say: (line: string) => void; monotonic: Monotonic; timers: Timers },
): Promise<T> {
  const { waitMs, say, monotonic, timers } = options;
  const began = monotonic();
  let told = -Infinity;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const waited = monotonic() - began;
      if (!(error instanceof DependencyUnavailable) || waited >= waitMs) throw error;
      if (waited - told >= PROGRESS_MS) {
        const name = error.dependency === "postgres" ? "PostgreSQL" : "the Kubernetes API";
        say(`Waiting for ${name}, ${Math.round(waited / 1_000)} of ${waitMs / 1_000} s`);
        told = waited;
      }
      await pause(RETRY_MS, timers);
    }
  }
}
