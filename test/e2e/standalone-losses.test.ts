import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { PoolClient } from "pg";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createPool } from "../../src/postgres/pool.ts";
import { isRunning, readPostmaster } from "../../src/standalone/postmaster.ts";
import { startScriptedServer } from "../integration/mail/scripted-server.ts";
import { addressOf, startTcpProxy } from "../network/tcp-proxy.ts";
import { createEmptyDatabase } from "../postgres/database.ts";
import { until } from "../until.ts";
import { call, run, startStandalone, type Standalone } from "./program.ts";

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

test("at SIGTERM while PostgreSQL recovers it ends in order, and PostgreSQL with it", async () => {
  program = await startStandalone(directory);
  program.signal("SIGTERM");
  await program.finished;
  const data = join(directory, "postgres", "data");
  // A recovery that waits for files that never come.
  await writeFile(join(data, "recovery.signal"), "", { mode: 0o666 });
  await appendFile(join(data, "postgresql.auto.conf"), "restore_command = 'sleep 1000'\n");
  const again = run("standalone", {
    env: { CARILLON_DATA_DIR: directory, PORT: "0", CARILLON_METRICS_PORT: "0" },
  });
  const pid = await until(
    "it recovers",
    async () => (await readPostmaster(data))?.pid || undefined,
  );
  again.signal("SIGTERM");
  expect(await again.finished).toMatchObject({ code: 0, stderr: "" });
  expect(await isRunning(pid)).toBe(false);
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

test("at SIGTERM the Idempotency-Key of a mail that nobody got is freed, as soon as PostgreSQL lets it", async () => {
  const database = await createEmptyDatabase();
  const pool = createPool({ url: database.url, applicationName: "keys test" });
  const held = Promise.withResolvers<PoolClient>();
  const server = await startScriptedServer({
    END: async () => {
      const holder = await pool.connect();
      await holder.query("begin; lock table idempotency_keys in share mode");
      held.resolve(holder);
      return "451 later";
    },
  });
  program = await startStandalone(directory, { DATABASE_URL: database.url });
  const settings = `--account default --host 127.0.0.1 --port ${server.port} --from me@example.com --tls none`;
  const set = run("cli", {
    args: `admin smtp set ${settings}`.split(" "),
    env: { CARILLON_DATA_DIR: directory },
  });
  expect(await set.finished).toMatchObject({ code: 0 });
  const reply = await fetch(`${program.url}/send`, {
    method: "POST",
    headers: {
      "X-API-Key": program.printed("API key") ?? "",
      "Content-Type": "application/json",
      "Idempotency-Key": "k",
    },
    body: JSON.stringify({ to: "you@example.com", subject: "s", body: "b" }),
  });
  expect(reply.status).toBe(500);

  program.signal("SIGTERM");
  const holder = await held.promise;
  // Long enough to end: it has nothing else to do.
  await delay(1_000);
  await holder.query("rollback");
  holder.release();
  expect((await program.finished).code).toBe(0);
  expect((await pool.query("select key from idempotency_keys")).rows).toEqual([]);
  server.close();
  await pool.end();
  await database.drop();
});
