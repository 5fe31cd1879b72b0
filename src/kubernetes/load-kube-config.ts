import { KubeConfig } from "@kubernetes/client-node";

/** client-node's last resort: nobody runs an API server there. */
const NOWHERE = "http://localhost:8080";

/** By kubectl's rules: KUBECONFIG, else ~/.kube/config, else the pod's service account, else undefined. */
export function loadKubeConfig(): KubeConfig | undefined {
  const kubeConfig = new KubeConfig();
  kubeConfig.loadFromDefault();
  return kubeConfig.getCurrentCluster()?.server === NOWHERE ? undefined : kubeConfig;
}
