import type { Job } from "../domain/job.ts";
import type { AccountNamespaces, Bindings } from "../domain/ports/account-namespaces.ts";
import type { JobPage } from "../domain/ports/job-store.ts";
import type { ApiError } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import type { ResourceList } from "./list-resources.ts";
import type { ResourceMemory } from "./resource-memory.ts";
import { keptJobFromResource } from "./scheduled-job.ts";
import { decodePosition, encodePosition, type Scope } from "./scope.ts";
import { isForbiddenOrNotServed, isUnlisted, whyUnlisted, type Unlisted } from "./list-probe.ts";

export interface JobListDependencies {
  client: Pick<KubernetesClient, "call">;
  accountNamespaces: AccountNamespaces;
  scopes: readonly Scope[];
  memory?: Pick<ResourceMemory, "seen">;
  /** One page as the API server gives it. */
  listPage: (
    scope: Scope,
    limit: number,
    continuation: string | undefined,
  ) => Promise<ResourceList>;
}

/** The jobs of all accounts, as a controller reads them before it watches. */
export function createJobList(dependencies: JobListDependencies): {
  list(limit: number, continuation: string | undefined): Promise<JobPage>;
  /** The bindings when the last list began: the watch that follows it begins there. */
  listedUnder(): Bindings | undefined;
} {
  const { client, accountNamespaces, scopes, memory, listPage } = dependencies;
  let listedUnder: Bindings | undefined;

  /**
   * A page, and whose its jobs are: a namespace that refuses to be looked at does not tell that either. Of several
   * namespaces one may be unlisted; the whole cluster can be listed, or it throws.
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
      // What is known of a namespace may be of one that was deleted since, and made again with the jobs on the page. Only
      // a watch is told of that, when the old jobs are deleted.
      if (continuation === undefined) accountNamespaces.forget(scope);
      page.items = page.items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
      // All at once: one after the other, a page of many namespaces would take longer than its reader waits.
      const accounts = await Promise.all(
        page.items.map(({ metadata }) => accountNamespaces.accountOf(metadata.namespace)),
      );
      return { page, accounts };
    } catch (error) {
      if (scope === undefined || !isForbiddenOrNotServed(error)) throw error;
      return { unlisted: await whyUnlisted(client, scope), error };
    }
  }

  /**
   * Every job, in the API server's order and pages, which are of one snapshot. A namespace that was deleted has no
   * jobs. One that exists but refuses is left out, and the page says so: its administrator must not stop all
   * others, and its jobs must not be taken for deleted ones. Throws when nothing at all can be listed.
   */
  async function listAll(limit: number, continuation: string | undefined): Promise<JobPage> {
    const { scope, positions, more } =
      continuation === undefined
        ? { scope: 0, positions: new Map<string, string>() }
        : parseToken(continuation);
    const namespace = scopes[scope];
    if (continuation === undefined) listedUnder = await accountNamespaces.bindings();
    const found = await listScope(namespace, limit, more);
    const key = namespace ?? "";
    if ("unlisted" in found) {
      // Its jobs on the pages before are gone with it: the caller lists anew.
      if (found.unlisted === "gone" && more !== undefined) throw found.error;
      positions.set(key, found.unlisted);
      const rest = onward(positions, scope);
      const all = [...positions.values()];
      if (rest.continue === undefined && all.every(isUnlisted) && all.includes("refused"))
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

  /** The position and the token for the next page; `more` is the API server's token within this scope. */
  function onward(
    positions: ReadonlyMap<string, string>,
    scope: number,
    more?: string,
  ): Pick<JobPage, "position" | "continue"> {
    const position = encodePosition(positions);
    if (more === undefined && scope + 1 >= scopes.length) return { position };
    // Beside the positions, not among them: a namespace may have any of these names.
    const next = more === undefined ? scope + 1 : scope;
    const token = new URLSearchParams({ scope: String(next), position });
    if (more !== undefined) token.set("more", more);
    return { position, continue: token.toString() };
  }

  return { list: listAll, listedUnder: () => listedUnder };
}

/** What `onward` wrote. */
function parseToken(token: string): {
  scope: number;
  positions: Map<string, string>;
  more?: string;
} {
  const state = new URLSearchParams(token);
  const more = state.get("more");
  return {
    scope: Number(state.get("scope")),
    positions: decodePosition(state.get("position") ?? ""),
    ...(more !== null && { more }),
  };
}
