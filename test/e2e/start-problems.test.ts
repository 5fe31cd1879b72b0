import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPool } from "../../src/postgres/pool.ts";
import { freePort } from "../network/free-port.ts";
import { addressOf, startTcpProxy } from "../network/tcp-proxy.ts";
import { admin } from "../postgres/admin.ts";
import {
  createEmptyDatabase,
  createTestDatabase,
  type TestDatabase,
} from "../postgres/database.ts";
import { migrateUpTo } from "../postgres/older-schema.ts";
import { until } from "../until.ts";
import { kubeconfigText } from "../kubernetes/own-control-plane.ts";
import { run, startStandalone, type Standalone } from "./program.ts";

let directory: string;
let other: string;
let running: Standalone;
let newer: TestDatabase;
let shared: TestDatabase;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "carillon-e2e-"));
  other = await mkdtemp(join(tmpdir(), "carillon-e2e-"));
  newer = await createTestDatabase();
  await admin(
    newer.url,
    "insert into carillon_meta (key, value) values ('min_app_version', '99.0.0') on conflict (key) do update set value = excluded.value",
  );
  shared = await createEmptyDatabase();
  running = await startStandalone(directory, { DATABASE_URL: shared.url });
});

afterAll(async () => {
  running.signal("SIGTERM");
  await running.finished;
  await newer.drop();
  await shared.drop();
  await rm(directory, { recursive: true, force: true });
  await rm(other, { recursive: true, force: true });
});

