import { isNotFound } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";

/** The uid, which tells a namespace from an earlier one of the same name; undefined when there is none. */
export async function namespaceUid(
  client: Pick<KubernetesClient, "call">,
  namespace: string,
): Promise<string | undefined> {
  try {
    const found = await client.call<{ metadata: { uid: string } }>({
      verb: "get",
      resource: "namespaces",
      path: `/api/v1/namespaces/${encodeURIComponent(namespace)}`,
    });
    return found.metadata.uid;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
