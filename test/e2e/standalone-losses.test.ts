import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { addressOf, startTcpProxy } from "../network/tcp-proxy.ts";
import { createEmptyDatabase } from "../postgres/database.ts";
import { call, startStandalone, type Standalone } from "./program.ts";

let directory: string;
let program: Standalone | undefined;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "carillon-e2e-"));
});
afterEach(async () => {
  program?.signal("SIGTERM");
  await program?.finished;
  program = undefined;
  await rm(directory, { recursive: true, force: true });
});

test("a PostgreSQL that was killed ends the program, which says so; the next start has everything", async () => {
  program = await startStandalone(directory);
  const key = program.printed("API key") ?? "";
  const file = join(directory, "postgres", "data", "postmaster.pid");
  process.kill(Number.parseInt(await readFile(file, "utf8")), "SIGKILL");
  const begun = performance.now();
  const { code, stderr } = await program.finished;
  expect(code).toBe(1);
  expect(stderr).toMatch(/^carillon: PostgreSQL has ended by itself \(see .*postgres\.log\).*$/m);
  expect(performance.now() - begun).toBeLessThan(30_000);

  program = await startStandalone(directory);
  expect(await call(program.url, { key, path: "/jobs" })).toEqual({ status: 200, body: [] });
});

test("what was ready stays so without its database, also when nobody had asked before", async () => {
  const database = await createEmptyDatabase();
  const proxy = await startTcpProxy({ target: () => addressOf(database.url) });
  const url = new URL(database.url);
  url.hostname = "127.0.0.1";
  url.port = String(proxy.port);
  program = await startStandalone(directory, { DATABASE_URL: url.href });
  await proxy.close();
  expect(await call(program.url, { path: "/readyz" })).toEqual({
    status: 200,
    body: { status: "degraded", dependencies: { postgres: "down", jobs: "down" } },
  });
  program.signal("SIGTERM");
  await program.finished;
  await database.drop();
});
