import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../postgres/database.ts";
import { createPool } from "../../src/postgres/pool.ts";
import { createSessions } from "../../src/postgres/sessions.ts";
import { createUsers } from "../../src/postgres/users.ts";
import { call, run, startStandalone, type Finished, type Standalone } from "./program.ts";

const KEYS = `k1:${Buffer.alloc(32, 7).toString("base64")}`;
/** Under which everything is sealed once a test has put a new key first. */
const NEWER_KEYS = `k2:${Buffer.alloc(32, 9).toString("base64")},${KEYS}`;

let database: TestDatabase;
let empty: string;

beforeAll(async () => {
  database = await createTestDatabase();
  empty = await mkdtemp(join(tmpdir(), "carillon-e2e-"));
});

afterAll(async () => {
  await database.drop();
  await rm(empty, { recursive: true, force: true });
});

const DONE = { code: 0, stderr: "" };
const refused = (because: RegExp) => ({
  code: 1,
  stdout: "",
  stderr: expect.stringMatching(because) as unknown,
});

function carillon(
  line: string,
  input?: string,
  env: Record<string, string> = {},
): Promise<Finished> {
  return run("cli", {
    args: line.split(" "),
    env: { DATABASE_URL: database.url, CARILLON_ENCRYPTION_KEYS: KEYS, ...env },
    ...(input === undefined ? {} : { input }),
  }).finished;
}

function onStandalone(line: string): Promise<Finished> {
  return run("cli", { args: line.split(" "), env: { CARILLON_DATA_DIR: empty } }).finished;
}

async function succeeds(
  line: string,
  input?: string,
  env?: Record<string, string>,
): Promise<string> {
  const { code, stdout, stderr } = await carillon(line, input, env);
  expect({ line, code, stderr }).toMatchObject({ code: 0 });
  return stdout;
}

