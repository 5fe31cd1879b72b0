import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";

const alive = new Set<ChildProcess>();
process.once("exit", () => {
  // An interrupted run must not leave processes behind.
  for (const child of alive) child.kill("SIGKILL");
});

/** What docs/reliability.md promises, and some time for a busy machine. */
const ENDS_WITHIN_MS = 30_000 + 2_000;
const ROOT = join(import.meta.dirname, "../..");

/** One process of the system under test, across restarts. */
export interface Member {
  readonly name: string;
  start(): void;
  signal(signal: NodeJS.Signals): void;
  /** Resolves when the present process has ended. */
  ended(): Promise<void>;
  /** Sends SIGTERM and waits for the end, which is promised within 30 s. A later one is a crash, and is forced. */
  terminate(): Promise<void>;
  /** Ends for good. */
  destroy(): Promise<void>;
  /** Ends that the suite did not ask for, and orderly ends that came too late. */
  readonly crashes: readonly string[];
}

export function createMember(options: {
  name: string;
  program: "gateway" | "controller";
  env: Record<string, string>;
  /** Standard output and error of all its starts. */
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
        // With none of this process's own configuration.
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
          // An orderly end has the code 0. A process that gets SIGTERM before it listens for it dies of it.
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
