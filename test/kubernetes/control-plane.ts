/**
 * Finds a real kube-apiserver for the tests, in this order: a given cluster, envtest's programs, one built with Go, k3s
 * in Docker. Without any it says loudly that the Kubernetes tests do not run, which is an error under CI.
 */
import { join } from "node:path";
import { leaveOut } from "../leave-out.ts";
import { buildBinary, goToolchain, isExecutable } from "./binaries.ts";
import { startK3s } from "./k3s.ts";
import { startOwnControlPlane, type OwnControlPlane } from "./own-control-plane.ts";

/** A cluster that others may use, too: tests must not damage it. */
export interface BorrowedControlPlane {
  kind: "borrowed";
  kubeconfig: string;
  stop(): Promise<void>;
}

export type ControlPlane = OwnControlPlane | BorrowedControlPlane;

type Resolved<T extends ControlPlane> =
  { kind: "found"; how: string; start(): Promise<T> } | { kind: "missing"; reasons: string[] };

type Say = (line: string) => void;

/** `say` is told about everything that takes long. */
async function resolveControlPlane(say: Say): Promise<Resolved<ControlPlane>> {
  const given = process.env.CARILLON_TEST_KUBECONFIG;
  if (given) {
    return {
      kind: "found",
      how: `the cluster of CARILLON_TEST_KUBECONFIG (${given})`,
      start: async () => ({ kind: "borrowed", kubeconfig: given, stop: leaveIt }),
    };
  }
  const own = await resolveOwnControlPlane(say);
  if (own.kind === "found") return own;
  const k3s = await startK3s();
  if (k3s.kind === "found") return k3s;
  const reasons = ["CARILLON_TEST_KUBECONFIG is not set", ...own.reasons, k3s.reason];
  return { kind: "missing", reasons };
}

/** The same, but only one that tests may damage. */
export async function resolveOwnControlPlane(say: Say): Promise<Resolved<OwnControlPlane>> {
  const reasons: string[] = [];
  const assets = process.env.KUBEBUILDER_ASSETS;
  if (assets) {
    const programs = { apiServer: join(assets, "kube-apiserver"), etcd: join(assets, "etcd") };
    if ((await isExecutable(programs.apiServer)) && (await isExecutable(programs.etcd))) {
      const start = () => startOwnControlPlane(programs);
      return { kind: "found", how: `KUBEBUILDER_ASSETS (${assets})`, start };
    }
    reasons.push(`KUBEBUILDER_ASSETS (${assets}) has no kube-apiserver and etcd`);
  } else {
    reasons.push("KUBEBUILDER_ASSETS is not set");
  }

  const toolchain = await goToolchain();
  if ("go" in toolchain) {
    const start = async () => {
      const etcd = await buildBinary("etcd", toolchain.go, say);
      const apiServer = await buildBinary("kube-apiserver", toolchain.go, say);
      return startOwnControlPlane({ apiServer, etcd });
    };
    return { kind: "found", how: "kube-apiserver and etcd built from Go modules", start };
  }
  reasons.push(toolchain.missing);
  return { kind: "missing", reasons };
}

async function leaveIt(): Promise<void> {}

/** Starts what was found. Undefined when nothing was, after saying so loudly; throws under CI=true. */
export async function startControlPlane(say: Say = announce): Promise<ControlPlane | undefined> {
  const resolved = await resolveControlPlane(say);
  if (resolved.kind === "missing") {
    const message = [
      "the Kubernetes tests, because no control plane can be had.",
      ...resolved.reasons.map((reason) => `  - ${reason}`),
      "  Any one of these is enough: a kubeconfig, envtest's programs, Go 1.26, Docker.",
    ].join("\n");
    leaveOut(message, say);
    return undefined;
  }
  const began = performance.now();
  const controlPlane = await resolved.start();
  say(`${resolved.how}: up after ${((performance.now() - began) / 1000).toFixed(1)} s`);
  return controlPlane;
}

/** Starts one more, for a test to damage. There is one if `tokenSecret` is provided. */
export async function anotherControlPlane(): Promise<OwnControlPlane> {
  const resolved = await resolveOwnControlPlane(() => undefined);
  if (resolved.kind === "missing") throw new Error(resolved.reasons.join("\n"));
  return resolved.start();
}

/** kube-controller-manager for tests of garbage collection and namespace deletion. */
export async function controllerManagerProgram(): Promise<string | undefined> {
  const assets = process.env.KUBEBUILDER_ASSETS;
  if (assets && (await isExecutable(join(assets, "kube-controller-manager"))))
    return join(assets, "kube-controller-manager");
  const toolchain = await goToolchain();
  return "go" in toolchain
    ? buildBinary("kube-controller-manager", toolchain.go, announce)
    : undefined;
}

export function announce(line: string): void {
  process.stderr.write(`control plane: ${line}\n`);
}