describe("carillon admin on DATABASE_URL", () => {
  test("an account's life", async () => {
    expect(
      JSON.parse(await succeeds("admin account create team-a --namespace ns-a")),
    ).toMatchObject({
      name: "team-a",
      namespace: "ns-a",
    });
    const bind = "admin account bind team-a --namespace ns-b";
    expect(await carillon(bind)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^carillon: whether the namespace ns-a, .*KUBECONFIG.*\n$/),
    });
    const bound = await carillon(bind, undefined, { CARILLON_JOB_STORE: "postgres" });
    expect(JSON.parse(bound.stdout)).toMatchObject({ namespace: "ns-b" });
    expect(bound.stderr).toMatch(
      /^carillon: this installation keeps its jobs in PostgreSQL; .*\n$/,
    );
    expect(JSON.parse(await succeeds("admin account allow team-a 10.0.0.0/8:8443"))).toMatchObject({
      allowed: ["10.0.0.0/8:8443"],
    });
    await succeeds("admin account allow team-a fd00::/8");
    expect(JSON.parse(await succeeds("admin account allowed team-a"))).toEqual({
      account: "team-a",
      allowed: ["10.0.0.0/8:8443", "fd00::/8"],
    });
    await succeeds("admin account disallow team-a fd00::/8");
    expect(
      JSON.parse(await succeeds("admin account disallow team-a 10.0.0.0/8:8443")),
    ).toMatchObject({ allowed: [] });
    const pool = createPool({ url: database.url, applicationName: "test" });
    await pool.query(
      `insert into job_cursors
         (account, job_uid, job_id, position, schedule_hash, generation, startable, once)
       select id, gen_random_uuid(), 'of-team-a', now(), '', 1, true, 'armed' from accounts`,
    );
    await succeeds("admin account delete team-a");
    expect(JSON.parse(await succeeds("admin account list"))).toEqual([]);
    const { rows } = await pool.query(
      "select startable from job_cursors where job_id = 'of-team-a'",
    );
    await pool.end();
    expect(rows).toEqual([{ startable: false }]);
  });

  test("a namespace that is not served, or is none, is refused before anything is made", async () => {
    const env = { KUBECONFIG: "/nowhere", CARILLON_WATCH_NAMESPACES: "served,served-too" };
    const elsewhere =
      /^carillon: the namespace elsewhere is none that is served: .* CARILLON_WATCH_NAMESPACES [^\n]*\n$/;
    const create = "admin account create outside --namespace";
    expect(await carillon(`${create} elsewhere`, undefined, env)).toEqual(refused(elsewhere));
    const none = /^carillon: namespace: must be the name of a Kubernetes namespace\n$/;
    expect(await carillon(`${create} `, undefined, env)).toEqual(refused(none));
    expect(await succeeds("admin account list")).not.toContain("outside");

    await succeeds(`${create} served`, undefined, env);
    const bind = "admin account bind outside --namespace";
    expect(await carillon(`${bind} elsewhere`, undefined, env)).toEqual(refused(elsewhere));
    const inPostgres = { ...env, CARILLON_JOB_STORE: "postgres" };
    expect(await succeeds(`${bind} elsewhere`, undefined, inPostgres)).toContain("elsewhere");
    await succeeds("admin account delete outside");
  });

  test("an API key's life: the raw key alone on standard output", async () => {
    await succeeds("admin account create keys");
    const raw = await succeeds("admin key create --account keys --label ci");
    expect(raw).toMatch(/^svc_live_[A-Za-z0-9_-]+\n$/);
    const [listed] = JSON.parse(await succeeds("admin key list --account keys --output json")) as {
      id: string;
      label: string;
      prefix: string;
    }[];
    expect(listed).toMatchObject({ label: "ci" });
    expect(raw.startsWith(listed?.prefix ?? "none")).toBe(true);
    expect(await succeeds("admin key list --account keys")).toContain("LAST USED");
    await succeeds(`admin key delete ${listed?.id} --account keys`);
    expect(await carillon(`admin key delete ${listed?.id} --account keys`)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("has no key") as unknown,
    });
  });

  test("signing secrets: alone on standard output, and two during a rotation", async () => {
    await succeeds("admin account create signing");
    const first = await succeeds("admin signing-secret show --account signing");
    expect(first).toMatch(/^whsec_\S+\n$/);
    const rotated = await carillon("admin signing-secret rotate --account signing");
    expect(rotated.stdout).toMatch(/^whsec_\S+\n$/);
    expect(rotated.stdout).not.toBe(first);
    expect(rotated.stderr).toContain("the old secret goes on signing until");
    const both = JSON.parse(
      await succeeds("admin signing-secret show --account signing --output json"),
    ) as { secrets: string[] };
    expect(both.secrets).toEqual([rotated.stdout.trim(), first.trim()]);
  });

  test("a signing secret that is rotated before it exists: no word of an old one", async () => {
    await succeeds("admin account create unsigned");
    const rotate = "admin signing-secret rotate --account unsigned";
    expect(await carillon(rotate)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^whsec_\S+\n$/) as unknown,
      stderr: "",
    });
    await succeeds("admin account create unsigned-too");
    const json = JSON.parse(await succeeds(`${rotate}-too --output json`)) as object;
    expect(json).toMatchObject({ account: "unsigned-too", old_valid_until: null });
  });

  test("nothing is sealed by a ring that the programs do not have: they would not start again", async () => {
    await succeeds("admin account create sealed");
    await succeeds("admin account create sealed-too");
    const show = "admin signing-secret show --account sealed";
    const secret = await succeeds(show);
    const smtp =
      "admin smtp set --account sealed --host smtp.example.com --port 465 --from a@example.com";
    const otherKey = Buffer.alloc(32, 8).toString("base64");
    const lacksOurs = /^carillon: there is data under the encryption key id "k1", which [^\n]+\n$/;
    for (const { line, input, id = "other", says = lacksOurs } of [
      { line: "admin signing-secret rotate --account sealed" },
      { line: `${show}-too` },
      { line: `${smtp} --username u --password-stdin`, input: "hunter22\n" },
      { line: "admin keys reencrypt" },
      { line: `${show}-too`, id: "k1", says: /does not open with the encryption key "k1"/ },
    ]) {
      const env = { CARILLON_ENCRYPTION_KEYS: `${id}:${otherKey}` };
      expect({ line, ...(await carillon(line, input, env)) }).toMatchObject(refused(says));
    }
    expect(await succeeds(show)).toBe(secret);
    // What holds no secret needs no key.
    await succeeds(smtp, undefined, { CARILLON_ENCRYPTION_KEYS: "" });
  });

  test("SMTP settings, a user, and a new encryption key", async () => {
    await succeeds("admin account create mail");
    const smtp = await succeeds(
      "admin smtp set --account mail --host smtp.example.com --port 465 --from a@example.com --username u --password-stdin",
      "hunter22\n",
    );
    expect(JSON.parse(smtp)).toMatchObject({ tls: "implicit", password_set: true });
    expect(smtp).not.toContain("hunter22");
    const user = await succeeds(
      "admin user create --account mail --email Owner@Example.com --password-stdin",
      "correct horse\n",
    );
    expect(JSON.parse(user)).toMatchObject({ email: "owner@example.com", role: "owner" });
    const reencrypted = await run("cli", {
      args: ["admin", "keys", "reencrypt", "--output", "json"],
      env: { DATABASE_URL: database.url, CARILLON_ENCRYPTION_KEYS: NEWER_KEYS },
    }).finished;
    // Whatever secrets other tests have made.
    const pool = createPool({ url: database.url, applicationName: "test" });
    const { rows } = await pool.query<{ sealed: string }>(
      `select secret as sealed from signing_secrets
       union all select password from smtp_settings where password is not null`,
    );
    await pool.end();
    expect(rows.length).toBeGreaterThan(0);
    expect(JSON.parse(reencrypted.stdout)).toEqual({ reencrypted: rows.length });
    expect(rows.filter(({ sealed }) => !sealed.startsWith("k2:"))).toEqual([]);
  });
});

