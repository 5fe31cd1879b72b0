import { spawn } from "node:child_process";
import { closeSync, ftruncateSync, openSync, readFileSync, readlinkSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { naming } from "./system-error.ts";

/** Who took a lock, as its file says: for people, and to tell whether `pid` means anything here. */
export interface LockHolder {
  pid: number;
  host: string;
  /** See `whereabouts`. */
  place: string;
}

export interface HeldFileLock {
  kind: "held";
  /** A child that inherits it holds the lock too, and so do its children. */
  fd: number;
  /** Ends our own hold; that of a child stays. */
  release(): void;
}

export type FileLock =
  | HeldFileLock
  | { kind: "taken"; by: LockHolder | undefined }
  /** There is no flock here, as in the distroless image, or the file system does not lock. */
  | { kind: "impossible"; why: string };

/**
 * An exclusive flock(2) on the file. The file is made when missing and never removed: a lock on a file that has
 * lost its name keeps nobody out. The lock belongs to the file, so it holds in every container and namespace that
 * sees it, and the kernel drops it with the last process that has it open, however that ended: no lock is ever
 * stale. Node cannot call flock; util-linux's (or busybox's) program does it on our descriptor.
 *
 * How far it reaches: all containers of one kernel, on any volume or bind mount. On NFS other machines too,
 * unless mounted with `nolock` or `local_lock`; a client that is cut off for longer than the server's lease loses
 * the lock unnoticed. On a folder that a virtual machine shares with its host (Docker Desktop's bind mounts, 9p)
 * mostly each side for itself.
 */
export async function holdFileLock(path: string): Promise<FileLock> {
  if (process.platform !== "linux") return { kind: "impossible", why: "not Linux" };
  const fd = openSync(path, "a+", 0o600);
  let held = false;
  try {
    const answer = await flock(fd);
    if (answer.kind !== "held") return answer.kind === "taken" ? taken(path) : answer;
    ftruncateSync(fd);
    writeSync(
      fd,
      `${JSON.stringify({ pid: process.pid, host: hostname(), place: whereabouts() })}\n`,
    );
    held = true;
  } catch (error) {
    throw naming(path, error);
  } finally {
    if (!held) closeSync(fd);
  }
  let released = false;
  return {
    kind: "held",
    fd,
    release() {
      if (!released) closeSync(fd);
      released = true;
    },
  };
}

/** Who took the lock last. Whether they still hold it, only the lock itself tells. */
export function lastHolder(path: string): LockHolder | undefined {
  try {
    const { pid, host, place } = JSON.parse(readFileSync(path, "utf8")) as Partial<LockHolder>;
    if (typeof pid !== "number" || typeof host !== "string" || typeof place !== "string")
      return undefined;
    return { pid, host, place };
  } catch {
    return undefined;
  }
}

/**
 * Equal where process numbers and 127.0.0.1 mean the same: this start of the machine's kernel, and the PID and
 * network namespaces.
 */
export function whereabouts(): string {
  return [
    quietly(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()),
    quietly(() => readlinkSync("/proc/self/ns/pid")),
    quietly(() => readlinkSync("/proc/self/ns/net")),
  ].join(" ");
}

function taken(path: string): FileLock {
  return { kind: "taken", by: lastHolder(path) };
}

function quietly(read: () => string): string {
  try {
    return read();
  } catch {
    return "?";
  }
}

type FlockAnswer = { kind: "held" } | { kind: "taken" } | { kind: "impossible"; why: string };

/** The program's descriptor and ours are one open file: the lock stays when the program ends. */
function flock(fd: number): Promise<FlockAnswer> {
  return new Promise((resolve) => {
    const child = spawn("flock", ["-x", "-n", "3"], { stdio: ["ignore", "ignore", "pipe", fd] });
    let complaint = "";
    child.stderr?.on("data", (chunk: Buffer) => (complaint += chunk.toString()));
    child.once("error", (error) => {
      resolve({ kind: "impossible", why: error.message });
    });
    child.once("close", (code) => {
      const why = complaint.trim();
      if (code === 0) resolve({ kind: "held" });
      // busybox has no special exit code for a conflict; like util-linux, it prints nothing then.
      else if (code === 1 && why === "") resolve({ kind: "taken" });
      else resolve({ kind: "impossible", why: why || `flock ended with ${code}` });
    });
  });
}
