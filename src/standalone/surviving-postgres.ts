import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { StartProblem } from "../configuration/start-problem.ts";
import { serverDirectory } from "../postgres/server-directory.ts";
import { holdFileLock, lastHolder, whereabouts, type HeldFileLock } from "./file-lock.ts";
import { readPostmaster, servesDirectory, stopPostmaster } from "./postmaster.ts";

/** A server that calls itself ready answers; one in crash recovery says "starting" and takes its time. */
export const HANGING_AFTER_MS = { ready: 8_000, starting: 300_000 };
/** The processes of a killed server end within moments; a server that somebody still uses does not. */
const LAST_BREATH_MS = 10_000;
const LOOK_EVERY_MS = 100;

export type Survivor =
  | { kind: "adopted"; pid: number; port: number }
  /** No server has the directory. The lock is for the next server to inherit. */
  | { kind: "none"; lock: HeldFileLock | undefined };

/**
 * Finds out whether a PostgreSQL that outlived its owner still has the directory, and adopts or replaces it.
 * Throws StartProblem when it runs where we can do neither.
 *
 * postmaster.pid cannot tell: in another container its number is a stranger's or nobody's, whether the server is
 * dead (a container restarted on its volume, the ordinary case) or alive (its owner was killed on the host, and a
 * container started on the same folder). So every server, with all its backends, inherits a flock that ends with
 * the last of them. If we get the lock, no process of the server is left, wherever it ran, and postmaster.pid may
 * be removed. If not, we look at the number only if the lock was taken where we are (same boot, PID and network
 * namespace), and otherwise touch nothing.
 */
export async function findSurvivor(request: {
  /** Beside the data, not in it: initdb wants that empty. */
  lockFile: string;
  data: string;
  urlAt: (port: number) => string;
  pgCtl: string;
  progress: (line: string) => void;
  /** Ends the waiting: rejects with its reason. */
  signal?: AbortSignal;
  lastBreathMs?: number;
}): Promise<Survivor> {
  const { lockFile, data, progress } = request;
  const lastBreathMs = request.lastBreathMs ?? LAST_BREATH_MS;
  // Only the waits count: watching and replacing a server that hangs takes longer than `lastBreathMs`.
  for (let waitedMs = 0; ; waitedMs += LOOK_EVERY_MS) {
    request.signal?.throwIfAborted();
    const owner = lastHolder(lockFile);
    const here = owner === undefined || owner.place === whereabouts();
    const adopted = here ? await adopt(request) : undefined;
    if (adopted) return { kind: "adopted", ...adopted };

    const lock = await holdFileLock(lockFile);
    if (lock.kind === "impossible" && process.platform === "linux")
      throw new StartProblem(
        `the bundled PostgreSQL needs a lock that keeps others off ${data}, which cannot be had (${lock.why}): install flock (util-linux) and keep the data directory on a file system that locks, or set DATABASE_URL`,
      );
    if (lock.kind !== "taken") {
      if (await readPostmaster(data)) {
        // PostgreSQL would refuse to start if another program has that number by now.
        progress("Removing the lock file of a PostgreSQL that is gone …");
        await rm(join(data, "postmaster.pid"), { force: true });
      }
      return { kind: "none", lock: lock.kind === "held" ? lock : undefined };
    }
    if (waitedMs >= lastBreathMs)
      throw new StartProblem(
        here
          ? `processes of a PostgreSQL that was killed still work on ${data}: start again when they have ended`
          : `the PostgreSQL that another container or machine (${owner.host}) started on ${data} is still running: start Carillon there, which takes it over, or end it there, or set CARILLON_DATA_DIR to another directory`,
      );
    if (waitedMs === 0)
      progress(
        here
          ? "Waiting for the last processes of a PostgreSQL that was killed …"
          : `Waiting for the PostgreSQL that another container or machine (${owner.host}) started …`,
      );
    await delay(LOOK_EVERY_MS);
  }
}

/** For a server here: adopts one that answers, ends one that is silent. Undefined also for a stranger's number. */
async function adopt(request: {
  data: string;
  urlAt: (port: number) => string;
  pgCtl: string;
  progress: (line: string) => void;
  signal?: AbortSignal;
}): Promise<{ pid: number; port: number } | undefined> {
  const { data, urlAt, pgCtl, progress } = request;
  const begun = performance.now();
  let found = await readPostmaster(data);
  const pid = found?.pid ?? 0;
  // The server may be recovering, or shutting down: watch it for a while before deciding.
  while (found?.pid === pid && (await servesDirectory(pid, data))) {
    request.signal?.throwIfAborted();
    if (found.ready && (await answers(urlAt(found.port), data))) {
      progress("Adopted the PostgreSQL that was still running");
      return { pid, port: found.port };
    }
    const patience = found.ready ? HANGING_AFTER_MS.ready : HANGING_AFTER_MS.starting;
    if (performance.now() - begun > patience) {
      progress("Replacing a PostgreSQL that does not answer …");
      await stopPostmaster({ pid, data, pgCtl, fastMs: 3_000 });
      return undefined;
    }
    await delay(50);
    found = await readPostmaster(data);
  }
  return undefined;
}

async function answers(url: string, data: string): Promise<boolean> {
  const directory = await serverDirectory(url).catch(() => undefined);
  return directory === data;
}
