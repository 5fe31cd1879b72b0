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

/** The API server that a round damages, and a wire to it for each process. */
export interface FaultyCluster {
  /** The suite's own client, past the wires: only faults of the server itself affect it. */
  client: KubernetesClient;
  namespace: { name: string; uid: string };
  wires: Readonly<Record<ProcessName, TcpProxy>>;
  /** Settings that make a process use its wire to the API server, and the Lease by which its leader is found. */
  env: Readonly<Record<ProcessName, Record<string, string>>>;
  /** The holder of the Lease; while the API server does not answer, the last one known. */
  leader(): Promise<ControllerName | undefined>;
  /** kill -9, and a new start after `seconds`. Resolves when it is ready. */
  restart(seconds: number): Promise<void>;
  /** SIGSTOP … SIGCONT: connections stay, and nothing is answered. */
  stall(seconds: number): Promise<void>;
  close(): Promise<void>;
}

const LEASE = "carillon-faults";
const ASK_MS = 1_000;

/**
 * A control plane with the CRD, for all rounds of the suite. It must be one of its own, because it is damaged.
 * Undefined when none can be started.
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

/** A namespace and wires for one round. `close` deletes the round's jobs. */
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
        // The identity is POD_NAME, and a part that differs with each start.
        const holder = spec?.holderIdentity?.split("_")[0];
        known = CONTROLLERS.find((name) => name === holder) ?? known;
      } catch (error) {
        if (isNotFound(error)) return undefined;
        // The API server does not answer: the suite itself damages it.
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