test("an account is made once, however often it is asked for", async () => {
  const create = "admin account create once --namespace team-once";
  const made = JSON.parse(await succeeds(create)) as object;
  expect(JSON.parse(await succeeds(`${create} --if-missing`))).toEqual(made);
  expect(JSON.parse(await succeeds("admin account create once --if-missing"))).toEqual(made);
  expect(await carillon(create)).toMatchObject(refused(/there is an account named once already/));
  expect(await carillon(`${create}-more --if-missing`)).toMatchObject(
    refused(/^carillon: once exists, and is bound to team-once: move it with `account bind`\n$/),
  );
  await succeeds("admin account create unbound --if-missing");
  expect(await carillon("admin account create unbound --namespace n --if-missing")).toMatchObject(
    refused(
      /^carillon: unbound exists, and is bound to no namespace: bind it \(`account bind`\)\n$/,
    ),
  );
});

test("SMTP settings are shown without the password", async () => {
  await succeeds("admin account create shown");
  const show = "admin smtp show --account shown";
  const env = { CARILLON_ENCRYPTION_KEYS: NEWER_KEYS };
  expect(await carillon(show)).toMatchObject(
    refused(/^carillon: shown has no SMTP settings: make them with `smtp set`\n$/),
  );
  const set = await succeeds(
    "admin smtp set --account shown --host smtp.example.com --port 587 --from a@example.com --username u --password-stdin",
    "hunter22\n",
    env,
  );
  const shown = await succeeds(show, undefined, env);
  expect(shown).toBe(set);
  expect(shown).not.toContain("hunter22");
});

