import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { KubeConfig, loadYaml } from "@kubernetes/client-node";

/** client-node's last resort, where no API server runs. */
const NOWHERE = "http://localhost:8080";

/** By kubectl's rules: KUBECONFIG, else ~/.kube/config, else the pod's service account, else undefined. */
export function loadKubeConfig(): KubeConfig | undefined {
  const kubeConfig = new KubeConfig();
  kubeConfig.loadFromDefault();
  if (kubeConfig.getCurrentCluster()?.server === NOWHERE) return undefined;
  const current = kubeConfig.getCurrentUser();
  const tokenFile = tokenFileOf(current?.name);
  const authProvider = { name: "tokenFile", config: { tokenFile } };
  if (tokenFile !== undefined)
    kubeConfig.users = kubeConfig.users.map((user) =>
      user === current ? { ...user, authProvider } : user,
    );
  return kubeConfig;
}

/** `tokenFile` of the user of that name. client-node reads it for pods only: other users would have no token. */
function tokenFileOf(name: string | undefined): string | undefined {
  const given = process.env.KUBECONFIG?.split(delimiter).filter((file) => file !== "") ?? [];
  for (const file of given.length > 0 ? given : [join(homedir(), ".kube", "config")]) {
    const user = usersIn(file).find((one) => one.name === name)?.user;
    if (user) return user.tokenFile && resolve(dirname(file), user.tokenFile);
  }
  return undefined;
}

interface NamedUser {
  name?: string;
  user?: { tokenFile?: string };
}

function usersIn(file: string): NamedUser[] {
  try {
    return loadYaml<{ users?: NamedUser[] }>(readFileSync(file, "utf8")).users ?? [];
  } catch {
    // In a pod there is no such file. Of a file that cannot be read client-node has complained.
    return [];
  }
}
