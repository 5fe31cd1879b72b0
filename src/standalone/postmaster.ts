import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { platform } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { readOptional } from "./data-directory.ts";
import { isSystemError } from "./system-error.ts";

const run = promisify(execFile);

/** What a running or killed server wrote into postmaster.pid; see PostgreSQL's src/include/utils/pidfile.h. */
export interface Postmaster {
  pid: number;
  port: number;
  ready: boolean;
}

export async function readPostmaster(data: string): Promise<Postmaster | undefined> {
  const text = await readOptional(join(data, "postmaster.pid"));
  if (text === undefined) return undefined;
  const lines = text.split("\n");
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 0) return { pid: 0, port: 0, ready: false };
  return { pid, port: Number(lines[3]) || 0, ready: lines[7]?.trim() === "ready" };
}

/** A zombie counts as dead: in a container nobody may ever collect it. */
export async function isRunning(pid: number): Promise<boolean> {
  if (pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    return isSystemError(error, "EPERM");
  }
  if (platform() !== "linux") return true;
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    return stat[stat.lastIndexOf(")") + 2] !== "Z";
  } catch (error) {
    // It has ended since. Any other error, such as too few file descriptors, says nothing about it.
    return !isSystemError(error, "ENOENT") && !isSystemError(error, "ESRCH");
  }
}

/** Whether the process is a server of this data directory, and not another program that got its number. */
export async function servesDirectory(pid: number, data: string): Promise<boolean> {
  if (!(await isRunning(pid))) return false;
  if (platform() === "win32") return true;
  const command =
    platform() === "linux"
      ? (await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")).replaceAll("\0", " ")
      : (await run("ps", ["-o", "command=", "-p", String(pid)]).catch(() => ({ stdout: "" })))
          .stdout;
  return command.includes("postgres") && command.includes(data);
}

/** True once the process is gone; false when the time ran out. */
export async function waitForExit(pid: number, ms: number): Promise<boolean> {
  const deadline = performance.now() + ms;
  while (await isRunning(pid)) {
    if (performance.now() > deadline) return false;
    await delay(20);
  }
  return true;
}

/** Fast shutdown (sessions are cut, data is flushed); then immediate; then kill. */
export async function stopPostmaster(request: {
  pid: number;
  data: string;
  pgCtl: string;
  fastMs: number;
}): Promise<void> {
  const { pid } = request;
  if (platform() === "win32") {
    await run(request.pgCtl, ["stop", "-D", request.data, "-m", "fast", "-w"]);
    return;
  }
  const steps: [NodeJS.Signals, number][] = [
    ["SIGINT", request.fastMs],
    ["SIGQUIT", 3_000],
    ["SIGKILL", 3_000],
  ];
  for (const [signal, ms] of steps) {
    try {
      process.kill(pid, signal);
    } catch {
      return;
    }
    if (await waitForExit(pid, ms)) return;
  }
  throw new Error(`PostgreSQL (process ${pid}) does not end`);
}