test("users of an account: listed, and deleted but for the last owner", async () => {
  await succeeds("admin account create people");
  const create = "admin user create --account people --password-stdin --email";
  await succeeds(`${create} ann@people.example`, "correct horse\n");
  const pool = createPool({ url: database.url, applicationName: "test", max: 1 });
  const sessions = createSessions({ pool });
  const bob = JSON.parse(await succeeds(`${create} bob@people.example`, "correct horse\n")) as {
    id: string;
  };
  const token = (await sessions.create(bob.id))?.token ?? "";
  const list = await succeeds("admin user list --account people");
  expect(list).toMatch(/^EMAIL +ROLE +CREATED\nann@people\.example +owner +2\S+Z\nbob@people/);
  expect(await succeeds("admin user delete --email Bob@people.example")).toBe(
    "deleted bob@people.example\n",
  );
  expect(await sessions.authenticate(token)).toBeUndefined();
  await pool.end();
  expect(
    JSON.parse(await succeeds("admin user list --account people --output json")),
  ).toMatchObject([{ email: "ann@people.example", role: "owner", admin: false }]);
  expect(await carillon("admin user delete --email bob@people.example")).toMatchObject(
    refused(/^carillon: there is no user bob@people\.example\n$/),
  );
  expect(await carillon("admin user delete --email ann@people.example")).toMatchObject(
    refused(
      /^carillon: the user is the account's last owner: create another one first \(`user create`\)\n$/,
    ),
  );
});

test("SMTP settings that no mail would go by are kept, and that is said", async () => {
  await succeeds("admin account create inside");
  const set = "admin smtp set --account inside --from a@example.com --host";
  const warned = {
    code: 0,
    stdout: expect.stringContaining('"host"') as unknown,
    stderr: expect.stringMatching(
      /^carillon: the settings are kept, but [^\n]* CARILLON_ALLOW_DESTINATIONS[^\n]* refused: 10\.0\.0\.9:587 [^\n]*\n$/,
    ) as unknown,
  };
  expect(await carillon(`${set} 10.0.0.9 --port 587`)).toMatchObject(warned);
  expect(await carillon(`${set} 10.0.0.9 --port 587 --output json`)).toMatchObject(warned);
  const allowed = { CARILLON_ALLOW_DESTINATIONS: "10.0.0.0/8" };
  expect(await carillon(`${set} 10.0.0.9 --port 587`, undefined, allowed)).toMatchObject(DONE);
  await succeeds("admin account allow inside 10.0.0.9:587");
  expect(await carillon(`${set} 10.0.0.9 --port 587`)).toMatchObject(DONE);
  expect(await carillon(`${set} 203.0.114.9 --port 8025`)).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("refused: 203.0.114.9:8025") as unknown,
  });
});

test("a forgotten password: a new one, and whoever knew the old one is out", async () => {
  const pool = createPool({ url: database.url, applicationName: "test", max: 1 });
  const [users, sessions] = [createUsers({ pool }), createSessions({ pool })];
  await succeeds("admin account create forgetful");
  const created = await succeeds(
    "admin user create --account forgetful --email ann@example.com --admin --password-stdin",
    "correct horse\n",
  );
  const { id } = JSON.parse(created) as { id: string };
  const token = (await sessions.create(id))?.token ?? "";
  const other = await users.create({
    account: (await users.byEmail("ann@example.com"))?.account ?? "",
    email: "bob@example.com",
    password: "correct horse",
  });
  const others = await sessions.create(other.id);
  const set = "admin user set-password --password-stdin --email";

  for (const { email, password, code, says } of [
    { email: "ann@example.com", password: "short", code: 1, says: "must be 8 to 256 characters" },
    { email: "ann@example.com", password: "", code: 2, says: "standard input held no password" },
    { email: "ann@example.com", password: "two lines\nof it", code: 2, says: "must be one line" },
    {
      email: "ann@example.com",
      password: "of another file".repeat(999),
      code: 2,
      says: "more than",
    },
    { email: "eve@example.com", password: "long enough", code: 1, says: "there is no user eve@" },
  ]) {
    const refused = await carillon(`${set} ${email}`, `${password}\n`);
    expect(refused).toMatchObject({ code, stderr: expect.stringContaining(says) as unknown });
  }
  expect(await sessions.authenticate(token)).toMatchObject({ user: { id } });

  expect(await succeeds(`${set} Ann@Example.com`, "forgotten no more\n")).toBe(
    "ann@example.com has a new password; open sessions have ended\n",
  );
  expect(await sessions.authenticate(token)).toBeUndefined();
  expect(await sessions.authenticate(others?.token ?? "")).toMatchObject({
    user: { id: other.id },
  });
  expect(
    await users.verify({ email: "ann@example.com", password: "correct horse", party: "test" }),
  ).toBeUndefined();
  expect(
    await users.verify({ email: "ann@example.com", password: "forgotten no more", party: "test" }),
  ).toMatchObject({
    user: { id },
  });
  await pool.end();
});

