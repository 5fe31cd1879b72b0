import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";

const alive = new Set<ChildProcess>();
process.once("exit", () => {
  // A run that is broken off must not leave a controller behind.
  for (const child of alive) child.kill("SIGKILL");
});

/** What docs/reliability.md promises, and what a busy machine may add. */
const ENDS_WITHIN_MS = 30_000 + 2_000;
const ROOT = join(import.meta.dirname, "../..");

/** One process of the system under test, across its deaths and rebirths. */
export interface Member {
  readonly name: string;
  start(): void;
  signal(signal: NodeJS.Signals): void;
  /** Resolves when the present process has ended. */
  ended(): Promise<void>;
  /** SIGTERM, and the orderly end that is promised within 30 s; else it is noted, and cut short. */
  terminate(): Promise<void>;
  /** Ends for good. */
  destroy(): Promise<void>;
  /** Exits nobody asked for. */
  readonly crashes: readonly string[];
}

export function createMember(options: {
  name: string;
  program: "gateway" | "controller";
  env: Record<string, string>;
  /** Standard output and error of all its lives. */
  logFile: string;
}): Member {
  const { name, program, env, logFile } = options;
  const crashes: string[] = [];
  let child: ChildProcess | undefined;
  let exited: Promise<void> = Promise.resolve();
  let expected = false;

  function signal(which: NodeJS.Signals): void {
    if (which === "SIGKILL" || which === "SIGTERM") expected = true;
    child?.kill(which);
  }

  return {
    name,
    start: () => {
      expected = false;
      const log = openSync(logFile, "a");
      const started = spawn(process.execPath, [`cmd/${program}.ts`], {
        cwd: ROOT,
        // Nothing of this process' own configuration.
        env: { PATH: process.env["PATH"] ?? "", ...env },
        stdio: ["ignore", log, log],
      });
      closeSync(log);
      child = started;
      alive.add(started);
      exited = new Promise((resolve) => {
        started.once("error", (error) => {
          crashes.push(`${name} could not be started: ${error.message}`);
          resolve();
        });
        started.once("exit", (code, how) => {
          alive.delete(started);
          // An orderly end is code 0. One that is told to end before it can listen dies of the signal.
          if (!expected || (code !== 0 && how === null))
            crashes.push(`${name} ended by itself: ${how ?? `code ${code}`}`);
          resolve();
        });
      });
    },
    signal,
    ended: () => exited,
    terminate: async () => {
      signal("SIGTERM");
      const late = setTimeout(() => {
        crashes.push(`${name} did not end within ${ENDS_WITHIN_MS / 1_000} s of SIGTERM`);
        signal("SIGKILL");
      }, ENDS_WITHIN_MS);
      await exited;
      clearTimeout(late);
    },
    destroy: async () => {
      signal("SIGKILL");
      await exited;
    },
    crashes,
  };
}
