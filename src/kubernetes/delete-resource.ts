import { isConflict, isNotFound } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import { PLURAL, type ObjectMeta } from "./scheduled-job.ts";
import { jobsPath } from "./scope.ts";

/**
 * Deletes this incarnation of a ScheduledJob; false when it is gone, or another has its name. With a
 * `resourceVersion` only in that version: false also when it has changed.
 */
export async function deleteResource(
  client: Pick<KubernetesClient, "call">,
  namespace: string,
  {
    name,
    uid,
    resourceVersion,
  }: Pick<ObjectMeta, "name" | "uid"> & Partial<Pick<ObjectMeta, "resourceVersion">>,
): Promise<boolean> {
  try {
    await client.call({
      verb: "delete",
      resource: PLURAL,
      path: jobsPath(namespace, name),
      body: {
        apiVersion: "v1",
        kind: "DeleteOptions",
        preconditions: { uid, resourceVersion },
        propagationPolicy: "Background",
      },
    });
    return true;
  } catch (error) {
    if (isNotFound(error) || isConflict(error)) return false;
    throw error;
  }
}
