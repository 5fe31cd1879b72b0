import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { readOptional, writeAtomically } from "./data-directory.ts";
import type { HeldFileLock } from "./file-lock.ts";
import { makeDirectory } from "./make-directory.ts";
import { findPostgresBinaries, type PostgresBinaries } from "./postgres-binaries.ts";
import { postgresUser, type PostgresUser } from "./postgres-user.ts";
import { isRunning, readPostmaster, stopPostmaster } from "./postmaster.ts";
import { findSurvivor, HANGING_AFTER_MS } from "./surviving-postgres.ts";

export interface EmbeddedPostgresOptions {
  /**
   * Holds `data` (PostgreSQL's data directory), `password` (0600), `postgres.log` and `postgres.lock`. Made when
   * missing.
   */
  dataDir: string;
  onProgress?: (line: string) => void;
  /** The server has ended, and not by `stop`. Noticed within a second; called once. */
  onLost?: () => void;
  /** Gives up the start, which rejects, and stops the server that it has begun; one that outlived its owner stays. */
  signal?: AbortSignal;
  /** Server settings on top of ours. `fsync: "off"` also initialises without syncing: tests only. */
  settings?: Readonly<Record<string, string>>;
}

export interface EmbeddedPostgres {
  url: string;
  /** True when a server that outlived a killed process was found and taken over. */
  adopted: boolean;
  pid: number;
  /** Fast shutdown, bounded: 10 s, then harder. */
  stop(): Promise<void>;
}

const ROLE = "carillon";
/** For obstacles that pass. */
const TRY_FOR_MS = 60_000;
const LOOK_EVERY_MS = 1_000;
/** For a fast shutdown. */
const FAST_MS = 10_000;

const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: "127.0.0.1",
  // TCP only: a socket path below a deep data directory would exceed 107 bytes.
  unix_socket_directories: "",
  max_connections: "100",
  shared_buffers: "128MB",
  max_wal_size: "1GB",
  jit: "off",
  timezone: "UTC",
  log_timezone: "UTC",
  log_min_messages: "warning",
  // Otherwise two lines every five minutes, in a file that begins anew only with the next start.
  log_checkpoints: "off",
};

/**
 * Starts PostgreSQL from the bundled binaries, in a process group of its own: a Ctrl-C or a signal to npm's group
 * does not reach it, and the owner stops it after its own work. A server that outlived a kill -9 of its owner is
 * adopted if it answers, otherwise replaced. Rejects with one clear sentence when the directory belongs to another
 * major version, a server of another container still has it, or PostgreSQL cannot start.
 */
export async function startEmbeddedPostgres(
  options: EmbeddedPostgresOptions,
): Promise<EmbeddedPostgres> {
  const progress = options.onProgress ?? (() => undefined);
  const binaries = await findPostgresBinaries();
  const user = await postgresUser(binaries.postgres);
  await makeDirectory(resolve(options.dataDir));
  const home = await realpath(options.dataDir);
  const data = join(home, "data");

  const version = await readOptional(join(data, "PG_VERSION"));
  if (version !== undefined && version.trim() !== String(binaries.major))
    throw new Error(
      `${data} was made by PostgreSQL ${version.trim()}, but PostgreSQL ${binaries.major} is bundled: go back to the release that made it, dump its database (docs/operations.md), or choose another data directory`,
    );
  const password = await passwordOf(home, { initialised: version !== undefined });

  const { pgCtl } = binaries;
  // Without the mode, a PGSSLMODE that is meant for other servers would count here too.
  const urlAt = (port: number) =>
    `postgres://${ROLE}:${password}@127.0.0.1:${port}/postgres?sslmode=disable`;
  const handle = (server: { pid: number; port: number }, adopted: boolean): EmbeddedPostgres => {
    const { pid, port } = server;
    const watch = untilLost(pid, options.onLost);
    const stop = async () => {
      // The number of a process that has ended may be a stranger's by now.
      if (watch.end() !== "lost") await stopPostmaster({ pid, data, pgCtl, fastMs: FAST_MS });
    };
    return { url: urlAt(port), adopted, pid, stop };
  };
  const lockFile = join(home, "postgres.lock");
  const { signal = new AbortController().signal } = options;
  const survivor = await findSurvivor({ lockFile, data, urlAt, pgCtl, progress, signal });
  if (survivor.kind === "adopted") return handle(survivor, true);
  try {
    const settings = { ...SETTINGS, ...options.settings };
    const place: Place = { binaries, user, home, data, settings, lock: survivor.lock, signal };
    if (version === undefined) {
      progress(`Initialising PostgreSQL ${binaries.major} …`);
      await initialise({ ...place, password });
    }
    progress(`Starting PostgreSQL ${binaries.major} …`);
    return handle(await start(place), false);
  } finally {
    // The server has inherited it.
    survivor.lock?.release();
  }
}

