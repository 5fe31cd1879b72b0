import { ApiError } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import { listResources } from "./list-resources.ts";
import { namespaceUid } from "./namespace-uid.ts";
import type { Scope } from "./scope.ts";

const LOOK_MS = 5_000;

/**
 * Why a namespace's jobs cannot be listed. One that is `gone` has none. One that is there and refused may
 * have some: its administrator took the RoleBinding away, or it is being deleted and lost it first.
 */
export type Unlisted = "gone" | "refused";

export function isUnlisted(position: string): position is Unlisted {
  return position === "gone" || position === "refused";
}

/** 403 without a right, 404 where nobody serves the kind: no outage, and no better by asking again. */
export function isRefusal(error: unknown): error is ApiError {
  return error instanceof ApiError && (error.code === 403 || error.code === 404);
}

/** After a refusal. The right to look at namespaces is bound outside of them, so it outlives them. */
export async function whyUnlisted(
  client: Pick<KubernetesClient, "call">,
  namespace: string,
): Promise<Unlisted> {
  try {
    return (await namespaceUid(client, namespace)) === undefined ? "gone" : "refused";
  } catch (error) {
    // Who may not even look does not know that it is gone.
    if (error instanceof ApiError) return "refused";
    throw error;
  }
}

/** One cheap look. Throws for outages, and for whatever the whole cluster answers. */
export async function lookAt(
  client: Pick<KubernetesClient, "call">,
  scope: Scope,
): Promise<"listed" | Unlisted> {
  try {
    await listResources(client, scope, { limit: 1, timeoutMs: LOOK_MS });
    // Nobody's jobs are of use while it is not known whose they are.
    if (scope !== undefined) await namespaceUid(client, scope);
    return "listed";
  } catch (error) {
    if (scope === undefined || !isRefusal(error)) throw error;
    return whyUnlisted(client, scope);
  }
}
