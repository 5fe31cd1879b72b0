import type { TestProject } from "vitest/node";
import { leaveOut } from "../leave-out.ts";
import { clientProgram } from "./binaries.ts";
import { announce, controllerManagerProgram, startControlPlane } from "./control-plane.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** Empty when there is no control plane: the Kubernetes tests are skipped. */
    kubeconfig: string;
    /** For `createTokenSigner`. Empty for a borrowed cluster: tests that damage theirs are skipped. */
    tokenSecret: string;
  }
}

/** One control plane for all files of the project. Files that damage one start their own. */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const controlPlane = await startControlPlane();
  if (controlPlane) await preparePrograms();
  if (controlPlane?.kind === "borrowed") {
    const what =
      "tests that break a control plane, because this one is not ours. They need envtest's programs or Go 1.26, and no CARILLON_TEST_KUBECONFIG.";
    try {
      leaveOut(what, announce);
    } catch (error) {
      await controlPlane.stop();
      throw error;
    }
  }
  project.provide("kubeconfig", controlPlane?.kubeconfig ?? "");
  project.provide("tokenSecret", controlPlane?.kind === "own" ? controlPlane.tokenSecret : "");
  return controlPlane && (() => controlPlane.stop());
}

/** Builds the programs that single tests run: the first build takes longer than a test may. */
async function preparePrograms(): Promise<void> {
  await controllerManagerProgram();
  for (const name of ["kubectl", "helm", "prometheus-check"] as const)
    await clientProgram(name, announce);
}
