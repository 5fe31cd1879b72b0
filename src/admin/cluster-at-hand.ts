import type { Account } from "../domain/account.ts";
import { isNamespaceName } from "../domain/kubernetes-name.ts";
import { JobsLeft } from "../domain/ports/accounts.ts";
import { CommandFailed, type AdminStores } from "./command.ts";

/** `none`: jobs do not live in a cluster. `unnamed`: they may, but nothing says in which. */
export type AtHand = "none" | "named" | "unnamed";

/** `named`: the environment has a kubeconfig, or is a pod's. */
export function clusterAtHand(environment: {
  jobStore: "kubernetes" | "postgres" | undefined;
  databaseUrl: string | undefined;
  named: boolean;
}): AtHand {
  const { jobStore, databaseUrl, named } = environment;
  if (jobStore === "postgres") return "none";
  // Not whatever cluster a developer's own configuration happens to name.
  if (jobStore === "kubernetes" || named) return "named";
  // Without a URL it is a standalone's database, and standalone keeps its jobs there.
  return databaseUrl === undefined ? "none" : "unnamed";
}

/** What a cluster that is at hand is asked. Each throws when it cannot be. */
export interface ClusterQuestions {
  /** Undefined: there is none of that name. */
  namespaceUid(namespace: string): Promise<string | undefined>;
  /** Throws NamespaceInUse when ScheduledJobs would stay behind without an account. */
  leave(namespace: string, uid: string | null): Promise<void>;
  deleteAccount(id: string, remove: () => Promise<void>): Promise<JobsLeft | undefined>;
}

/** What becomes of accounts and their namespaces, whether or not the cluster is at hand. */
export interface AccountsInCluster {
  /**
   * As of `AdminStores`, whatever the API server answers or does not: an operator may bind a namespace from anywhere. Only
   * one that this installation does not serve is refused, as far as is known here.
   */
  namespaceUid: AdminStores["namespaceUid"];
  /** Not from anywhere, though: where jobs may be left behind, the cluster has to say that there are none. */
  leave: ClusterQuestions["leave"];
  /** Whatever the API server answers or does not, the account goes: what may be left of it is said. */
  delete(
    account: Pick<Account, "id" | "namespace">,
    remove: () => Promise<void>,
  ): Promise<string | undefined>;
}

export function createAccountsInCluster(options: {
  atHand: AtHand;
  cluster: ClusterQuestions;
  /** None: all. */
  watchNamespaces: readonly string[];
  /** A line for people. */
  say: (line: string) => void;
}): AccountsInCluster {
  const { atHand, cluster, watchNamespaces, say } = options;
  return {
    namespaceUid: async (namespace) => {
      // Refused when it is written: nobody need be asked for it.
      if (!isNamespaceName(namespace)) return "";
      if (atHand !== "none" && watchNamespaces.length > 0 && !watchNamespaces.includes(namespace))
        throw new CommandFailed(
          `the namespace ${namespace} is none that is served: its jobs would never run; add it to CARILLON_WATCH_NAMESPACES (${watchNamespaces.join(", ")}) first`,
        );
      if (atHand === "none")
        say(
          "this installation keeps its jobs in PostgreSQL; a namespace counts only where they are ScheduledJobs",
        );
      if (atHand !== "named") return "";
      try {
        return (await cluster.namespaceUid(namespace)) ?? "";
      } catch (error) {
        const reason = error instanceof Error ? error.message : "no answer";
        say(`bound by name alone, the cluster was not asked: ${reason}`);
        return "";
      }
    },

    leave: async (namespace, uid) => {
      switch (atHand) {
        case "none":
          return;
        case "named":
          await cluster.leave(namespace, uid);
          return;
        case "unnamed":
          throw new CommandFailed(
            `whether the namespace ${namespace}, which the account would leave, still has ScheduledJobs cannot be seen from here: set KUBECONFIG, or run this in the cluster (kubectl exec deploy/carillon-gateway -- carillon admin …); set CARILLON_JOB_STORE=postgres if jobs are not kept in Kubernetes`,
          );
      }
    },

    delete: async ({ id, namespace }, remove) => {
      if (namespace === null || atHand === "none") {
        await remove();
        return undefined;
      }
      if (atHand === "unnamed") {
        await remove();
        return `${new JobsLeft(namespace).message}; they cannot be seen from here without KUBECONFIG`;
      }
      const left = await cluster.deleteAccount(id, remove);
      if (left === undefined) return undefined;
      return `${left.message}; ${left.cause instanceof Error ? left.cause.message : "no answer"}`;
    },
  };
}
