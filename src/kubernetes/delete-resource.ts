import { isConflict, isNotFound } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import { PLURAL, type ObjectMeta } from "./scheduled-job.ts";
import { jobsPath } from "./scope.ts";

/** Deletes this incarnation of a ScheduledJob; false when it is gone, or another has its name. */
export async function deleteResource(
  client: Pick<KubernetesClient, "call">,
  namespace: string,
  { name, uid }: Pick<ObjectMeta, "name" | "uid">,
): Promise<boolean> {
  try {
    await client.call({
      verb: "delete",
      resource: PLURAL,
      path: jobsPath(namespace, name),
      body: {
        apiVersion: "v1",
        kind: "DeleteOptions",
        preconditions: { uid },
        propagationPolicy: "Background",
      },
    });
    return true;
  } catch (error) {
    if (isNotFound(error) || isConflict(error)) return false;
    throw error;
  }
}
