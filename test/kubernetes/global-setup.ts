import type { TestProject } from "vitest/node";
import { startControlPlane } from "./control-plane.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** Empty when no control plane can be had: the Kubernetes tests skip. */
    kubeconfig: string;
    /** For `createTokenSigner`; empty when the cluster is not ours. */
    tokenSecret: string;
  }
}

/** One control plane for all files of the project; files that break it start one of their own. */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const controlPlane = await startControlPlane();
  project.provide("kubeconfig", controlPlane?.kubeconfig ?? "");
  project.provide("tokenSecret", controlPlane?.kind === "own" ? controlPlane.tokenSecret : "");
  return controlPlane && (() => controlPlane.stop());
}
