import { JobsLeft, type Accounts } from "../domain/ports/accounts.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import { JOBS_PER_PAGE } from "../domain/ports/job-store.ts";
import type { KubernetesClient } from "./client.ts";
import { deleteResource } from "./delete-resource.ts";
import { allPages, listResourcesIfDefined } from "./list-resources.ts";
import { namespaceUid } from "./namespace-uid.ts";
import { MANAGED_BY, MANAGED_BY_LABEL, isMadeByRest } from "./resource-owner.ts";
import type { ObjectMeta } from "./scheduled-job.ts";

type Client = Pick<KubernetesClient, "call">;

export interface AccountDeletionDependencies {
  client: Client;
  accounts: Pick<Accounts, "get" | "byNamespace">;
}

/** Deletions in flight: the API server's other clients must not suffer. */
const AT_ONCE = 8;
/** An API server that hangs must not hold up the deletion of the account itself for long. */
const LOOK_MS = 5_000;

type Resource = Pick<ObjectMeta, "name" | "uid">;

/**
 * Deletes an account by `remove`, and then the resources that REST made for it: left behind, they would run
 * for the account that the namespace is bound to next. Resources that others applied stay, without an account.
 * The account goes first, so that nothing runs even if the resources cannot be deleted. Nobody can say afterwards
 * which namespace it had: namespace and resources are read before.
 */
export function createAccountDeletion({ client, accounts }: AccountDeletionDependencies) {
  return async (id: string, remove: () => Promise<void>): Promise<JobsLeft | undefined> => {
    const account = await accounts.get(id);
    if (!account || account.deletedAt !== null || account.namespace === null) {
      await remove();
      return undefined;
    }
    const { namespace, namespaceUid: bound } = account;
    let [own, trouble]: [readonly Resource[], unknown] = [[], undefined];
    try {
      const hasty: Client = { call: (call) => client.call({ ...call, timeoutMs: LOOK_MS }) };
      own = (await listMadeByRest(hasty, namespace, bound)).resources;
    } catch (error) {
      trouble = error;
    }
    await remove();
    try {
      const { uid, resources } = await listMadeByRest(client, namespace, bound);
      // The second list also has what was made meanwhile. The binding is read after it: an account bound later has made
      // nothing that is on the list. If one is bound already, only the first list is known to be ours.
      if (uid === undefined || (await accounts.byNamespace(namespace, uid)) === undefined)
        [own, trouble] = [resources, undefined];
    } catch (error) {
      trouble = error;
    }
    trouble = (await deleteAll(namespace, own)) ?? trouble;
    return trouble === undefined ? undefined : new JobsLeft(namespace, { cause: trouble });
  };

  /** Resolves with the first error, if there is one. The others are still deleted, unless nobody answers. */
  async function deleteAll(namespace: string, resources: readonly Resource[]): Promise<unknown> {
    const rest = [...resources];
    let first: unknown;
    const worker = async () => {
      for (let next = rest.pop(); next; next = rest.pop())
        try {
          await deleteResource(client, namespace, next);
        } catch (error) {
          first ??= error;
          if (error instanceof DependencyUnavailable) rest.length = 0;
        }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    return first;
  }
}

/** What REST made in the namespace; nothing when that is gone, or is not the incarnation `bound`. */
async function listMadeByRest(
  client: Client,
  namespace: string,
  bound: string | null,
): Promise<{ uid: string | undefined; resources: Resource[] }> {
  const uid = await namespaceUid(client, namespace);
  const resources: Resource[] = [];
  if (uid === undefined || (bound !== null && bound !== uid)) return { uid, resources };
  const labelSelector = `${MANAGED_BY_LABEL}=${MANAGED_BY}`;
  const read = (token: string | undefined) =>
    listResourcesIfDefined(client, namespace, {
      limit: JOBS_PER_PAGE,
      continue: token,
      labelSelector,
    });
  for await (const { items } of allPages(read))
    for (const { metadata } of items)
      if (isMadeByRest(metadata)) resources.push({ name: metadata.name, uid: metadata.uid });
  return { uid, resources };
}