/** Asks the system whether the process runs: an adopted server is not a child of ours. */
function untilLost(
  pid: number,
  onLost: (() => void) | undefined,
): { end(): "running" | "lost" | "ended" } {
  let state: "running" | "lost" | "ended" = "running";
  const look = async () => {
    if ((await isRunning(pid)) || state !== "running") return;
    state = "lost";
    clearInterval(timer);
    onLost?.();
  };
  const timer = setInterval(() => void look(), LOOK_EVERY_MS);
  timer.unref();
  return {
    end() {
      const before = state;
      clearInterval(timer);
      if (state === "running") state = "ended";
      return before;
    },
  };
}

/** Before there is data, a file without a password is one that never got its content: the disk was full, or power went. */
async function passwordOf(
  home: string,
  { initialised }: { initialised: boolean },
): Promise<string> {
  const file = join(home, "password");
  const kept = (await readOptional(file))?.trim() ?? "";
  if (/^[0-9a-f]{48}$/.test(kept)) return kept;
  // A new one would not open what is there.
  if (initialised)
    throw new Error(`${file} does not hold our password: put it back as it was with ${home}/data`);
  const fresh = randomBytes(24).toString("hex");
  await writeAtomically(file, `${fresh}\n`);
  return fresh;
}

interface Place {
  binaries: PostgresBinaries;
  user: PostgresUser;
  home: string;
  data: string;
  settings: Readonly<Record<string, string>>;
  /** Inherited by every program of PostgreSQL that may outlive us. */
  lock: HeldFileLock | undefined;
  signal: AbortSignal;
}

/** Runs initdb in a directory of another name first: one that was killed must not look like a database. */
async function initialise(place: Place & { password: string }): Promise<void> {
  const fresh = join(place.home, "data.new");
  const secret = join(place.home, "initdb.password");
  await rm(fresh, { recursive: true, force: true });
  await mkdir(fresh, { mode: 0o700 });
  await place.user.own(fresh);
  await writeFile(secret, place.password, { mode: 0o600 });
  await place.user.own(secret);
  try {
    const { file, args } = place.user.command(place.binaries.initdb, [
      `--pgdata=${fresh}`,
      `--username=${ROLE}`,
      `--pwfile=${secret}`,
      "--auth=scram-sha-256",
      "--encoding=UTF8",
      "--locale-provider=builtin",
      "--builtin-locale=C.UTF-8",
      "--locale=C",
      ...(place.settings["fsync"] === "off" ? ["--no-sync"] : []),
    ]);
    const output = await runToEnd(file, args, place);
    if (output.code !== 0) throw new Error(`initdb failed: ${lastLines(output.text)}`);
  } finally {
    await rm(secret, { force: true });
  }
  await rename(fresh, place.data);
}

async function start(place: Place): Promise<{ pid: number; port: number }> {
  const log = join(place.home, "postgres.log");
  const deadline = performance.now() + TRY_FOR_MS;
  for (;;) {
    const port = await freePort();
    const size = await sizeOf(log);
    const before = size > 10_000_000 ? 0 : size;
    const child = spawnServer(place, log, size > before, port);
    const ready = await untilReady(place, child);
    if (ready) return { pid: ready.pid, port };
    if (place.signal.aborted) {
      const { pid } = child;
      const { data, binaries } = place;
      // Without a number it was never started, and a signal to 0 would reach ourselves.
      if (!child.exited && pid > 0)
        await stopPostmaster({ pid, data, pgCtl: binaries.pgCtl, fastMs: FAST_MS });
      place.signal.throwIfAborted();
    }
    // Only what this start wrote: earlier complaints are over.
    const text = (await readFile(log).catch(() => Buffer.alloc(0))).subarray(before).toString();
    // The port was taken between our look and its bind, or old backends of a killed server are still
    // letting go of their shared memory: both pass.
    const passing = /Address already in use|still in use|could not bind/.test(text);
    if (!passing || performance.now() > deadline)
      throw new Error(
        `PostgreSQL did not start: ${lastLines(text) || "it wrote nothing to its log: is the disk full?"} (see ${log})`,
      );
    await delay(100);
  }
}

