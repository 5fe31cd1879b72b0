import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import {
  appendFile,
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { createClient } from "../../../src/postgres/pool.ts";
import { serverDirectory } from "../../../src/postgres/server-directory.ts";
import { startEmbeddedPostgres } from "../../../src/standalone/embedded-postgres.ts";
import { holdFileLock } from "../../../src/standalone/file-lock.ts";
import { isRunning, readPostmaster, waitForExit } from "../../../src/standalone/postmaster.ts";
import { findSurvivor } from "../../../src/standalone/surviving-postgres.ts";
import { admin } from "../../postgres/admin.ts";
import { until } from "../../until.ts";

const settings = { fsync: "off" };
let parent: string;
let dataDir: string;

beforeAll(async () => {
  // A directory with the mode 0700, as `mktemp -d` creates it, in which the server must run.
  parent = await mkdtemp(join(tmpdir(), "carillon-embedded-"));
  dataDir = join(parent, "state", "postgres");
  const server = await startEmbeddedPostgres({ dataDir, settings });
  await server.stop();
});
afterAll(async () => {
  await rm(parent, { recursive: true, force: true });
});

test("starts, answers with its own password only, and stops", async () => {
  const server = await startEmbeddedPostgres({ dataDir, settings });
  expect(server.adopted).toBe(false);
  expect(await serverDirectory(server.url)).toBe(join(dataDir, "data"));
  const wrong = new URL(server.url);
  wrong.password = "wrong";
  await expect(serverDirectory(wrong.href)).rejects.toThrow(/password authentication failed/);
  expect((await stat(join(dataDir, "password"))).mode & 0o777).toBe(0o600);
  // A Ctrl-C goes to a whole process group: the server must not end before the program.
  const group = await promisify(execFile)("ps", ["-o", "pgid=", "-p", String(server.pid)]);
  expect(Number(group.stdout)).toBe(server.pid);
  await server.stop();
  expect(await isRunning(server.pid)).toBe(false);
  // Nothing is left that only the initialisation needed, such as a second file with the password.
  const kept = ["data", "password", "postgres.lock", "postgres.log"];
  expect((await readdir(dataDir)).toSorted()).toEqual(kept);
});

test("is reached whatever the environment says about other servers", async () => {
  vi.stubEnv("PGSSLMODE", "require");
  onTestFinished(() => {
    vi.unstubAllEnvs();
  });
  const server = await startEmbeddedPostgres({ dataDir, settings });
  onTestFinished(() => server.stop());
  expect(await serverDirectory(server.url)).toBe(join(dataDir, "data"));
});

test("its log does not grow with each checkpoint", async () => {
  const server = await startEmbeddedPostgres({ dataDir, settings });
  onTestFinished(() => server.stop());
  await admin(server.url, "create table if not exists written ()");
  await admin(server.url, "checkpoint");
  expect(await readFile(join(dataDir, "postgres.log"), "utf8")).not.toContain("checkpoint");
});

test("a server that outlived its owner is adopted", async () => {
  const script = `
    import { startEmbeddedPostgres } from ${JSON.stringify(new URL("../../../src/standalone/embedded-postgres.ts", import.meta.url).href)};
    const server = await startEmbeddedPostgres(${JSON.stringify({ dataDir, settings })});
    process.stdout.write(String(server.pid));
    process.kill(process.pid, "SIGKILL");`;
  const owner = spawn(process.execPath, ["--input-type=module-typescript", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  owner.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const signal = await new Promise((resolve) => owner.once("close", (_, by) => resolve(by)));
  expect(signal).toBe("SIGKILL");
  const pid = Number(output);
  expect(await isRunning(pid)).toBe(true);
  const server = await startEmbeddedPostgres({ dataDir, settings });
  expect(server).toMatchObject({ adopted: true, pid });
  await server.stop();
  expect(await isRunning(pid)).toBe(false);
});

test("a server that was killed leaves a lock file that does not matter", async () => {
  const server = await startEmbeddedPostgres({ dataDir, settings });
  process.kill(server.pid, "SIGKILL");
  expect(await waitForExit(server.pid, 15_000)).toBe(true);
  const again = await startEmbeddedPostgres({ dataDir, settings });
  expect(again.adopted).toBe(false);
  await again.stop();
});

test("a lock file whose process number a stranger has by now does not matter", async () => {
  const lock = `${process.pid}\n${join(dataDir, "data")}\n0\n5432\n\n127.0.0.1\n0 0\nready   \n`;
  await writeFile(join(dataDir, "data", "postmaster.pid"), lock);
  const server = await startEmbeddedPostgres({ dataDir, settings });
  expect(server.adopted).toBe(false);
  await server.stop();
});

test("a lock file whose process number another directory's server has by now does not end that one", async () => {
  const other = await startEmbeddedPostgres({ dataDir: join(parent, "other"), settings });
  onTestFinished(() => other.stop());
  const [theirs, ours] = [join(parent, "other"), dataDir].map((place) =>
    join(place, "data", "postmaster.pid"),
  );
  await copyFile(theirs ?? "", ours ?? "");
  const server = await startEmbeddedPostgres({ dataDir, settings });
  expect(await serverDirectory(server.url)).toBe(join(dataDir, "data"));
  await server.stop();
  expect(await isRunning(other.pid)).toBe(true);
});

async function firstChildOf(pid: number): Promise<number> {
  const { stdout } = await promisify(execFile)("pgrep", ["-P", String(pid)]);
  return Number.parseInt(stdout);
}

const lockFile = () => join(dataDir, "postgres.lock");

const find = () =>
  findSurvivor({
    lockFile: lockFile(),
    data: join(dataDir, "data"),
    urlAt: () => {
      throw new Error("a server of another place is not asked");
    },
    pgCtl: "pg_ctl",
    progress: () => undefined,
    lastBreathMs: 200,
  });

describe.skipIf(process.platform !== "linux")("a server of another place", () => {
  const elsewhere = JSON.stringify({ pid: 1, host: "a-container", place: "boot pid:[1] net:[1]" });

  test("is left alone while it lives, though its number is nobody's or a server's here", async () => {
    const server = await startEmbeddedPostgres({ dataDir, settings });
    await writeFile(lockFile(), elsewhere);
    await expect(find()).rejects.toThrow(/another container or machine \(a-container\)/);

    // As seen from a PID namespace with fewer processes.
    const file = join(dataDir, "data", "postmaster.pid");
    const text = await readFile(file, "utf8");
    await writeFile(file, text.replace(/^\d+/, "99999999"));
    await expect(find()).rejects.toThrow(/another container or machine \(a-container\)/);
    expect(await readPostmaster(join(dataDir, "data"))).toMatchObject({ pid: 99_999_999 });
    await writeFile(file, text);

    expect(await isRunning(server.pid)).toBe(true);
    expect(await serverDirectory(server.url)).toBe(join(dataDir, "data"));
    await server.stop();
  });

  test("is replaced at once when it is dead, though its number is somebody's here", async () => {
    const server = await startEmbeddedPostgres({ dataDir, settings });
    process.kill(server.pid, "SIGKILL");
    await waitForExit(server.pid, 15_000);
    await writeFile(lockFile(), elsewhere);
    const lock = `${process.pid}\n${join(dataDir, "data")}\n0\n5432\n\n127.0.0.1\n0 0\nready   \n`;
    await writeFile(join(dataDir, "data", "postmaster.pid"), lock);
    const again = await startEmbeddedPostgres({ dataDir, settings });
    expect(again.adopted).toBe(false);
    await again.stop();
    const free = await holdFileLock(lockFile());
    expect(free.kind).toBe("held");
    if (free.kind === "held") free.release();
  });
});

describe.skipIf(process.platform !== "linux")("the last process of a server", () => {
  test("is waited for when a server that hangs is replaced", async () => {
    const server = await startEmbeddedPostgres({ dataDir, settings });
    const child = await firstChildOf(server.pid);
    process.kill(child, "SIGSTOP");
    process.kill(server.pid, "SIGSTOP");
    const said: string[] = [];
    const onProgress = (line: string) => {
      said.push(line);
      if (line.startsWith("Waiting for the last processes")) process.kill(child, "SIGCONT");
    };
    const again = await startEmbeddedPostgres({ dataDir, settings, onProgress });
    expect(said.map((line) => line.split(" ")[0])).toEqual([
      "Replacing",
      "Waiting",
      "Removing",
      "Starting",
    ]);
    expect(again.adopted).toBe(false);
    expect(again.pid).not.toBe(server.pid);
    await again.stop();
  }, 60_000);

  test("keeps the directory its own", async () => {
    const server = await startEmbeddedPostgres({ dataDir, settings });
    const child = await firstChildOf(server.pid);
    process.kill(child, "SIGSTOP");
    process.kill(server.pid, "SIGKILL");
    await waitForExit(server.pid, 15_000);
    await expect(find()).rejects.toThrow(/processes of a PostgreSQL that was killed/);
    process.kill(child, "SIGCONT");
    const again = await startEmbeddedPostgres({ dataDir, settings });
    expect(again.adopted).toBe(false);
    await again.stop();
  });
});

test("says when it has lost its server, and not when it stops it", async () => {
  let lost = 0;
  const start = () => startEmbeddedPostgres({ dataDir, settings, onLost: () => (lost += 1) });
  await (await start()).stop();
  const server = await start();
  expect(lost).toBe(0);
  process.kill(server.pid, "SIGKILL");
  await until("the loss is noticed", () => lost === 1);
  await server.stop();
  expect(lost).toBe(1);
});

test("a start that fails says what is wrong with it, not with one before, at once", async () => {
  await appendFile(join(dataDir, "postgres.log"), "FATAL:  the trouble of yesterday\n");
  const failing = startEmbeddedPostgres({ dataDir, settings: { ...settings, wal_level: "none" } });
  await expect(failing).rejects.toThrow(
    /^PostgreSQL did not start: [^|]*FATAL: [^|]*wal_level.*\(see /,
  );
  await expect(failing).rejects.not.toThrow("yesterday");
});

test.runIf(existsSync("/dev/null"))(
  "a start that fails and cannot say why, as on a full disk, says that",
  async () => {
    const log = join(dataDir, "postgres.log");
    await rename(log, `${log}.kept`);
    await symlink("/dev/null", log);
    const failing = startEmbeddedPostgres({
      dataDir,
      settings: { ...settings, wal_level: "none" },
    });
    await expect(failing).rejects.toThrow(
      `PostgreSQL did not start: it wrote nothing to its log: is the disk full? (see ${log})`,
    );
    await rename(`${log}.kept`, log);
  },
);

test("a start that fails says what PostgreSQL says to do about it", async () => {
  const data = join(dataDir, "data");
  await chmod(data, 0o777);
  await expect(startEmbeddedPostgres({ dataDir, settings })).rejects.toThrow(
    /FATAL: [^|]*invalid permissions \| [^|]*DETAIL: [^|]*should be u=rwx/,
  );
  await chmod(data, 0o700);
});

test("a start that fails again, in recovery, says what is wrong, and nothing of corrupted data", async () => {
  const server = await startEmbeddedPostgres({ dataDir, settings });
  await admin(server.url, "create table recovered as select 1");
  const client = createClient({ url: server.url, applicationName: "carillon tests" });
  await client.connect();
  const { rows } = await client.query<{ file: string }>(
    "select pg_relation_filepath('recovered') as file",
  );
  await client.end();
  process.kill(server.pid, "SIGKILL");
  await waitForExit(server.pid, 10_000);
  await server.stop();
  // A directory stands in the way of a file that the recovery creates.
  const file = join(dataDir, "data", rows[0]?.file ?? "");
  await rename(file, `${file}.kept`);
  await mkdir(file);
  const start = () => startEmbeddedPostgres({ dataDir, settings });
  const problem = /^PostgreSQL did not start: [^|]*FATAL: [^|]*could not create file [^|]*\(see /;
  await expect(start()).rejects.toThrow(problem);
  await expect(start()).rejects.toThrow(problem);
  await rmdir(file);
  await rename(`${file}.kept`, file);
  await (await start()).stop();
});

/** Settings of a server that recovers until somebody makes the file `gate`. */
async function recovering(gate: string): Promise<Record<string, string>> {
  await writeFile(join(dataDir, "data", "recovery.signal"), "", { mode: 0o666 });
  const restore_command = `while [ ! -e ${gate} ]; do sleep 0.1; done; false`;
  return { ...settings, restore_command };
}

/** Resolves with its process number. */
const recovers = () =>
  until("it recovers", async () => {
    const found = await readPostmaster(join(dataDir, "data"));
    return found?.ready === false && found.pid > 0 && found.pid;
  });

test("a start waits for a recovery that takes minutes", async () => {
  const gate = join(parent, "gate");
  const start = startEmbeddedPostgres({ dataDir, settings: await recovering(gate) });
  // Looked at when it is awaited.
  start.catch(() => undefined);
  await recovers();
  const now = performance.now.bind(performance);
  const later = vi.spyOn(performance, "now").mockImplementation(() => now() + 120_000);
  onTestFinished(() => later.mockRestore());
  await Promise.race([start, until("it has looked again", () => later.mock.calls.length > 10)]);
  await writeFile(gate, "");
  const server = await start;
  expect(await serverDirectory(server.url)).toBe(join(dataDir, "data"));
  await server.stop();
});

test("a start that is given up leaves no server behind, and the next one starts", async () => {
  const gate = join(parent, "another-gate");
  const given = new AbortController();
  const { signal } = given;
  const start = startEmbeddedPostgres({ dataDir, settings: await recovering(gate), signal });
  start.catch(() => undefined);
  const pid = await recovers();
  given.abort(new Error("given up"));
  await expect(start).rejects.toThrow("given up");
  expect(await isRunning(pid)).toBe(false);

  await rm(join(dataDir, "data", "recovery.signal"));
  const server = await startEmbeddedPostgres({ dataDir, settings });
  await server.stop();
});

test("a first start that is given up, and the next one", async () => {
  const place = join(parent, "given-up");
  const given = new AbortController();
  const onProgress = () => {
    setImmediate(() => {
      given.abort(new Error("given up"));
    });
  };
  const start = startEmbeddedPostgres({
    dataDir: place,
    settings,
    onProgress,
    signal: given.signal,
  });
  await expect(start).rejects.toThrow(/aborted|given up/);
  expect(await readPostmaster(join(place, "data"))).toBeUndefined();
  const server = await startEmbeddedPostgres({ dataDir: place, settings });
  expect(await serverDirectory(server.url)).toBe(join(place, "data"));
  await server.stop();
});

test("a first start that is given up in the middle leaves no initdb behind", async () => {
  const place = join(parent, "given-up-later");
  const given = new AbortController();
  const { signal } = given;
  const start = startEmbeddedPostgres({ dataDir: place, settings, signal });
  start.catch(() => undefined);
  await until("initdb works", () => existsSync(join(place, "data.new", "base")));
  given.abort(new Error("given up"));
  await expect(start).rejects.toThrow(/aborted|given up/);
  // It has inherited the lock.
  const lock = await holdFileLock(join(place, "postgres.lock"));
  expect(lock.kind).toBe("held");
  if (lock.kind === "held") lock.release();
});

test("a data directory of another major version is refused in one sentence", async () => {
  const file = join(dataDir, "data", "PG_VERSION");
  const version = await readFile(file, "utf8");
  await writeFile(file, "15\n");
  try {
    await expect(startEmbeddedPostgres({ dataDir, settings })).rejects.toThrow(
      /was made by PostgreSQL 15, but PostgreSQL 18 is bundled/,
    );
  } finally {
    await writeFile(file, version);
  }
});

test("an initialisation that was killed starts over", async () => {
  const place = join(parent, "half");
  await startEmbeddedPostgres({ dataDir: place, settings }).then((server) => server.stop());
  await rm(join(place, "data", "PG_VERSION"));
  // initdb works in data.new; a directory without PG_VERSION under the final name is no database.
  await rm(join(place, "data"), { recursive: true });
  await writeFile(join(place, "data.new"), "left over");
  const server = await startEmbeddedPostgres({ dataDir: place, settings });
  expect(await serverDirectory(server.url)).toBe(join(place, "data"));
  await server.stop();
});

test("a password that never got into its file, as on a full disk, is made anew as long as it opens nothing", async () => {
  const place = join(parent, "full");
  const file = join(place, "password");
  await mkdir(place);
  await writeFile(file, "");
  const start = () => startEmbeddedPostgres({ dataDir: place, settings });
  const server = await start();
  expect(await serverDirectory(server.url)).toBe(join(place, "data"));
  await server.stop();
  expect((await stat(file)).mode & 0o777).toBe(0o600);

  for (const lose of [() => writeFile(file, ""), () => rm(file)]) {
    await lose();
    await expect(start()).rejects.toThrow(`${file} does not hold our password: put it back`);
  }
});
