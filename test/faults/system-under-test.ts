/** A gateway and two controllers, started as an operator does, each with wires of its own. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createAccounts } from "../../src/postgres/accounts.ts";
import { createApiKeys } from "../../src/postgres/api-keys.ts";
import type { OwnControlPlane } from "../kubernetes/own-control-plane.ts";
import { freePort } from "../network/free-port.ts";
import { startTcpProxy, type TcpProxy } from "../network/tcp-proxy.ts";
import { startFaultyCluster, type FaultyCluster } from "./cluster.ts";
import { startFaultyDatabase, type FaultyDatabase } from "./database.ts";
import { PROCESSES, type ControllerName, type ProcessName, type WireName } from "./fault-plan.ts";
import { createMember, type Member } from "./member.ts";

export interface SystemUnderTest {
  database: FaultyDatabase;
  /** Holds the jobs; undefined: they are in PostgreSQL. */
  cluster: FaultyCluster | undefined;
  members: Readonly<Record<ProcessName, Member>>;
  /** Undefined for the API server if there is none. */
  wire(process: ProcessName, to: WireName): TcpProxy | undefined;
  /** The elected controller; undefined if there is no election. */
  leader(): Promise<ControllerName | undefined>;
  baseUrl: string;
  apiKey: string;
  /** Moves the wall clock of controller-b; undefined if libfaketime is not installed. */
  setClock: ((offsetSeconds: number) => Promise<void>) | undefined;
  close(): Promise<void>;
}

const FAKETIME = [
  "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib64/faketime/libfaketimeMT.so.1",
].find((path) => existsSync(path));

export async function startSystemUnderTest(options: {
  directory: string;
  /** Present: jobs are resources of its API server. */
  controlPlane?: OwnControlPlane | undefined;
}): Promise<SystemUnderTest> {
  const { directory, controlPlane } = options;
  await mkdir(directory, { recursive: true });
  const database = await startFaultyDatabase(join(directory, "postgres"));
  const cluster = controlPlane && (await startFaultyCluster(controlPlane, directory));
  const target = () => database.address();
  const wires = {
    gateway: await startTcpProxy({ target }),
    "controller-a": await startTcpProxy({ target }),
    "controller-b": await startTcpProxy({ target }),
  };
  const accounts = createAccounts({ pool: database.pool() });
  const account = await accounts.create({
    name: "faults",
    ...(cluster && { namespace: cluster.namespace.name, namespaceUid: cluster.namespace.uid }),
  });
  const { raw } = await createApiKeys({ pool: database.pool() }).create(account.id, "faults");

  const port = await freePort();
  const clockFile = join(directory, "faketime");
  const setClock = FAKETIME
    ? (offset: number) => writeFile(clockFile, `${offset < 0 ? "" : "+"}${offset}\n`)
    : undefined;
  await setClock?.(0);
  const common = {
    CARILLON_JOB_STORE: "postgres",
    CARILLON_HOST: "127.0.0.1",
    CARILLON_METRICS_PORT: "0",
    CARILLON_LOG_FORMAT: "json",
    CARILLON_ENCRYPTION_KEYS: `faults:${randomBytes(32).toString("base64")}`,
    CARILLON_ALLOW_DESTINATIONS: "127.0.0.0/8",
  };
  const member = (name: ProcessName, env: Record<string, string>): Member =>
    createMember({
      name,
      program: name === "gateway" ? "gateway" : "controller",
      env: {
        ...common,
        ...cluster?.env[name],
        DATABASE_URL: database.urlVia(wires[name].port),
        POD_NAME: name,
        ...env,
      },
      logFile: join(directory, `${name}.log`),
    });
  const members = {
    gateway: member("gateway", { PORT: String(port) }),
    "controller-a": member("controller-a", {}),
    // Only its wall clock is faked: monotonic time never jumps.
    "controller-b": member(
      "controller-b",
      FAKETIME
        ? {
            LD_PRELOAD: FAKETIME,
            FAKETIME_TIMESTAMP_FILE: clockFile,
            FAKETIME_CACHE_DURATION: "1",
            FAKETIME_DONT_FAKE_MONOTONIC: "1",
            DONT_FAKE_MONOTONIC: "1",
          }
        : {},
    ),
  };
  for (const name of PROCESSES) members[name].start();
  return {
    database,
    cluster,
    members,
    wire: (process, to) => (to === "database" ? wires : cluster?.wires)?.[process],
    leader: async () => cluster?.leader(),
    baseUrl: `http://127.0.0.1:${port}`,
    apiKey: raw,
    setClock,
    close: async () => {
      await Promise.all(PROCESSES.map((name) => members[name].destroy()));
      await Promise.all(PROCESSES.map((name) => wires[name].close()));
      await cluster?.close();
      await database.close();
    },
  };
}
