import type { Job } from "../domain/job.ts";
import type { AccountNamespaces } from "../domain/ports/account-namespaces.ts";
import type { JobPage } from "../domain/ports/job-store.ts";
import type { ApiError } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import type { ResourceList } from "./list-resources.ts";
import type { ResourceMemory } from "./resource-memory.ts";
import { keptJobFromResource } from "./scheduled-job.ts";
import { decodePosition, encodePosition, type Scope } from "./scope.ts";
import { isRefusal, isUnlisted, whyUnlisted, type Unlisted } from "./unlisted.ts";

export interface JobListDependencies {
  client: Pick<KubernetesClient, "call">;
  accountNamespaces: AccountNamespaces;
  scopes: readonly Scope[];
  memory?: Pick<ResourceMemory, "seen">;
  /** One page of the API server's own. */
  listPage: (
    scope: Scope,
    limit: number,
    continuation: string | undefined,
  ) => Promise<ResourceList>;
}

/** The jobs of all accounts, as a controller reads them before it watches. */
export function createJobList(dependencies: JobListDependencies): {
  list(limit: number, continuation: string | undefined): Promise<JobPage>;
  /** The bindings under which the last list began, which a watch is going to follow. */
  listedUnder(): string | undefined;
} {
  const { client, accountNamespaces, scopes, memory, listPage } = dependencies;
  let listedUnder: string | undefined;

  /**
   * With whose the jobs are, which a namespace that refuses to be looked at does not tell either. The whole cluster can be
   * listed, or nothing can; of several namespaces one may be away.
   */
  async function listScope(
    scope: Scope,
    limit: number,
    continuation: string | undefined,
  ): Promise<
    | { page: ResourceList; accounts: readonly (string | null)[] }
    | { unlisted: Unlisted; error: ApiError }
  > {
    try {
      const page = await listPage(scope, limit, continuation);
      page.items = page.items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
      // All at once: one behind the other, a page of many namespaces takes longer than its reader is patient.
      const accounts = await Promise.all(
        page.items.map(({ metadata }) => accountNamespaces.accountOf(metadata.namespace)),
      );
      return { page, accounts };
    } catch (error) {
      if (scope === undefined || !isRefusal(error)) throw error;
      return { unlisted: await whyUnlisted(client, scope), error };
    }
  }

  /**
   * Every job, in the order of the store: pages are the API server's own, of one snapshot. A namespace
   * that was deleted has no jobs. One that is there and refuses is left out, and the page says so: whoever
   * administers it must not stop all others, and its jobs must not be taken for deleted ones. When nothing
   * at all can be listed, that is no view of the jobs, and throws.
   */
  async function listAll(limit: number, continuation: string | undefined): Promise<JobPage> {
    const state = continuation === undefined ? undefined : decodePosition(continuation);
    const scope = Number(state?.get("scope") ?? 0);
    const positions = new Map(state);
    positions.delete("scope");
    positions.delete("continue");
    const namespace = scopes[scope];
    if (continuation === undefined) listedUnder = await accountNamespaces.revision();
    const found = await listScope(namespace, limit, state?.get("continue"));
    const key = namespace ?? "";
    if ("unlisted" in found) {
      positions.set(key, found.unlisted);
      const rest = onward(positions, scope);
      const known = [...positions.values()];
      if (rest.continue === undefined && known.every(isUnlisted) && known.includes("refused"))
        throw found.error;
      return {
        jobs: [],
        ...(found.unlisted === "refused" && { refused: { namespace: key, error: found.error } }),
        ...rest,
      };
    }
    const { page, accounts } = found;
    const jobs = page.items.map((item, index): Job => {
      memory?.seen(item);
      return keptJobFromResource(item, accounts[index] ?? null);
    });
    // Watching from the first page's position replays what changed while the others were read.
    if (!positions.has(key)) positions.set(key, page.metadata.resourceVersion);
    return { jobs, ...onward(positions, scope, page.metadata.continue) };
  }

  /** What a page says of those after it; `more` is the API server's own token. */
  function onward(
    positions: ReadonlyMap<string, string>,
    scope: number,
    more = "",
  ): Pick<JobPage, "position" | "continue"> {
    const position = encodePosition(positions);
    if (more === "" && scope + 1 >= scopes.length) return { position };
    const next = new Map(positions);
    next.set("scope", String(more === "" ? scope + 1 : scope));
    if (more !== "") next.set("continue", more);
    return { position, continue: encodePosition(next) };
  }

  return { list: listAll, listedUnder: () => listedUnder };
}