/** The server's messages go to a file: a pipe would break as soon as its owner is killed, and the server with it. */
function spawnServer(place: Place, log: string, truncate: boolean, port: number): ChildPid {
  const settings = Object.entries(place.settings).flatMap(([k, v]) => ["-c", `${k}=${v}`]);
  const { file, args } = place.user.command(place.binaries.postgres, [
    "-D",
    place.data,
    "-p",
    String(port),
    ...settings,
  ]);
  const fd = openSync(log, truncate ? "w" : "a", 0o600);
  try {
    const child = spawn(file, args, {
      cwd: place.home,
      detached: true,
      stdio: ["ignore", fd, fd, ...inherited(place)],
      env: environment(),
    });
    const state: ChildPid = { pid: child.pid ?? 0, exited: false };
    child.once("error", () => (state.exited = true));
    child.once("exit", () => (state.exited = true));
    child.unref();
    return state;
  } finally {
    closeSync(fd);
  }
}

function inherited({ lock }: Place): number[] {
  return lock ? [lock.fd] : [];
}

interface ChildPid {
  pid: number;
  exited: boolean;
}

/** setpriv executes the server in its place, so the child's number is the postmaster's. */
async function untilReady(
  { data, signal }: Place,
  child: ChildPid,
): Promise<{ pid: number } | undefined> {
  // It may be recovering, which begins anew when it is killed: a supervisor must not be told to do that too soon.
  const deadline = performance.now() + HANGING_AFTER_MS.starting;
  while (!child.exited && !signal.aborted && performance.now() < deadline) {
    const found = await readPostmaster(data);
    if (found?.pid === child.pid && found.ready) return { pid: found.pid };
    await delay(10);
  }
  return undefined;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await once(server.close(), "close");
  return port;
}

/** Rejects when it is given up, and not before the program and its children have ended. */
async function runToEnd(
  file: string,
  args: string[],
  place: Place,
): Promise<{ code: number | null; text: string }> {
  return new Promise((resolveRun, reject) => {
    let text = "";
    const child = spawn(file, args, {
      cwd: place.home,
      env: environment(),
      stdio: ["ignore", "pipe", "pipe", ...inherited(place)],
      signal: place.signal,
    });
    child.stdout?.on("data", (chunk: Buffer) => (text += chunk.toString()));
    child.stderr?.on("data", (chunk: Buffer) => (text += chunk.toString()));
    let failure: Error | undefined;
    child.once("error", (error) => {
      failure = error;
      if (child.pid === undefined) reject(error);
    });
    child.once("close", (code) => {
      if (failure) reject(failure);
      else resolveRun({ code, text });
    });
  });
}

/** Only these of our variables: PG* ones would change what the server does. Messages stay in English. */
function environment(): NodeJS.ProcessEnv {
  const kept = ["PATH", "TMPDIR", "TEMP", "TMP", "SystemRoot", "LD_LIBRARY_PATH"];
  const env: NodeJS.ProcessEnv = { LC_ALL: "C", TZ: "UTC" };
  for (const name of kept) if (process.env[name] !== undefined) env[name] = process.env[name];
  return env;
}

/**
 * The last errors in the text, with their details and hints; its last lines when there are none. Details of LOG lines
 * are left out: at a start after a crash they would tell of corrupted data.
 */
function lastLines(text: string): string {
  const lines = text.trim().split("\n");
  let complains = false;
  const complaints = lines.filter((line) => {
    const kind = /\b(LOG|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT|error): /.exec(line)?.[1];
    if (kind === undefined) return false;
    if (kind !== "DETAIL" && kind !== "HINT") complains = kind !== "LOG" && kind !== "WARNING";
    return complains;
  });
  return (complaints.length > 0 ? complaints : lines).slice(-3).join(" | ");
}

async function sizeOf(path: string): Promise<number> {
  return (await stat(path).catch(() => ({ size: 0 }))).size;
}
