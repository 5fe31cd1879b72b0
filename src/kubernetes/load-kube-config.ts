import { KubeConfig } from "@kubernetes/client-node";

/** By kubectl's rules: KUBECONFIG, else ~/.kube/config, else the pod's service account. */
export function loadKubeConfig(): KubeConfig {
  const kubeConfig = new KubeConfig();
  kubeConfig.loadFromDefault();
  return kubeConfig;
}
