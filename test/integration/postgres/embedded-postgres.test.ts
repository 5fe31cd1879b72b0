import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { serverDirectory } from "../../../src/postgres/probe.ts";
import { startEmbeddedPostgres } from "../../../src/standalone/embedded-postgres.ts";
import { isRunning, waitForExit } from "../../../src/standalone/postmaster.ts";

const settings = { fsync: "off" };
let parent: string;
let dataDir: string;

beforeAll(async () => {
  // 0700, as `mktemp -d` makes it: the server runs below it all the same.
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
  await server.stop();
  expect(await isRunning(server.pid)).toBe(false);
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
  expect(await waitForExit(server.pid, 5_000)).toBe(true);
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

test("a server that hangs is replaced", async () => {
  const server = await startEmbeddedPostgres({ dataDir, settings });
  process.kill(server.pid, "SIGSTOP");
  const again = await startEmbeddedPostgres({ dataDir, settings });
  expect(again.adopted).toBe(false);
  expect(again.pid).not.toBe(server.pid);
  await again.stop();
}, 60_000);

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
  // initdb works in data.new; a directory without PG_VERSION under the final name is nobody's database.
  await rm(join(place, "data"), { recursive: true });
  await writeFile(join(place, "data.new"), "left over");
  const server = await startEmbeddedPostgres({ dataDir: place, settings });
  expect(await serverDirectory(server.url)).toBe(join(place, "data"));
  await server.stop();
});
