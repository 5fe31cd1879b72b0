import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createServer as createTlsServer,
  getCACertificates,
  setDefaultCACertificates,
  type SecureContextOptions,
} from "node:tls";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { isConnectionRefused } from "../../../src/postgres/connection-errors.ts";
import { createClient, createPool, transaction, type Pool } from "../../../src/postgres/pool.ts";
import { createAuthority } from "../../network/certificates.ts";
import { addressOf, startTcpProxy } from "../../network/tcp-proxy.ts";
import { admin } from "../../postgres/admin.ts";
import { createTestDatabase, urlAs, type TestDatabase } from "../../postgres/database.ts";

const authority = createAuthority();
const good = authority.issue(["127.0.0.1"]);

let database: TestDatabase;
let front: Awaited<ReturnType<typeof startFront>>;
let directory: string;
beforeAll(async () => {
  database = await createTestDatabase();
  front = await startFront();
  directory = await mkdtemp(join(tmpdir(), "carillon-ca-"));
  await writeFile(join(directory, "ca.crt"), authority.certificate);
});
afterAll(async () => {
  front?.close();
  await rm(directory, { recursive: true, force: true });
  await database?.drop();
});

/** Puts TLS with a certificate of the test in front of PostgreSQL. */
async function startFront() {
  const upstream = new URL(database.url);
  const clients = new Set<Socket>();
  let answer = "S";
  const tls = createTlsServer((client) => {
    const server = connect(Number(upstream.port), upstream.hostname);
    for (const socket of [client, server]) socket.on("error", () => undefined);
    client.pipe(server).pipe(client);
  });
  const plain = createServer((client) => {
    clients.add(client);
    client.on("error", () => undefined);
    // The first message is SSLRequest, which is answered with one byte.
    client.once("data", () => {
      client.write(answer);
      if (answer === "S") tls.emit("connection", client);
    });
  });
  plain.listen(0, "127.0.0.1");
  await once(plain, "listening");
  return {
    port: (plain.address() as AddressInfo).port,
    /** Sets what new connections get, and cuts the existing ones. */
    become(certificate: SecureContextOptions, says = "S") {
      tls.setSecureContext(certificate);
      answer = says;
      for (const client of clients) client.destroy();
      clients.clear();
    },
    /** How many connections there were since the last `become`. */
    get met() {
      return clients.size;
    },
    close() {
      for (const client of clients) client.destroy();
      plain.close();
    },
  };
}

function behindFront(more = ""): Pool {
  return poolBy(`?sslmode=verify-full&sslrootcert=${directory}/ca.crt${more}`);
}

function poolBy(search: string): Pool {
  const url = new URL(database.url);
  url.host = `127.0.0.1:${front.port}`;
  url.search = search;
  return createPool({ url: url.href, applicationName: "behind TLS", max: 1 });
}

const troubles = [
  { what: "a certificate that has expired", as: authority.issue(["127.0.0.1"], { expired: true }) },
  { what: "a certificate of another authority", as: createAuthority().issue(["127.0.0.1"]) },
  { what: "a certificate of another host", as: authority.issue(["other.example"]) },
  {
    what: "a certificate with a weak key",
    // Lets the server use such a certificate.
    as: { ...authority.issue(["127.0.0.1"], { weak: true }), ciphers: "DEFAULT:@SECLEVEL=0" },
  },
  { what: "a server without TLS", as: good, says: "N" },
  { what: "a server of something else", as: good, says: "H" },
];

test.each(troubles)("a process that was let in waits as in an outage: $what", async (trouble) => {
  front.become(good);
  const pool = behindFront();
  await pool.query("select 1");
  front.become(trouble.as, trouble.says);
  await expect.poll(() => pool.totalCount).toBe(0);
  await expect(pool.query("select 1")).rejects.toThrow(DependencyUnavailable);
  await expect(transaction(pool, async () => 1)).rejects.toThrow(DependencyUnavailable);
  front.become(good);
  await pool.query("select 1");
  await pool.end();
});

