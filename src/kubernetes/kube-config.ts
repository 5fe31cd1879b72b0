import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { KubeConfig } from "@kubernetes/client-node";

/**
 * Where the API server is and who we are, as client-go decides it: KUBECONFIG, else the pod's service
 * account, else ~/.kube/config. Undefined when there is none of them; throws when a file is not usable.
 */
export function loadKubeConfig(
  env: Readonly<Record<string, string | undefined>>,
): KubeConfig | undefined {
  const kubeConfig = new KubeConfig();
  if (env.KUBECONFIG) {
    kubeConfig.loadFromDefault();
    return kubeConfig;
  }
  if (env.KUBERNETES_SERVICE_HOST) {
    kubeConfig.loadFromCluster();
    return kubeConfig;
  }
  const own = join(homedir(), ".kube", "config");
  if (!existsSync(own)) return undefined;
  kubeConfig.loadFromFile(own);
  return kubeConfig;
}
