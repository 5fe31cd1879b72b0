import { AnswerTooLarge, isNotFound } from "./api-error.ts";
import type { ApiCall, KubernetesClient } from "./client.ts";
import { definitionMissing } from "./definition-missing.ts";
import { PLURAL, type ScheduledJob } from "./scheduled-job.ts";
import { jobsPath, type Scope } from "./scope.ts";

/** One page of ScheduledJobs, sorted by name. */
export interface ResourceList {
  /** `continue`: the token for the next page; undefined on the last one. */
  metadata: { resourceVersion: string; continue?: string | undefined };
  items: ScheduledJob[];
}

interface ListOptions {
  limit: number;
  /** Token of the page before; undefined: the first one. */
  continue?: string | undefined;
  labelSelector?: string;
  signal?: AbortSignal;
  /** See `ApiCall`. */
  timeoutMs?: number;
}

/**
 * Bytes of a page's text. Parsed, a payload of empty objects takes twenty times as much: fifty of the largest would
 * take more memory than a process has.
 */
const MOST_PAGE_BYTES = 2 << 20;
/** The size that pages aim at, judged by the pages before: the next resources may be somewhat larger. */
const MEANT_PAGE_BYTES = MOST_PAGE_BYTES * 0.75;

/**
 * By client: how many resources a page has room for, once a page was too large. It grows no further than the sizes
 * seen allow: a page that turns out too large costs the API server a page, and us a connection.
 */
const roomFor = new WeakMap<Pick<KubernetesClient, "call">, number>();

/**
 * A page may have fewer resources than `limit` even if more follow. Errors as for `call`. Read without a
 * resourceVersion: what the quorum has, not what a cache had at some time.
 */
export async function listResources(
  client: Pick<KubernetesClient, "call">,
  scope: Scope,
  options: ListOptions,
): Promise<ResourceList> {
  for (;;) {
    const room = roomFor.get(client);
    const limit = Math.min(options.limit, room ?? options.limit);
    let bytes = MOST_PAGE_BYTES;
    const onSize = (size: number): void => {
      bytes = size;
    };
    try {
      const page = await listOnce(client, scope, { ...options, limit, onSize });
      if (room !== undefined) {
        const read = page.items.length;
        const fitting = Math.floor((read * MEANT_PAGE_BYTES) / bytes);
        // At most twice as many as were read: a few, as at the end of a list, say little about the next ones.
        roomFor.set(client, Math.max(room, Math.min(read * 2, fitting)));
      }
      return page;
    } catch (error) {
      if (!(error instanceof AnswerTooLarge)) throw error;
      // Rather too few than another page in vain: the next ones grow.
      roomFor.set(client, Math.ceil(limit / 8));
    }
  }
}

/** Every page of a list, the next one asked for when the one before has been taken. Ends after the last one. */
export async function* allPages<Page extends { metadata: { continue?: string | undefined } }>(
  read: (token: string | undefined) => Promise<Page>,
): AsyncGenerator<Page> {
  let token: string | undefined;
  do {
    const page = await read(token);
    yield page;
    token = page.metadata.continue;
  } while (token !== undefined);
}

/** A single resource is read whatever its size: the API server stores none of more than a few megabytes. */
async function listOnce(
  client: Pick<KubernetesClient, "call">,
  scope: Scope,
  { limit, continue: token, labelSelector, ...others }: ListOptions & Pick<ApiCall, "onSize">,
): Promise<ResourceList> {
  const path = jobsPath(scope);
  try {
    const { metadata, items } = await client.call<ResourceList>({
      verb: "list",
      resource: PLURAL,
      path,
      query: { limit, continue: token, labelSelector },
      mostBytes: limit > 1 ? MOST_PAGE_BYTES : undefined,
      ...others,
    });
    // On the last page the API server's token is empty.
    return { metadata: { ...metadata, continue: metadata.continue || undefined }, items };
  } catch (error) {
    if (isNotFound(error)) throw definitionMissing(error, `list ${path}`);
    throw error;
  }
}

/** As `listResources`, but empty in a cluster without the definition of ScheduledJobs. */
export async function listResourcesIfDefined(
  ...asked: Parameters<typeof listResources>
): Promise<Pick<ResourceList, "items"> & { metadata: { continue?: string | undefined } }> {
  try {
    return await listResources(...asked);
  } catch (error) {
    if (isNotFound(error)) return { metadata: {}, items: [] };
    throw error;
  }
}
