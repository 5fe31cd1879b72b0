import type { Account } from "../domain/account.ts";
import { isNamespaceName } from "../domain/kubernetes-name.ts";
import { JobsLeft } from "../domain/ports/accounts.ts";
import { CommandFailed, type AdminStores } from "./command.ts";

/** Which cluster the jobs are in. `none`: they are not in a cluster. `unnamed`: they may be, but none is named. */
export type ConfiguredCluster = "none" | "named" | "unnamed";

/** `named`: the environment has a kubeconfig, or is a pod's. */
export function configuredCluster(environment: {
  jobStore: "kubernetes" | "postgres" | undefined;
  databaseUrl: string | undefined;
  named: boolean;
}): ConfiguredCluster {
  const { jobStore, databaseUrl, named } = environment;
  if (jobStore === "postgres") return "none";
  // `named` says so for KUBECONFIG and pods only: a developer's ~/.kube/config may name any cluster.
  if (jobStore === "kubernetes" || named) return "named";
  // Without a URL it is a standalone's database, and standalone keeps its jobs there.
  return databaseUrl === undefined ? "none" : "unnamed";
}

/** The questions to a cluster that is at hand. Each throws when the cluster cannot be asked. */
export interface ClusterQuestions {
  /** Undefined: there is none of that name. */
  namespaceUid(namespace: string): Promise<string | undefined>;
  /** Throws NamespaceInUse when ScheduledJobs would stay behind without an account. */
  leave(namespace: string, uid: string | null): Promise<void>;
  deleteAccount(id: string, remove: () => Promise<void>): Promise<JobsLeft | undefined>;
}

/** What admin commands do with accounts and their namespaces, whether or not the cluster is at hand. */
export interface AccountsInCluster {
  /**
   * See `AdminStores`. An operator may bind a namespace from anywhere, so that it makes no difference whether the API
   * server answers. Throws CommandFailed only for a namespace that this installation is known not to serve.
   */
  namespaceUid: AdminStores["namespaceUid"];
  /** Needs the cluster's answer: it has to say that no jobs would be left behind. */
  leave: ClusterQuestions["leave"];
  /** Deletes the account whether or not the API server answers. Resolves with a note about what may be left. */
  delete(
    account: Pick<Account, "id" | "namespace">,
    remove: () => Promise<void>,
  ): Promise<string | undefined>;
}

export function createAccountsInCluster(options: {
  configured: ConfiguredCluster;
  cluster: ClusterQuestions;
  /** Empty: all namespaces. */
  watchNamespaces: readonly string[];
  /** Writes a line for people. */
  say: (line: string) => void;
}): AccountsInCluster {
  const { configured, cluster, watchNamespaces, say } = options;
  return {
    namespaceUid: async (namespace) => {
      // The store refuses such a name: the cluster need not be asked.
      if (!isNamespaceName(namespace)) return "";
      if (
        configured !== "none" &&
        watchNamespaces.length > 0 &&
        !watchNamespaces.includes(namespace)
      )
        throw new CommandFailed(
          `the namespace ${namespace} is none that is served: its jobs would never run; add it to CARILLON_WATCH_NAMESPACES (${watchNamespaces.join(", ")}) first`,
        );
      if (configured === "none")
        say(
          "this installation keeps its jobs in PostgreSQL; a namespace counts only where they are ScheduledJobs",
        );
      if (configured !== "named") return "";
      try {
        const uid = await cluster.namespaceUid(namespace);
        if (uid === undefined)
          say(
            `there is no namespace ${namespace} yet: create it, or bind the account to another one`,
          );
        return uid ?? "";
      } catch (error) {
        const reason = error instanceof Error ? error.message : "no answer";
        say(`bound by name alone, the cluster was not asked: ${reason}`);
        return "";
      }
    },

    leave: async (namespace, uid) => {
      switch (configured) {
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
      if (namespace === null || configured === "none") {
        await remove();
        return undefined;
      }
      if (configured === "unnamed") {
        await remove();
        return `${new JobsLeft(namespace).message}; they cannot be seen from here without KUBECONFIG`;
      }
      const left = await cluster.deleteAccount(id, remove);
      if (left === undefined) return undefined;
      return `${left.message}; ${left.cause instanceof Error ? left.cause.message : "no answer"}`;
    },
  };
}