describe("exit codes and one line", () => {
  test.each([
    { line: "--help", code: 0, stdout: "Usage: carillon admin COMMAND", stderr: "" },
    { line: "--version", code: 0, stdout: "0.", stderr: "" },
    { line: "admin key create", code: 2, stdout: "", stderr: "--account is missing" },
    {
      line: "admin key create --acount x",
      code: 2,
      stdout: "",
      stderr: "Unknown option '--acount'",
    },
    {
      line: "admin key create --account nobody",
      code: 1,
      stdout: "",
      stderr: "there is no account",
    },
    { line: "admin account create -x-", code: 2, stdout: "", stderr: "carillon: " },
    { line: "admin account allow a 10.0.0.0/99", code: 1, stdout: "", stderr: "carillon: " },
    {
      line: "admin smtp set --account keys --host h --port 0 --from a@b.c",
      code: 2,
      stdout: "",
      stderr: "--port must be",
    },
    {
      line: "admin smtp set --account keys --host h --port 25 --from Name<a@b.c>",
      code: 2,
      stdout: "",
      stderr: "--from must be one plain address",
    },
    {
      line: "admin smtp set --account keys --host h --port 25 --from a@b.c --username= --password-stdin",
      code: 2,
      stdout: "",
      stderr: "--username is empty",
    },
    {
      line: "admin smtp set --account keys --host smtp://h --port 25 --from a@b.c",
      code: 2,
      stdout: "",
      stderr: "--host must be",
    },
  ])("carillon $line", async ({ line, code, stdout, stderr }) => {
    const finished = await carillon(line);
    expect(finished).toMatchObject({
      code,
      stdout: expect.stringContaining(stdout) as unknown,
      stderr: expect.stringContaining(stderr) as unknown,
    });
    expect(finished.stderr.split("\n").length).toBeLessThanOrEqual(2);
  });

  test.runIf(process.platform === "linux")("a key that could not be written down", async () => {
    await succeeds("admin account create unwritten");
    const finished = await run("cli", {
      args: ["admin", "key", "create", "--account", "unwritten"],
      env: { DATABASE_URL: database.url },
      through: ["sh", "-c", 'exec "$0" "$@" >/dev/full'],
    }).finished;
    expect(finished).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^carillon: it is done, but [^\n]*ENOSPC[^\n]*\n$/) as unknown,
    });
  });

  test("a database that does not answer", async () => {
    const finished = await run("cli", {
      args: ["admin", "account", "list"],
      env: { DATABASE_URL: "postgres://u:hidden@127.0.0.1:1/db" },
    }).finished;
    expect(finished).toMatchObject({ code: 1, stdout: "" });
    expect(finished.stderr).toMatch(
      /^carillon: PostgreSQL at 127\.0\.0\.1:1 cannot be used[^\n]*\n$/,
    );
    expect(finished.stderr).not.toContain("hidden");
  });
});

