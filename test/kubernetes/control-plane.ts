/**
 * Finds a real kube-apiserver for the tests, in this order: a cluster that was given, envtest's
 * programs, Docker, Go; else says loudly that the Kubernetes tests do not run (an error under CI).
 */
import { join } from "node:path";
import { buildBinary, goToolchain, isExecutable } from "./binaries.ts";
import { startK3s } from "./k3s.ts";
import { startOwnControlPlane } from "./own-control-plane.ts";
import type { OwnControlPlane } from "./own-control-plane.ts";

/** A cluster that is not ours alone: no faults can be made in it. */
export interface BorrowedControlPlane {
  kind: "borrowed";
  kubeconfig: string;
  stop(): Promise<void>;
}

export type ControlPlane = OwnControlPlane | BorrowedControlPlane;

export type Resolved =
  | { kind: "found"; how: string; start(): Promise<ControlPlane> }
  | { kind: "missing"; reasons: string[] };

/** `say` hears about everything that takes longer than a moment. */
export async function resolveControlPlane(say: (line: string) => void): Promise<Resolved> {
  const reasons: string[] = [];

  const given = process.env.CARILLON_TEST_KUBECONFIG;
  if (given) {
    return {
      kind: "found",
      how: `the cluster of CARILLON_TEST_KUBECONFIG (${given})`,
      start: async () => ({ kind: "borrowed", kubeconfig: given, stop: leaveIt }),
    };
  }
  reasons.push("CARILLON_TEST_KUBECONFIG is not set");

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

  const k3s = await startK3s();
  if (k3s.kind === "found") return k3s;
  reasons.push(k3s.reason);

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

/** Starts what was found; undefined after a loud word when nothing was, an error under CI=true. */
export async function startControlPlane(
  say: (line: string) => void = announce,
): Promise<ControlPlane | undefined> {
  const resolved = await resolveControlPlane(say);
  if (resolved.kind === "missing") {
    const message = [
      "NO KUBERNETES TESTS: no control plane can be had.",
      ...resolved.reasons.map((reason) => `  - ${reason}`),
      "  Any one of these is enough: a kubeconfig, envtest's programs, Docker, Go 1.26.",
    ].join("\n");
    if (process.env.CI === "true") throw new Error(message);
    say(message);
    return undefined;
  }
  const began = performance.now();
  const controlPlane = await resolved.start();
  say(`${resolved.how}: up after ${((performance.now() - began) / 1000).toFixed(1)} s`);
  return controlPlane;
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
