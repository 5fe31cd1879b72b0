/** An installation by the chart, but with its processes on this machine instead of in pods. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CHART, helm, kubectl, toSet } from "../../charts/chart.ts";
import { kubeconfigText, type OwnControlPlane } from "../../kubernetes/own-control-plane.ts";
import type { TestDatabase } from "../../postgres/database.ts";
import { runToEnd, startPart } from "../../kubernetes/part.ts";
import { run, type Program } from "../program.ts";

export const HOME = "carillon";
export const TEAM = "team-a";
const KEYS = `k1:${Buffer.alloc(32, 7).toString("base64")}`;

export interface Process extends Program {
  name: string;
  /** URL of the gateway's API; empty for a controller. */
  url: string;
  /** Ends it in order (SIGTERM) or at once (SIGKILL). Returns its exit code. */
  end(signal?: "SIGTERM" | "SIGKILL"): Promise<number | null>;
}

export interface Installation {
  kube(args: string, input?: string): Promise<string>;
  /** Runs `carillon admin …`. */
  admin(args: string, input?: string): Promise<string>;
  migrate(env?: Record<string, string>): Promise<{ code: number | null; said: string }>;
  gateway(name: string): Promise<Process>;
  controller(name: string): Promise<Process>;
  uninstall(): Promise<void>;
  close(): Promise<void>;
}

/** Installs the chart. Every process gets a token of its part's service account, and no other rights. */
export async function install(
  controlPlane: OwnControlPlane,
  database: TestDatabase,
): Promise<Installation> {
  const folder = await mkdtemp(join(tmpdir(), "carillon-installation-"));
  const { kubeconfig } = controlPlane;
  const kube = (args: string, input?: string) => kubectl(kubeconfig, args.split(" "), input);
  const processes: Process[] = [];
  await kube(`create namespace ${HOME}`);
  await kube(`create namespace ${TEAM}`);
  const values = {
    database: { url: database.url },
    bootstrap: { namespace: TEAM },
    headerSecretNamespaces: [TEAM],
  };
  await helm(["install", "carillon", CHART, "--namespace", HOME, ...toSet(values)], kubeconfig);
  await kube("wait --for=condition=Established --timeout=30s crd/scheduledjobs.carillon.dev");

  async function identity(part: "gateway" | "controller"): Promise<string> {
    const token = (await kube(`-n ${HOME} create token carillon-${part} --duration=1h`)).trim();
    const path = join(folder, `${part}.kubeconfig`);
    const text = kubeconfigText({ server: controlPlane.server, ca: controlPlane.ca(), token });
    await writeFile(path, text, { mode: 0o600 });
    return path;
  }
  const identities = {
    gateway: await identity("gateway"),
    controller: await identity("controller"),
  };

  async function start(part: "gateway" | "controller", name: string): Promise<Process> {
    const { program, url } = await startPart(part, {
      KUBECONFIG: identities[part],
      DATABASE_URL: database.url,
      CARILLON_ENCRYPTION_KEYS: KEYS,
      CARILLON_HEADER_SECRET_NAMESPACES: TEAM,
      CARILLON_LEASE_NAME: "carillon-controller",
      POD_NAMESPACE: HOME,
      POD_NAME: name,
    });
    const process: Process = {
      ...program,
      name,
      url,
      async end(signal = "SIGTERM") {
        program.signal(signal);
        return (await program.finished).code;
      },
    };
    processes.push(process);
    return process;
  }

  return {
    kube,
    admin: (args, input) =>
      runToEnd(
        "cli",
        { DATABASE_URL: database.url, CARILLON_ENCRYPTION_KEYS: KEYS },
        ["admin", ...args.split(" ")],
        input,
      ),
    async migrate(env = {}) {
      const { code, stdout, stderr } = await run("migrate", {
        env: { KUBECONFIG: identities.gateway, DATABASE_URL: database.url, ...env },
      }).finished;
      return { code, said: stdout + stderr };
    },
    gateway: (name) => start("gateway", name),
    controller: (name) => start("controller", name),
    async uninstall() {
      await helm(["uninstall", "carillon", "--namespace", HOME], kubeconfig);
    },
    async close() {
      for (const process of processes) process.signal("SIGKILL");
      await Promise.all(processes.map((process) => process.finished));
      await rm(folder, { recursive: true, force: true });
    },
  };
}
