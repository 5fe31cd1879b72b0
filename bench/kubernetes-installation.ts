import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startEmbeddedPostgres } from "../src/standalone/embedded-postgres.ts";
import { connect, createNamespace, installCrd } from "../test/kubernetes/cluster.ts";
import { startControlPlane } from "../test/kubernetes/control-plane.ts";
import type { OwnControlPlane } from "../test/kubernetes/own-control-plane.ts";
import { runToEnd, startPart, type Part } from "../test/kubernetes/part.ts";
import { WITHOUT_RATE_LIMIT } from "./own-program.ts";

const GC_ON_SIGNAL = `--import ${fileURLToPath(new URL("gc-on-signal.ts", import.meta.url))}`;

/**
 * What Node chooses itself in a container of 1 GiB, the chart's limit for a controller. On a machine with much memory
 * it leaves more garbage where it is.
 */
const HEAP_OF_1_GIB = ["--max-old-space-size=512", "--max-semi-space-size=16"];

/** A control plane, a PostgreSQL and an account bound to a namespace, for gateways and controllers. */
export interface Installation {
  controlPlane: OwnControlPlane;
  /** Headers of an administrator, for calls by a plain HTTP client. */
  authorization: { authorization: string };
  namespace: string;
  key: string;
  /** What it starts ends with the installation, if not before. */
  start(name: "gateway" | "controller"): Promise<Part>;
  /** Creates an owner of the account, who may use the dashboard. Only once. */
  owner(): Promise<{ email: string; password: string }>;
  close(): Promise<void>;
}

/** Undefined when no control plane of its own can be started, after saying why. */
export async function createInstallation(): Promise<Installation | undefined> {
  const controlPlane = await startControlPlane();
  if (controlPlane === undefined) return undefined;
  if (controlPlane.kind !== "own") {
    await controlPlane.stop();
    console.error(
      "the benchmark fills a control plane of its own: it needs envtest's programs or Go 1.26, and no CARILLON_TEST_KUBECONFIG",
    );
    return undefined;
  }
  const dataDir = await mkdtemp(join(tmpdir(), "carillon-bench-"));
  const postgres = await startEmbeddedPostgres({ dataDir });
  const env = {
    DATABASE_URL: postgres.url,
    KUBECONFIG: controlPlane.kubeconfig,
    CARILLON_ENCRYPTION_KEYS: `bench:${randomBytes(32).toString("base64")}`,
    ...WITHOUT_RATE_LIMIT,
  };
  const parts: Part[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(parts.map((part) => part.stop()));
    await controlPlane.stop();
    await postgres.stop();
    await rm(dataDir, { recursive: true, force: true });
  };
  try {
    const client = connect(controlPlane.kubeconfig);
    await installCrd(client);
    const { name: namespace } = await createNamespace(client, "bench");
    await client.close();
    const kubeconfig = JSON.parse(await readFile(controlPlane.kubeconfig, "utf8")) as {
      users: { user: { token: string } }[];
    };
    await runToEnd("migrate", env);
    await runToEnd("cli", env, ["admin", "account", "create", "bench", "--namespace", namespace]);
    return {
      controlPlane,
      authorization: { authorization: `Bearer ${kubeconfig.users[0]?.user.token}` },
      namespace,
      key: await runToEnd("cli", env, ["admin", "key", "create", "--account", "bench"]),
      async owner() {
        const owner = { email: "owner@example.com", password: randomBytes(12).toString("hex") };
        const args = ["admin", "user", "create", "--account", "bench", "--email", owner.email];
        await runToEnd("cli", env, [...args, "--password-stdin"], `${owner.password}\n`);
        return owner;
      },
      async start(name) {
        const NODE_OPTIONS = [...(name === "controller" ? HEAP_OF_1_GIB : []), GC_ON_SIGNAL].join(
          " ",
        );
        const part = await startPart(name, { ...env, NODE_OPTIONS, POD_NAME: `bench-${name}` });
        parts.push(part);
        return part;
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
