import { isNotFound } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import { PLURAL, type ScheduledJob } from "./scheduled-job.ts";
import { jobsPath, type Scope } from "./scope.ts";

/** One page of ScheduledJobs, sorted by name. */
export interface ResourceList {
  metadata: { resourceVersion: string; continue?: string };
  items: ScheduledJob[];
}

interface ListOptions {
  limit: number;
  /** Token of the page before; undefined: the first one. */
  continue?: string | undefined;
  labelSelector?: string;
  signal?: AbortSignal;
  /** As of `ApiCall`. */
  timeoutMs?: number;
}

/** Errors as of `call`. Without resourceVersion: what the quorum has, not what a cache had at some time. */
export function listResources(
  client: Pick<KubernetesClient, "call">,
  scope: Scope,
  { limit, continue: token, labelSelector, ...patience }: ListOptions,
): Promise<ResourceList> {
  return client.call<ResourceList>({
    verb: "list",
    resource: PLURAL,
    path: jobsPath(scope),
    query: { limit, continue: token, labelSelector },
    ...patience,
  });
}

/** The same, where there may be no ScheduledJobs: a cluster without their definition has none. */
export async function listResourcesIfDefined(
  ...asked: Parameters<typeof listResources>
): Promise<Pick<ResourceList, "items"> & { metadata: { continue?: string } }> {
  try {
    return await listResources(...asked);
  } catch (error) {
    if (isNotFound(error)) return { metadata: {}, items: [] };
    throw error;
  }
}
