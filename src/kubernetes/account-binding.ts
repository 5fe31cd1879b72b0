import { InvalidInput } from "../domain/findings.ts";
import { NamespaceInUse } from "../domain/ports/accounts.ts";
import { ApiError } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import { listResourcesIfDefined } from "./list-resources.ts";
import { namespaceUid } from "./namespace-uid.ts";

/** The looks at the cluster that binding an account takes. What we may not see throws InvalidInput. */
export function createAccountBinding({ client }: { client: Pick<KubernetesClient, "call"> }) {
  return {
    /** Empty before the namespace exists: then the first incarnation that is seen is bound. */
    async uidOf(namespace: string): Promise<string> {
      return (await seen(namespace, () => namespaceUid(client, namespace))) ?? "";
    },

    /**
     * Throws NamespaceInUse when ScheduledJobs would stay behind without an account. A namespace that is
     * gone, or was made again under its name, holds nothing of the account.
     */
    async leave(namespace: string, uid: string | null): Promise<void> {
      const present = await seen(namespace, () => namespaceUid(client, namespace));
      if (present === undefined || (uid !== null && uid !== present)) return;
      if (await seen(namespace, () => hasJobs(namespace))) throw new NamespaceInUse(namespace);
    },
  };

  async function hasJobs(namespace: string): Promise<boolean> {
    const { items } = await listResourcesIfDefined(client, namespace, { limit: 1 });
    return items.length > 0;
  }
}

async function seen<T>(namespace: string, look: () => Promise<T>): Promise<T> {
  try {
    return await look();
  } catch (error) {
    if (!(error instanceof ApiError) || (error.code !== 401 && error.code !== 403)) throw error;
    throw new InvalidInput([
      {
        field: "namespace",
        message: `${namespace} cannot be looked at, which binding needs (${error.message}): serve it (CARILLON_WATCH_NAMESPACES), or bind on the command line with rights to get the namespace and list its ScheduledJobs`,
      },
    ]);
  }
}
