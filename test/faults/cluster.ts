import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isNotFound } from "../../src/kubernetes/api-error.ts";
import type { KubernetesClient } from "../../src/kubernetes/client.ts";
import type { Lease } from "../../src/kubernetes/lease.ts";
import { connect, createNamespace, installCrd } from "../kubernetes/cluster.ts";
import { resolveOwnControlPlane } from "../kubernetes/control-plane.ts";
import { kubeconfigText, type OwnControlPlane } from "../kubernetes/own-control-plane.ts";
import { addressOf, startTcpProxy, type TcpProxy } from "../network/tcp-proxy.ts";
import { CONTROLLERS, PROCESSES, type ControllerName, type ProcessName } from "./fault-plan.ts";

/** The API server that a round damages, with a wire to it for each process. */
export interface FaultyCluster {
  /** The suite's own way in, past every fault but the server's. */
  client: KubernetesClient;
  namespace: { name: string; uid: string };
  wires: Readonly<Record<ProcessName, TcpProxy>>;
  /** What makes a process reach the API server by its wire, and its leader be found. */
  env: Readonly<Record<ProcessName, Record<string, string>>>;
  /** By the Lease; the last one known while nobody can be asked. */
  leader(): Promise<ControllerName | undefined>;
  /** kill -9, and again there after `seconds` and what it takes to start. */
  restart(seconds: number): Promise<void>;
  /** SIGSTOP … SIGCONT: connections stay, and nothing is answered. */
  stall(seconds: number): Promise<void>;
  close(): Promise<void>;
}

const LEASE = "carillon-faults";
const ASK_MS = 1_000;

/**
 * A control plane for the rounds of a run, with the CRD. Undefined when none can be had; faults are done to it, so a
 * cluster that is somebody else's will not do.
 */
export async function startFaultyControlPlane(
  say: (line: string) => void,
): Promise<OwnControlPlane | undefined> {
  const resolved = await resolveOwnControlPlane(say);
  if (resolved.kind === "missing") {
    for (const reason of resolved.reasons) say(`no control plane: ${reason}`);
    return undefined;
  }
  const started = await resolved.start();
  const client = connect(started.kubeconfig);
  await installCrd(client);
  await client.close();
  return started;
}

/** A namespace and wires for one round. What it leaves in the cluster is deleted at `close`. */
export async function startFaultyCluster(
  controlPlane: OwnControlPlane,
  directory: string,
): Promise<FaultyCluster> {
  const client = connect(controlPlane.kubeconfig);
  const namespace = await createNamespace(client, "faults");
  const wire = () => startTcpProxy({ target: () => addressOf(controlPlane.server) });
  const wires = {
    gateway: await wire(),
    "controller-a": await wire(),
    "controller-b": await wire(),
  };
  const envOf = async (name: ProcessName): Promise<Record<string, string>> => {
    const KUBECONFIG = join(directory, `${name}.kubeconfig`);
    const text = kubeconfigText({
      server: `https://127.0.0.1:${wires[name].port}`,
      ca: controlPlane.ca(),
      token: controlPlane.tokenFor(name, ["system:masters"]),
    });
    await writeFile(KUBECONFIG, text, { mode: 0o600 });
    return {
      CARILLON_JOB_STORE: "kubernetes",
      KUBECONFIG,
      POD_NAMESPACE: namespace.name,
      CARILLON_LEASE_NAME: LEASE,
    };
  };
  const env = {
    gateway: await envOf("gateway"),
    "controller-a": await envOf("controller-a"),
    "controller-b": await envOf("controller-b"),
  };
  let known: ControllerName | undefined;

  return {
    client,
    namespace,
    wires,
    env,
    leader: async () => {
      try {
        const { spec } = await client.call<Lease>({
          verb: "get",
          resource: "leases",
          path: `/apis/coordination.k8s.io/v1/namespaces/${namespace.name}/leases/${LEASE}`,
          timeoutMs: ASK_MS,
        });
        // POD_NAME, and what tells its lives apart.
        const holder = spec?.holderIdentity?.split("_")[0];
        known = CONTROLLERS.find((name) => name === holder) ?? known;
      } catch (error) {
        if (isNotFound(error)) return undefined;
        // The API server is away: that is this suite's own doing.
      }
      return known;
    },
    restart: async (seconds) => {
      await controlPlane.apiServer.stop("SIGKILL");
      await delay(seconds * 1_000);
      controlPlane.apiServer.start();
      await controlPlane.ready();
    },
    stall: async (seconds) => {
      controlPlane.apiServer.pause();
      await delay(seconds * 1_000);
      controlPlane.apiServer.resume();
    },
    close: async () => {
      await Promise.all(PROCESSES.map((name) => wires[name].close()));
      await client.call({
        verb: "delete",
        resource: "scheduledjobs",
        path: `/apis/carillon.dev/v1/namespaces/${namespace.name}/scheduledjobs`,
      });
      await client.close();
    },
  };
}
