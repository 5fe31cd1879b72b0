import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { clientProgram } from "../kubernetes/binaries.ts";
import { announce } from "../kubernetes/control-plane.ts";
import { run } from "../kubernetes/run.ts";

export const CHART = join(import.meta.dirname, "../../charts/carillon");

export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
  };
  [field: string]: unknown;
}

/** Runs helm without the user's plugins, repositories and kubeconfig. */
export async function helm(args: readonly string[], kubeconfig = ""): Promise<string> {
  return run(await program("helm"), args, {
    env: { KUBECONFIG: kubeconfig, HELM_PLUGINS: "/nonexistent", NO_COLOR: "1" },
    timeout: 120_000,
  });
}

export async function kubectl(
  kubeconfig: string,
  args: readonly string[],
  input?: string,
): Promise<string> {
  return run(await program("kubectl"), ["--kubeconfig", kubeconfig, ...args], {
    timeout: 60_000,
    ...(input === undefined ? {} : { input }),
  });
}

/** The objects that `helm template` makes of the values. */
export async function render(
  values: Record<string, unknown>,
  options: { release?: string; namespace?: string } = {},
): Promise<KubernetesObject[]> {
  const { release = "carillon", namespace = "platform" } = options;
  const args = ["template", release, CHART, "--namespace", namespace];
  const text = await helm([...args, ...toSet(values)]);
  return parseAllDocuments(text)
    .map((document) => document.toJS() as KubernetesObject | null)
    .filter((object) => object !== null);
}

/** Values as arguments of helm. `--set-json` takes a whole object. */
export function toSet(values: Record<string, unknown>): string[] {
  return Object.keys(values).length === 0 ? [] : ["--set-json", JSON.stringify(values)];
}

async function program(name: "helm" | "kubectl"): Promise<string> {
  const found = await clientProgram(name, announce);
  if (found === undefined) throw new Error(`${name} is not on the PATH, and Go cannot build it`);
  return found;
}