test("a URL without sslmode, as operators of PostgreSQL write it: PGSSLMODE encrypts, and checks the certificate", async () => {
  front.become(good);
  vi.stubEnv("PGSSLMODE", "verify-full");
  const known = getCACertificates();
  const pool = poolBy("");
  try {
    await expect(pool.query("select 1")).rejects.toThrow(/certificate/);
    setDefaultCACertificates([...known, authority.certificate]);
    await pool.query("select 1");
    front.become(authority.issue(["other.example"]));
    await expect.poll(() => pool.totalCount).toBe(0);
    await expect(pool.query("select 1")).rejects.toThrow(DependencyUnavailable);
  } finally {
    setDefaultCACertificates(known);
    vi.unstubAllEnvs();
    await pool.end();
  }
});

test("an authority's file that cannot be read for a moment is an outage, for whoever waits and for nobody else", async () => {
  front.become(good);
  const pool = behindFront();
  const file = join(directory, "ca.crt");
  const one = await pool.connect();
  const waiting = pool.query("select 1");
  await rename(file, `${file}.away`);
  // The pool opens another one for the waiting query.
  expect(() => one.release(true)).not.toThrow();
  await expect(waiting).rejects.toThrow(DependencyUnavailable);
  await expect(pool.query("select 1")).rejects.toThrow(DependencyUnavailable);
  await expect(transaction(pool, async () => 1)).rejects.toThrow(DependencyUnavailable);
  const url = pool.options.connectionString ?? "";
  const alone = createClient({ url, applicationName: "behind TLS" });
  await expect(alone.connect()).rejects.toThrow("ENOENT");
  await alone.end();
  await rename(`${file}.away`, file);
  await pool.query("select 1");
  await pool.end();
});

test("a key that is of another certificate for a moment is an outage, and takes none of the server's connections", async () => {
  front.become(good);
  const own = authority.issue(["carillon"]);
  const [certificate, key] = [join(directory, "own.crt"), join(directory, "own.key")];
  await writeFile(certificate, own.cert);
  await writeFile(key, own.key);
  const pool = behindFront(`&sslcert=${certificate}&sslkey=${key}`);
  await pool.query("select 1");
  await writeFile(key, good.key);
  front.become(good);
  await expect.poll(() => pool.totalCount).toBe(0);
  await expect(pool.query("select 1")).rejects.toThrow(DependencyUnavailable);
  await expect(transaction(pool, async () => 1)).rejects.toThrow(DependencyUnavailable);
  expect(front.met).toBe(0);
  await writeFile(key, own.key);
  await pool.query("select 1");
  await pool.end();
});

test("a server that asks for a password that we have not is left, and not kept waiting on the connection", async () => {
  const wire = await startTcpProxy({ target: () => addressOf(database.url) });
  const url = new URL(database.url);
  url.host = `127.0.0.1:${wire.port}`;
  url.password = "";
  const options = { url: url.href, applicationName: "without a password" };
  await expect(createClient(options).connect()).rejects.toThrow("SASL: ");
  const pool = createPool(options);
  await expect(pool.query("select 1")).rejects.toThrow("SASL: ");
  expect(wire.accepted).toBe(2);
  await expect.poll(() => wire.open).toBe(0);
  await pool.end();
  await wire.close();
});

test("a password that was hashed as slowly as is recommended is taken", async () => {
  const role = `slow_${randomBytes(4).toString("hex")}`;
  await admin(
    database.url,
    `set scram_iterations = 600000; create role ${role} login password 'slow'`,
  );
  const pool = createPool({ url: urlAs(database.url, role, "slow"), applicationName: role });
  const { rows } = await pool.query("select current_user as is");
  expect(rows).toEqual([{ is: role }]);
  await pool.end();
  await admin(database.url, `drop role ${role}`);
});

test("what the system refuses is no fault of the statement's", () => {
  const refused = Object.assign(new Error("connect EMFILE"), {
    code: "EMFILE",
    syscall: "connect",
  });
  expect(isConnectionRefused(refused)).toBe(true);
  expect(isConnectionRefused(new AggregateError([refused]))).toBe(true);
  // pg's error when the server has begun to ask for a password, and the URL has none.
  const asked = "SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string";
  expect(isConnectionRefused(new Error(asked))).toBe(true);
  expect(isConnectionRefused(Object.assign(new Error("duplicate key"), { code: "23505" }))).toBe(
    false,
  );
});
