/**
 * Programs that the Kubernetes tests need. They are built once from Go modules whose go.sum pins every byte, and kept
 * outside the checkout.
 */
import { createHash } from "node:crypto";
import { access, mkdir, mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { constants } from "node:fs";
import { availableParallelism, homedir } from "node:os";
import { delimiter, join } from "node:path";
import { run } from "./run.ts";

export type Binary =
  "kube-apiserver" | "etcd" | "kube-controller-manager" | "kubectl" | "helm" | "prometheus-check";

interface Recipe {
  module: "kubernetes" | "etcd" | "helm" | "prometheus";
  package: string;
  /** How many minutes the first build takes, with a cold cache on 2 cores. */
  minutes: number;
}

const RECIPES: Record<Binary, Recipe> = {
  "kube-apiserver": {
    module: "kubernetes",
    package: "k8s.io/kubernetes/cmd/kube-apiserver",
    minutes: 7,
  },
  "kube-controller-manager": {
    module: "kubernetes",
    package: "k8s.io/kubernetes/cmd/kube-controller-manager",
    minutes: 2,
  },
  kubectl: { module: "kubernetes", package: "k8s.io/kubernetes/cmd/kubectl", minutes: 1 },
  etcd: { module: "etcd", package: "go.etcd.io/etcd/server/v3", minutes: 1 },
  "prometheus-check": { module: "prometheus", package: ".", minutes: 1 },
  helm: { module: "helm", package: "helm.sh/helm/v4/cmd/helm", minutes: 4 },
};

const MODULES = join(import.meta.dirname, "..", "control-plane");

/** Where built programs are kept: outside the checkout, so that a new clone finds them. */
function cacheFolder(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "carillon", "control-plane");
}

/** The first program of that name on PATH. */
async function onPath(name: string): Promise<string | undefined> {
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    if (folder !== "" && (await isExecutable(join(folder, name)))) return join(folder, name);
  }
  return undefined;
}

/** A Go toolchain new enough for Kubernetes 1.36, or why there is none. */
export async function goToolchain(): Promise<{ go: string } | { missing: string }> {
  const go = await onPath("go");
  if (go === undefined) return { missing: "Go is not on the PATH" };
  const version = (await run(go, ["env", "GOVERSION"], { cwd: join(MODULES, "etcd") })).trim();
  const [, major, minor] = /^go(\d+)\.(\d+)/.exec(version) ?? [];
  if (Number(major) > 1 || (Number(major) === 1 && Number(minor) >= 26)) return { go };
  return { missing: `${version} is older than Go 1.26` };
}

/**
 * The program's path; builds it if it is not in the cache. `say` is told what takes long and why. Throws with the
 * compiler's words when it cannot be built.
 */
export async function buildBinary(
  name: Binary,
  go: string,
  say: (line: string) => void,
): Promise<string> {
  const recipe = RECIPES[name];
  const folder = join(MODULES, recipe.module);
  const mod = await readFile(join(folder, "go.mod"), "utf8");
  const sum = await readFile(join(folder, "go.sum"), "utf8");
  const key = createHash("sha256").update(mod).update(sum).digest("hex").slice(0, 16);
  const home = join(cacheFolder(), `${recipe.module}-${key}`);
  const path = join(home, name);
  if (await isExecutable(path)) return path;

  await mkdir(home, { recursive: true });
  // Built elsewhere and then renamed, so that two test runs that build at the same time never see half a program.
  const aside = await mkdtemp(join(home, ".build-"));
  const began = performance.now();
  const elapsed = () => `${Math.round((performance.now() - began) / 1000)} s`;
  say(`building ${name} from Go modules (about ${recipe.minutes} min on 2 cores the first time)`);
  const progress = setInterval(() => say(`still building ${name}: ${elapsed()}`), 30_000);
  try {
    const args = ["build", "-trimpath", "-ldflags", linkFlags(recipe.module, mod)];
    args.push("-o", join(aside, name), recipe.package);
    await run("nice", [go, ...args], {
      cwd: folder,
      env: { CGO_ENABLED: "0", GOFLAGS: "-mod=readonly", GOMAXPROCS: `${availableParallelism()}` },
    });
    await rename(join(aside, name), path);
  } finally {
    clearInterval(progress);
    await rm(aside, { recursive: true, force: true });
  }
  say(`built ${name} in ${elapsed()}, kept in ${home}`);
  return path;
}

/** Makes the linker set the program's version: kubectl refuses an API server that does not know its version. */
function linkFlags(module: Recipe["module"], mod: string): string {
  const strip = "-s -w";
  if (module === "kubernetes") {
    const [, version, major, minor] = /k8s\.io\/kubernetes (v(\d+)\.(\d+)\.\S+)/.exec(mod) ?? [];
    if (version === undefined)
      throw new Error("test/control-plane: no k8s.io/kubernetes in go.mod");
    const at = "k8s.io/component-base/version";
    return `${strip} -X ${at}.gitVersion=${version} -X ${at}.gitMajor=${major} -X ${at}.gitMinor=${minor} -X ${at}.gitTreeState=clean`;
  }
  if (module === "helm") {
    const [, version] = /helm\.sh\/helm\/v4 (v\S+)/.exec(mod) ?? [];
    return `${strip} -X helm.sh/helm/v4/internal/version.version=${version}`;
  }
  return strip;
}

export async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** The installed program, or else a built one; undefined when it can neither be found nor built. */
export async function clientProgram(
  name: "kubectl" | "helm" | "prometheus-check",
  say: (line: string) => void,
): Promise<string | undefined> {
  const installed = await onPath(name);
  if (installed !== undefined) return installed;
  const toolchain = await goToolchain();
  return "go" in toolchain ? buildBinary(name, toolchain.go, say) : undefined;
}
