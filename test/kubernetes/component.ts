import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";

/** One process of the test control plane. */
export interface Component {
  readonly pid: number;
  readonly running: boolean;
  start(): void;
  /** SIGSTOP: it keeps its connections open, and answers nothing. */
  pause(): void;
  resume(): void;
  /** Ends it and waits until it has ended. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  /** The last lines it logged, for the message of a failure. */
  logTail(): string;
}

const alive = new Set<ChildProcess>();
process.once("exit", () => {
  // A test process that ends without teardown must not leave an API server behind.
  for (const child of alive) child.kill("SIGKILL");
});

export function createComponent(input: {
  program: string;
  args: readonly string[];
  log: string;
}): Component {
  let child: ChildProcess | undefined;
  return {
    get pid() {
      if (child?.pid === undefined) throw new Error(`${input.program} is not running`);
      return child.pid;
    },
    get running() {
      return child !== undefined && child.exitCode === null && child.signalCode === null;
    },
    start() {
      const log = openSync(input.log, "a");
      const started = spawn(input.program, input.args, { stdio: ["ignore", log, log] });
      closeSync(log);
      child = started;
      alive.add(started);
      started.once("exit", () => alive.delete(started));
      started.once("error", () => alive.delete(started));
    },
    pause() {
      child?.kill("SIGSTOP");
    },
    resume() {
      child?.kill("SIGCONT");
    },
    async stop(signal = "SIGTERM") {
      const ending = child;
      child = undefined;
      if (!ending || ending.exitCode !== null || ending.signalCode !== null) return;
      const gone = new Promise<void>((resolve) => ending.once("exit", () => resolve()));
      ending.kill("SIGCONT");
      ending.kill(signal);
      const force = setTimeout(() => ending.kill("SIGKILL"), 5_000);
      await gone;
      clearTimeout(force);
    },
    logTail() {
      return readFileSync(input.log, "utf8").split("\n").slice(-15).join("\n");
    },
  };
}