describe("one clear line, no stack, an exit code that is not 0", () => {
  test.each([
    { name: "a port that is no number", env: { PORT: "http" }, says: "PORT must be" },
    {
      name: "a database that is none",
      env: { DATABASE_URL: "localhost:5432" },
      says: "DATABASE_URL must look like postgres://",
    },
    {
      name: "a database that does not answer",
      env: { DATABASE_URL: "postgres://u:hidden@127.0.0.1:1/db" },
      says: "PostgreSQL at 127.0.0.1:1 cannot be used: connect ECONNREFUSED",
    },
    {
      name: "an address of another machine",
      env: { CARILLON_HOST: "203.0.113.1" },
      says: "CARILLON_HOST",
    },
    {
      name: "an address that is none",
      env: { CARILLON_HOST: "nowhere.invalid" },
      says: "cannot listen on nowhere.invalid (",
    },
    {
      name: "TLS of a kind that there is not",
      env: { DATABASE_URL: "postgres://u:hidden@127.0.0.1:1/db?sslmode=requrie" },
      says: "DATABASE_URL must have an sslmode of disable, no-verify",
    },
    {
      name: "a socket that nobody listens on",
      env: { DATABASE_URL: "postgres:///db?host=/nowhere" },
      says: "PostgreSQL at /nowhere cannot be used: connect ENOENT",
    },
    {
      name: "a rule that is none",
      env: { CARILLON_ALLOW_DESTINATIONS: "everything" },
      says: 'CARILLON_ALLOW_DESTINATIONS: "everything" is not CIDR[:port]',
    },
    {
      name: "a proxy that is none",
      env: { CARILLON_TRUSTED_PROXIES: "10.0.0.0/8,everything" },
      says: 'CARILLON_TRUSTED_PROXIES: "everything" is not a CIDR',
    },
    {
      name: "Kubernetes",
      env: { CARILLON_JOB_STORE: "kubernetes" },
      says: "standalone keeps its jobs in PostgreSQL",
    },
  ])("$name", async ({ env, says }) => {
    expect(await start(env)).toEqual(oneLine(says));
  });

  test("a data directory that cannot be written", async () => {
    const file = join(other, "file");
    await writeFile(file, "");
    expect(await start({ CARILLON_DATA_DIR: join(file, "data") })).toEqual(
      oneLine("cannot be written"),
    );
  });

  test.runIf(process.platform === "linux")("a PostgreSQL without its libraries", async () => {
    // As npm leaves it when install scripts are not allowed, except that here there is a library that cannot be used.
    await writeFile(join(other, "libicui18n.so.60"), "");
    const env = { CARILLON_DATA_DIR: join(other, "unmade"), LD_LIBRARY_PATH: other };
    expect(await start({ DATABASE_URL: "", ...env })).toEqual(
      oneLine("libicui18n.so.60: file too short): where npm's setting ignore-scripts is on"),
    );
  });

  test("a state file that somebody has damaged", async () => {
    const damaged = await mkdtemp(join(other, "damaged-"));
    await writeFile(join(damaged, "state.json"), "{");
    expect(await start({ CARILLON_DATA_DIR: damaged })).toEqual(
      oneLine(`${join(damaged, "state.json")} is damaged: remove it`),
    );
  });

  test("a port in use", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    for (const variable of ["PORT", "CARILLON_METRICS_PORT"])
      expect(await start({ [variable]: String(port) })).toEqual(
        oneLine(`port ${port} on 127.0.0.1 is in use: stop the other program, or set ${variable}`),
      );
    server.close();
  });

  test("a setting in the URL that PostgreSQL does not know", async () => {
    const url = new URL(shared.url);
    url.searchParams.set("options", "-c unknown=1");
    expect(await start({ DATABASE_URL: url.href })).toEqual(
      oneLine('cannot be used: unrecognized configuration parameter "unknown" (DATABASE_URL)'),
    );
  });

  test("a database that needs a newer program", async () => {
    expect(await start({ DATABASE_URL: newer.url })).toEqual(
      oneLine("the database needs 99.0.0 or newer"),
    );
  });

  test("a database that takes no connections", async () => {
    const closed = await createEmptyDatabase("allow_connections false");
    expect(await start({ DATABASE_URL: closed.url })).toEqual(
      oneLine("is not currently accepting connections (DATABASE_URL)"),
    );
    await closed.drop();
  });

  test("a second one on the same data directory", async () => {
    expect(await start({ CARILLON_DATA_DIR: directory })).toEqual(
      oneLine(`another Carillon (process ${running.child.pid}) is running on the data directory`),
    );
  });

  test("a second one on the same database", async () => {
    expect(await start({ DATABASE_URL: shared.url })).toEqual(
      oneLine("is running on this database"),
    );
  });

  test("data under a key that is not in the ring", async () => {
    const ring = `other:${Buffer.alloc(32, 1).toString("base64")}`;
    const keep = join(other, "keys");
    const first = await startStandalone(keep);
    first.signal("SIGTERM");
    await first.finished;
    // The first start has not stored a secret yet: rotating creates one.
    const again = await startStandalone(keep);
    const cli = run("cli", {
      args: ["admin", "signing-secret", "show", "--account", "default"],
      env: { CARILLON_DATA_DIR: keep },
    });
    expect(await cli.finished).toMatchObject({ code: 0 });
    again.signal("SIGTERM");
    await again.finished;
    expect(await start({ CARILLON_DATA_DIR: keep, CARILLON_ENCRYPTION_KEYS: ring })).toEqual(
      oneLine("which CARILLON_ENCRYPTION_KEYS does not have"),
    );
    const sameId = ring.replace("other:", "k1:");
    expect(await start({ CARILLON_DATA_DIR: keep, CARILLON_ENCRYPTION_KEYS: sameId })).toEqual(
      oneLine('does not open with the encryption key "k1"'),
    );
  });

  test.each([
    { name: "a kubeconfig that is not there", text: undefined, says: "ENOENT" },
    { name: "a kubeconfig of no cluster", text: "kind: Config", says: "names no cluster" },
    { name: "a kubeconfig that is no YAML", text: "a: [", says: "cannot be used" },
  ])("$name", async ({ text, says }) => {
    const file = join(other, `kubeconfig-${says}`);
    if (text !== undefined) await writeFile(file, text);
    const env = {
      DATABASE_URL: shared.url,
      CARILLON_ENCRYPTION_KEYS: `k1:${Buffer.alloc(32, 1).toString("base64")}`,
      KUBECONFIG: file,
    };
    const { code, stderr } = await run("gateway", { env }).finished;
    expect({ code, lines: stderr.trimEnd().split("\n") }).toEqual(oneLine(says));
    expect(stderr).toContain(`the kubeconfig ${file} cannot be used`);
  });
});