test("what asks no cluster does not wait until Kubernetes' client is loaded", async () => {
  const missing = `import { registerHooks } from "node:module";
    registerHooks({
      resolve(name, context, next) {
        if (name.startsWith("@kubernetes/")) throw new Error("loaded " + name);
        return next(name, context);
      },
    });`;
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(missing)}`;
  expect(await carillon("admin account list", undefined, { NODE_OPTIONS })).toMatchObject(DONE);
  const first = { DATABASE_URL: database.url, CARILLON_BOOTSTRAP_ACCOUNT: "first", NODE_OPTIONS };
  expect(await run("migrate", { env: first }).finished).toMatchObject(DONE);
});

describe("carillon admin on the running standalone of CARILLON_DATA_DIR", () => {
  let program: Standalone;

  const noneRuns = {
    code: 1,
    stderr: expect.stringMatching(/^carillon: no Carillon is running on [^\n]*\n$/) as unknown,
  };

  test("says when none is running", async () => {
    expect(await onStandalone("admin account list")).toMatchObject(noneRuns);
  });

  test("says so when that standalone was killed, and its PostgreSQL with it", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "carillon-e2e-"));
    await writeFile(join(dataDir, "database-url"), "postgres://carillon:x@127.0.0.1:1/postgres\n");
    const args = ["admin", "account", "list"];
    expect(await run("cli", { args, env: { CARILLON_DATA_DIR: dataDir } }).finished).toEqual({
      code: 1,
      stdout: "",
      stderr: `carillon: the Carillon on the data directory ${dataDir} does not run any longer: start it again (npm start)\n`,
    });
    await rm(dataDir, { recursive: true, force: true });
  });

  test("says so when its PostgreSQL does not answer", async () => {
    const hanging = createServer().listen(0, "127.0.0.1");
    await once(hanging, "listening");
    const { port } = hanging.address() as AddressInfo;
    const dataDir = await mkdtemp(join(tmpdir(), "carillon-e2e-"));
    const url = `postgres://carillon:hidden@127.0.0.1:${port}/postgres`;
    await writeFile(join(dataDir, "database-url"), `${url}\n`);
    const args = ["admin", "account", "list"];
    const finished = await run("cli", { args, env: { CARILLON_DATA_DIR: dataDir } }).finished;
    hanging.close();
    await rm(dataDir, { recursive: true, force: true });
    expect(finished).toEqual({
      code: 1,
      stdout: "",
      stderr: expect.stringMatching(
        /^carillon: the PostgreSQL of the Carillon on [^\n]* cannot be used: [^\n]*timeout[^\n]*\n$/,
      ) as unknown,
    });
  });

  test.each([
    { keys: "made-for-the-operators-database", made: `${NEWER_KEYS}\n`, given: "DATABASE_URL" },
    { keys: "of-the-operator", made: "", given: "CARILLON_ENCRYPTION_KEYS" },
  ])("takes the keys $keys", async ({ keys, made, given }) => {
    const dataDir = await mkdtemp(join(tmpdir(), "carillon-e2e-"));
    await writeFile(join(dataDir, "database-url"), `${database.url}\n`);
    if (made) await writeFile(join(dataDir, "encryption-keys"), made);
    await succeeds(`admin account create ${keys}`);
    const value = given === "DATABASE_URL" ? database.url : NEWER_KEYS;
    const env = { CARILLON_DATA_DIR: dataDir, [given]: value };
    const args = `admin signing-secret rotate --account ${keys}`.split(" ");
    const finished = await run("cli", { args, env }).finished;
    await rm(dataDir, { recursive: true });
    expect(finished).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("whsec_") as unknown,
    });
  });

  test("makes a key that works, and deletes it at once", async () => {
    program = await startStandalone(empty);
    const { stdout } = await onStandalone("admin key create --account default");
    const key = stdout.trim();
    const path = "/jobs";
    expect((await call(program.url, { key, path })).status).toBe(200);
    const keys = JSON.parse(
      (await onStandalone("admin key list --account default --output json")).stdout,
    ) as {
      id: string;
      prefix: string;
    }[];
    const id = keys.find(({ prefix }) => key.startsWith(prefix))?.id ?? "";
    await onStandalone(`admin key delete ${id} --account default`);
    expect((await call(program.url, { key, path })).status).toBe(401);
    program.signal("SIGTERM");
    expect((await program.finished).code).toBe(0);
    expect(await onStandalone("admin account list")).toMatchObject(noneRuns);
  });
});
