/** An installation as the chart makes it, its processes on this machine instead of in pods. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CHART, helm, kubectl, toSet } from "../../charts/chart.ts";
import type { OwnControlPlane } from "../../kubernetes/own-control-plane.ts";
import { kubeconfigText } from "../../kubernetes/own-control-plane.ts";
import type { TestDatabase } from "../../postgres/database.ts";
import { until } from "../../until.ts";
import { run, type Program } from "../program.ts";

export const HOME = "carillon";
export const TEAM = "team-a";
const KEYS = `k1:${Buffer.alloc(32, 7).toString("base64")}`;

export interface Process extends Program {
  name: string;
  /** Ends it in order, or as a power cut does. */
  end(signal?: "SIGTERM" | "SIGKILL"): Promise<number | null>;
}

export interface Installation {
  kube(args: string, input?: string): Promise<string>;
  /** `carillon admin …`. */
  admin(args: string, input?: string): Promise<string>;
  migrate(env?: Record<string, string>): Promise<{ code: number | null; said: string }>;
  gateway(name: string): Promise<Process & { url: string }>;
  controller(name: string): Promise<Process>;
  uninstall(): Promise<void>;
  close(): Promise<void>;
}

/** Installs the chart; every process gets a token of its own service account, and no other right. */
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

  const common = (part: "gateway" | "controller", name: string) => ({
    KUBECONFIG: identities[part],
    DATABASE_URL: database.url,
    CARILLON_ENCRYPTION_KEYS: KEYS,
    CARILLON_HOST: "127.0.0.1",
    PORT: "0",
    CARILLON_METRICS_PORT: "0",
    CARILLON_ALLOW_DESTINATIONS: "127.0.0.0/8",
    CARILLON_HEADER_SECRET_NAMESPACES: TEAM,
    CARILLON_LEASE_NAME: "carillon-controller",
    CARILLON_LOG_FORMAT: "json",
    POD_NAMESPACE: HOME,
    POD_NAME: name,
  });

  async function start(part: "gateway" | "controller", name: string): Promise<Process> {
    const program = run(part, { env: common(part, name) });
    let ended = false;
    void program.finished.then(() => (ended = true));
    const process: Process = {
      ...program,
      name,
      async end(signal = "SIGTERM") {
        program.signal(signal);
        return (await program.finished).code;
      },
    };
    processes.push(process);
    await until(
      `${name} is ready`,
      () => {
        if (ended) throw new Error(`${name} ended: ${program.stdout()}${program.stderr()}`);
        return logged(program, "ready");
      },
      60_000,
    );
    return process;
  }

  return {
    kube,
    async admin(args, input) {
      const { code, stdout, stderr } = await run("cli", {
        args: ["admin", ...args.split(" ")],
        env: { DATABASE_URL: database.url, CARILLON_ENCRYPTION_KEYS: KEYS },
        ...(input === undefined ? {} : { input }),
      }).finished;
      if (code !== 0) throw new Error(`carillon admin ${args}: ${stderr}`);
      return stdout.trim();
    },
    async migrate(env = {}) {
      const { code, stdout, stderr } = await run("migrate", {
        env: { KUBECONFIG: identities.gateway, DATABASE_URL: database.url, ...env },
      }).finished;
      return { code, said: stdout + stderr };
    },
    async gateway(name) {
      const process = await start("gateway", name);
      return { ...process, url: logged(process, "ready")?.url ?? "" };
    },
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

/** The first line of the JSON log with that message. */
function logged(program: Program, message: string): { url?: string } | undefined {
  for (const line of program.stdout().split("\n")) {
    if (!line.includes(`"msg":"${message}"`)) continue;
    return JSON.parse(line) as { url?: string };
  }
  return undefined;
}