test.each(["standalone", "gateway", "controller"])(
  "%s: a pooler that lends a session for one transaction at a time",
  async (name) => {
    const pooled = await createTestDatabase();
    await admin(
      pooled.url,
      `do 'begin execute format(
         $$alter database %I set search_path = public, pg_catalog$$, current_database()); end'`,
    );
    // Makes each statement seem to run in another session, as behind such a pooler.
    await admin(
      pooled.url,
      `create function public.pg_backend_pid() returns int language sql
         as 'select (random() * 1e9)::int'`,
    );
    const program = run(name, { env: environment({ DATABASE_URL: pooled.url }) });
    const { code, stderr } = await program.finished;
    expect({ code, lines: stderr.trimEnd().split("\n") }).toEqual(oneLine("pool_mode = session"));
    await pooled.drop();
  },
);

test.each(["standalone", "controller", "gateway"])(
  "%s: a loop that breaks, which is a fault of ours, is said, and ends the others in order",
  async (name) => {
    const own = await createTestDatabase();
    const broken = `const { random } = Math;
      Math.random = () => {
        if (new Error().stack.includes("at maintain ")) throw new Error("broken");
        return random();
      };`;
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(broken)}`;
    const env = environment({ DATABASE_URL: own.url, NODE_OPTIONS });
    const { code, stdout, stderr } = await run(name, { env }).finished;
    expect(code).toBe(1);
    expect(stdout + stderr).toContain("a part that must not end has ended: stopping");
    // Node's last line when it crashes.
    expect(stderr).not.toContain("Node.js v");
    await own.drop();
  },
);

test("what the bundled PostgreSQL refuses is looked for in its log, not in a variable that nobody has set", async () => {
  const CARILLON_DATA_DIR = join(other, "bundled");
  const first = await startStandalone(CARILLON_DATA_DIR);
  first.signal("SIGTERM");
  await first.finished;
  await writeFile(join(CARILLON_DATA_DIR, "postgres/password"), `${"0".repeat(48)}\n`);
  expect(await start({ CARILLON_DATA_DIR })).toEqual(
    oneLine('password authentication failed for user "carillon" (see /'),
  );
});

test.each(["standalone", "gateway", "controller", "migrate"])(
  "%s has no arguments, and does nothing when it is given some",
  async (program) => {
    const empty = await createEmptyDatabase();
    const env = { DATABASE_URL: empty.url };
    const { code, stdout, stderr } = await run(program, { env, args: ["--help"] }).finished;
    await empty.drop();
    expect({ code, stdout, lines: stderr.trimEnd().split("\n") }).toEqual({
      ...oneLine("there are no arguments (--help)"),
      stdout: "",
    });
  },
);

test("a variable that there is not is pointed out", async () => {
  const env = { CARILLON_RETENTON_DAYS: "7", PORT: "http" };
  expect(await start(env)).toEqual({
    code: 1,
    lines: [
      "carillon: CARILLON_RETENTON_DAYS is set, but there is no such variable: see docs/configuration.md",
      expect.stringContaining("PORT must be") as unknown,
    ],
  });
});

test("it goes on when nobody reads its lines any longer", async () => {
  const directory = await mkdtemp(join(other, "unread-"));
  const database = await createEmptyDatabase();
  const ports = { PORT: "0", CARILLON_METRICS_PORT: "0" };
  const env = { ...ports, CARILLON_DATA_DIR: directory, DATABASE_URL: database.url };
  const program = run("standalone", { env });
  program.child.stdout?.destroy();
  const state = () => readFile(join(directory, "state.json"), "utf8").catch(() => "");
  // The state is written after the last line of output.
  await until("it has begun", async () => (await state()).includes('"done"'), 30_000);
  program.signal("SIGTERM");
  expect(await program.finished).toMatchObject({ code: 0, stderr: "" });
  await database.drop();
});

/** What PostgreSQL answers while it is starting. */
const STARTING_UP = (() => {
  const fields = Buffer.from("SFATAL\0C57P03\0Mthe database system is starting up\0\0");
  const length = Buffer.alloc(4);
  length.writeInt32BE(fields.length + 4);
  return Buffer.concat([Buffer.from("E"), length, fields]);
})();

const partOn = (
  part: "gateway" | "controller",
  databaseUrl: string,
  env: Record<string, string> = {},
) =>
  run(part, {
    env: {
      DATABASE_URL: databaseUrl,
      CARILLON_ENCRYPTION_KEYS: `k1:${Buffer.alloc(32, 1).toString("base64")}`,
      CARILLON_JOB_STORE: "postgres",
      CARILLON_LOG_FORMAT: "json",
      PORT: "0",
      CARILLON_METRICS_PORT: "0",
      ...env,
    },
  });
const gatewayOn = (databaseUrl: string) => partOn("gateway", databaseUrl);

test("a gateway does not wait for a database that nobody has migrated, or that others have sealed", async () => {
  const empty = await createEmptyDatabase();
  const unmigrated = await gatewayOn(empty.url).finished;
  expect(unmigrated).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("run npm run migrate first") as unknown,
  });
  const database = await createTestDatabase();
  await admin(
    database.url,
    `with of as (insert into accounts (name) values ('of-others') returning id)
     insert into signing_secrets (id, account, secret) select uuidv7(), id, 'theirs:sealed' from of`,
  );
  const sealed = await gatewayOn(database.url).finished;
  expect(sealed).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('the encryption key id "theirs"') as unknown,
  });
  await database.drop();
  await empty.drop();
});

test("a gateway waits for a database that is away, says so once, and ends when it is told to", async () => {
  let tries = 0;
  const away = createServer((socket) => {
    tries += 1;
    socket.once("data", () => socket.end(STARTING_UP));
  }).listen(0, "127.0.0.1");
  await once(away, "listening");
  const gateway = gatewayOn(
    `postgres://u:hidden@127.0.0.1:${(away.address() as AddressInfo).port}/db`,
  );
  // Each try begins with a connection for the runs.
  await until("it has tried again and again", () => tries >= 4);
  gateway.signal("SIGTERM");
  expect(await gateway.finished).toMatchObject({ code: 0, stderr: "" });
  expect(gateway.stdout().match(/waiting for PostgreSQL/g)).toHaveLength(1);
  expect(gateway.stdout()).not.toContain('"msg":"ready"');
  away.close();
});

