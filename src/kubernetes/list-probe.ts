import { ApiError } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import { listResources } from "./list-resources.ts";
import { namespaceUid } from "./namespace-uid.ts";
import type { Scope } from "./scope.ts";

/** Milliseconds for one cheap list. */
export const PROBE_MS = 5_000;

/**
 * Why a namespace's jobs cannot be listed. One that is `gone` has none. One that exists but refuses may have some:
 * its administrator took the RoleBinding away, or it is being deleted and lost the RoleBinding first.
 */
export type Unlisted = "gone" | "refused";

export function isUnlisted(position: string): position is Unlisted {
  return position === "gone" || position === "refused";
}

/** 403 without a right, 404 where the kind is not served: no outage, and no use in asking again. */
export function isForbiddenOrNotServed(error: unknown): error is ApiError {
  return error instanceof ApiError && (error.code === 403 || error.code === 404);
}

/** To be asked after a refusal. The right to get namespaces is not bound inside them, so that it outlives them. */
export async function whyUnlisted(
  client: Pick<KubernetesClient, "call">,
  namespace: string,
): Promise<Unlisted> {
  try {
    return (await namespaceUid(client, namespace)) === undefined ? "gone" : "refused";
  } catch (error) {
    // Without the right to look, it is not known to be gone.
    if (error instanceof ApiError) return "refused";
    throw error;
  }
}

/** One cheap list. Throws for outages, and for every refusal of the whole cluster. */
export async function probeList(
  client: Pick<KubernetesClient, "call">,
  scope: Scope,
): Promise<"listed" | Unlisted> {
  try {
    await listResources(client, scope, { limit: 1, timeoutMs: PROBE_MS });
    // Its jobs are of no use while it cannot be known whose they are.
    if (scope !== undefined) await namespaceUid(client, scope);
    return "listed";
  } catch (error) {
    if (scope === undefined || !isForbiddenOrNotServed(error)) throw error;
    return whyUnlisted(client, scope);
  }
}
