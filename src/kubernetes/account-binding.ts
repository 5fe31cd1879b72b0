import { InvalidInput } from "../domain/findings.ts";
import { NamespaceInUse } from "../domain/ports/accounts.ts";
import { ApiError } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import { listResourcesIfDefined } from "./list-resources.ts";
import { namespaceUid } from "./namespace-uid.ts";

/** What binding an account asks the cluster. Throws InvalidInput for a namespace that we may not look at. */
export function createAccountBinding({ client }: { client: Pick<KubernetesClient, "call"> }) {
  return {
    /** Empty before the namespace exists: the account is then bound to the first incarnation that is seen. */
    async uidOf(namespace: string): Promise<string> {
      return (await whereAllowed(namespace, () => namespaceUid(client, namespace))) ?? "";
    },

    /**
     * To be called before an account is bound elsewhere. Throws NamespaceInUse when ScheduledJobs would stay
     * behind without an account. A namespace that is gone, or was deleted and made again, has none of the
     * account's jobs.
     */
    async leave(namespace: string, uid: string | null): Promise<void> {
      const present = await whereAllowed(namespace, () => namespaceUid(client, namespace));
      if (present === undefined || (uid !== null && uid !== present)) return;
      if (await whereAllowed(namespace, () => hasJobs(namespace)))
        throw new NamespaceInUse(namespace);
    },
  };

  async function hasJobs(namespace: string): Promise<boolean> {
    const { items } = await listResourcesIfDefined(client, namespace, { limit: 1 });
    return items.length > 0;
  }
}

async function whereAllowed<T>(namespace: string, look: () => Promise<T>): Promise<T> {
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