test.each(["gateway", "controller"] as const)(
  "a %s without an API server is not ready, and says each reason once; with all that it needs it is",
  async (part) => {
    const database = await createTestDatabase();
    let tries = 0;
    const away = createServer((socket) => {
      tries += 1;
      socket.destroy();
    }).listen(0, "127.0.0.1");
    await once(away, "listening");
    const kubeconfig = join(other, `kubeconfig-away-${part}`);
    const server = `https://127.0.0.1:${(away.address() as AddressInfo).port}`;
    await writeFile(kubeconfig, kubeconfigText({ server, token: "t" }));
    const alone = partOn(part, database.url, {
      CARILLON_JOB_STORE: "kubernetes",
      KUBECONFIG: kubeconfig,
    });
    await until("the reason", () =>
      alone.stdout().includes('"reason":"the Kubernetes API does not answer: '),
    );
    const before = tries;
    await until("it has tried again and again", () => tries >= before + 10, 60_000);
    alone.signal("SIGTERM");
    await alone.finished;
    const reasons = alone.stdout().match(/"reason":".*"msg":"waiting for the Kubernetes API"/g);
    expect(reasons).toEqual([...new Set(reasons)]);
    expect(alone.stdout()).not.toContain('"msg":"ready"');
    away.close();

    const complete = partOn(part, database.url);
    await until("it is ready", () => complete.stdout().includes('"msg":"ready"'));
    complete.signal("SIGTERM");
    await complete.finished;
    await database.drop();
  },
);

test("a gateway ends when it is told to while PostgreSQL cannot say what time it is", async () => {
  const database = await createTestDatabase();
  const pool = createPool({ url: database.url, applicationName: "test" });
  await pool.query(`create schema wrong;
    create function wrong.clock_timestamp() returns timestamptz language sql
      as 'select (1 / (random() * 0)::int)::text::timestamptz'`);
  await pool.query(
    `alter database ${new URL(database.url).pathname.slice(1)} set search_path = wrong, pg_catalog, public`,
  );
  const gateway = gatewayOn(database.url);
  await until("it has asked", () => gateway.stdout().includes("division by zero"));
  gateway.signal("SIGTERM");
  expect(await gateway.finished).toMatchObject({ code: 0, stderr: "" });
  await pool.end();
  await database.drop();
});

test("a dump of another server that nobody has migrated here: jobs are watched, not listed for ever", async () => {
  const database = await createTestDatabase();
  const pool = createPool({ url: database.url, applicationName: "test" });
  await pool.query("update carillon_meta set value = '4000000000' where key = 'jobs_purged_xid'");
  const gateway = gatewayOn(database.url);
  await until("no transaction is ahead of those to come", async () => {
    const { rows } = await pool.query(
      "select value from carillon_meta where key = 'jobs_purged_xid'",
    );
    return rows[0]?.value === "0";
  });
  gateway.signal("SIGTERM");
  expect(await gateway.finished).toMatchObject({ code: 0 });
  await pool.end();
  await database.drop();
});

test("the mail catcher leaves our own ports to us", async () => {
  const database = await createEmptyDatabase();
  const port = await freePort();
  const directory = await mkdtemp(join(other, "catcher-"));
  const mailCatcher = { smtpPort: 0, httpPort: port };
  await writeFile(join(directory, "state.json"), JSON.stringify({ mailCatcher }));
  const env = { DATABASE_URL: database.url, PORT: String(port) };
  const program = await startStandalone(directory, env);
  expect(program.url).toBe(`http://127.0.0.1:${port}`);
  program.signal("SIGTERM");
  await program.finished;
  await database.drop();
});

test.each([
  { first: { NAMESPACE: "team-a" }, says: "CARILLON_BOOTSTRAP_ACCOUNT is not set" },
  { first: { ACCOUNT: "-" }, says: "CARILLON_BOOTSTRAP_ACCOUNT: must be 1 to 64 letters" },
  {
    first: { ACCOUNT: "first", EMAIL: "ada@example.com", PASSWORD: "short" },
    says: "CARILLON_BOOTSTRAP_PASSWORD: must be 8 to 256 characters",
  },
  {
    first: { ACCOUNT: "first", EMAIL: "ada@example.com" },
    says: "CARILLON_BOOTSTRAP_EMAIL and CARILLON_BOOTSTRAP_PASSWORD belong together",
  },
  {
    first: { ACCOUNT: "first", EMAIL: "ada", PASSWORD: "correct horse battery" },
    says: "CARILLON_BOOTSTRAP_EMAIL: ",
  },
  {
    first: { ACCOUNT: "first", NAMESPACE: "Team A" },
    says: "CARILLON_BOOTSTRAP_NAMESPACE must be a namespace's name",
  },
])(
  "a first account that cannot be is told before PostgreSQL is asked: $says",
  async ({ first, says }) => {
    const env = Object.entries(first).map(([name, value]) => [`CARILLON_BOOTSTRAP_${name}`, value]);
    const { finished } = run("migrate", {
      env: { DATABASE_URL: "postgres://u@127.0.0.1:1/db", ...Object.fromEntries(env) },
    });
    const { code, stderr } = await finished;
    expect({ code, lines: stderr.trimEnd().split("\n") }).toEqual(oneLine(says));
  },
);

test("migrate ends at SIGTERM, also as the first process of a container", async () => {
  const env = {
    DATABASE_URL: "postgres://u:hidden@127.0.0.1:1/db",
    CARILLON_DATABASE_WAIT_SECONDS: "60",
  };
  const program = run("migrate", { env });
  await until("it waits", () => program.stdout().includes("Waiting for PostgreSQL"));
  program.signal("SIGTERM");
  // An exit code, not a signal: the program has a handler, without which a process with PID 1 would ignore the signal.
  expect((await program.finished).code).toBe(143);
});

test("migrate waits for PostgreSQL in the middle of it, too, and goes on", async () => {
  const database = await createEmptyDatabase();
  const proxy = await startTcpProxy({ target: () => addressOf(database.url) });
  const url = new URL(database.url);
  url.port = String(proxy.port);
  const env = { DATABASE_URL: url.href, CARILLON_DATABASE_WAIT_SECONDS: "60" };
  const program = run("migrate", { env });
  await until("it has begun", () => program.stdout().includes("0002_"));
  proxy.cut();
  const { code, stdout } = await program.finished;
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /^Waiting for PostgreSQL, .*\n(?:Migrating .*\n)+The database is up to date\n$/m,
  );
  await proxy.close();
  await database.drop();
});

