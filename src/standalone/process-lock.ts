import { once } from "node:events";
import { rm } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isSystemError } from "./system-error.ts";

export type ProcessLock =
  | { kind: "held"; release(): Promise<void> }
  /** `pid` of the holder, when it says so. */
  | { kind: "taken"; pid: number | undefined };

const ANSWER_WITHIN_MS = 1_000;

/**
 * A lock that the system releases when its holder dies, kill -9 included: a local socket that listens. On Linux
 * and Windows its name is outside the file system, so that nothing stale stays behind; elsewhere a socket file on
 * which nobody answers is replaced. On Linux it only keeps out processes of the same network namespace, not of
 * another container: see file-lock.ts for a lock that does.
 */
export async function holdProcessLock(name: string): Promise<ProcessLock> {
  const path = socketPath(name);
  for (;;) {
    const server = await listen(path);
    if (server) return { kind: "held", release: () => close(server) };
    const holder = await ask(path);
    if (holder !== "gone") return { kind: "taken", pid: holder.pid };
    // It was released between `listen` and `ask`, or left behind by a dead process.
    if (isFile(path)) await rm(path, { force: true });
  }
}

function socketPath(name: string): string {
  if (process.platform === "linux") return `\0${name}`;
  if (process.platform === "win32") return `\\\\.\\pipe\\${name}`;
  return join(tmpdir(), `${name}.sock`);
}

function isFile(path: string): boolean {
  return path.endsWith(".sock");
}

async function listen(path: string): Promise<Server | undefined> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.end(`${process.pid}\n`);
  });
  server.listen(path);
  try {
    await once(server, "listening");
  } catch (error) {
    if (isSystemError(error, "EADDRINUSE")) return undefined;
    throw error;
  }
  // The lock must not keep the process alive.
  server.unref();
  return server;
}

async function close(server: Server): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => {
      resolve();
    });
  });
}

/** A holder that is busy or stopped does not answer, and still holds. */
function ask(path: string): Promise<"gone" | { pid: number | undefined }> {
  return new Promise((resolve) => {
    let text = "";
    const socket = connect(path);
    socket.setTimeout(ANSWER_WITHIN_MS, () => {
      socket.destroy();
      resolve({ pid: undefined });
    });
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    socket.once("error", () => {
      resolve("gone");
    });
    socket.once("end", () => {
      const pid = Number.parseInt(text, 10);
      resolve({ pid: Number.isInteger(pid) ? pid : undefined });
    });
  });
}