test("standalone ends at SIGTERM while its migration waits for somebody who reads the tables", async () => {
  const database = await createEmptyDatabase();
  await migrateUpTo(database.url, "0010_who_invites");
  const pool = createPool({ url: database.url, applicationName: "test" });
  const backup = await pool.connect();
  await backup.query(
    "set idle_in_transaction_session_timeout = 0; begin; lock table runs in access share mode",
  );
  const program = run("standalone", {
    env: {
      DATABASE_URL: database.url,
      CARILLON_DATA_DIR: await mkdtemp(join(other, "waiting-")),
      PORT: "0",
      CARILLON_METRICS_PORT: "0",
    },
  });
  await until("it waits", () => program.stdout().includes("Waiting for another migration"));
  program.signal("SIGTERM");
  expect(await program.finished).toMatchObject({ code: 0, stderr: "" });
  backup.release(true);
  await pool.end();
  await database.drop();
});

/** Settings for any of the programs, with ports that the system chooses. */
function environment(more: Record<string, string>): Record<string, string> {
  return {
    CARILLON_DATA_DIR: join(other, "data"),
    CARILLON_ENCRYPTION_KEYS: `k1:${Buffer.alloc(32, 1).toString("base64")}`,
    CARILLON_JOB_STORE: "postgres",
    PORT: "0",
    CARILLON_METRICS_PORT: "0",
    ...more,
  };
}

async function start(env: Partial<Record<string, string>>): Promise<object> {
  const program = run("standalone", {
    env: { CARILLON_DATA_DIR: join(other, "data"), PORT: "0", CARILLON_METRICS_PORT: "0", ...env },
  });
  const { code, stderr } = await program.finished;
  return { code, lines: stderr.trimEnd().split("\n") };
}

/** Output of one line, without the password. */
function oneLine(says: string): object {
  const escaped = says.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const pattern = new RegExp(`^carillon: (?!.*hidden).*${escaped}`);
  return { code: 1, lines: [expect.stringMatching(pattern) as unknown] };
}
