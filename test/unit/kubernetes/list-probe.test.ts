import { expect, test } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import type { KubernetesClient } from "../../../src/kubernetes/client.ts";
import { probeList } from "../../../src/kubernetes/list-probe.ts";

/** An API server that answers the list of jobs and the question for the namespace with these codes. */
function answering(list: number, namespace: number): Pick<KubernetesClient, "call"> {
  return {
    call: async <T>({ resource }: { resource: string }): Promise<T> => {
      const code = resource === "namespaces" ? namespace : list;
      if (code >= 500) throw new DependencyUnavailable("kubernetes");
      if (code >= 400) throw new ApiError(code, undefined, resource);
      return { kind: "List", metadata: { uid: "uid" }, items: [] } as T;
    },
  };
}

test.each([
  { list: 200, namespace: 200, is: "listed" },
  { list: 403, namespace: 200, is: "refused" },
  { list: 403, namespace: 404, is: "gone" },
  // Whether it exists may not be asked: it is not known to be gone.
  { list: 403, namespace: 403, is: "refused" },
  { list: 404, namespace: 200, is: "refused" },
  // Whose its jobs are may not be asked.
  { list: 200, namespace: 403, is: "refused" },
])("a list that is answered $list, its namespace $namespace: $is", async (row) => {
  expect(await probeList(answering(row.list, row.namespace), "team-a")).toBe(row.is);
});

test.each([
  { list: 503, namespace: 200, scope: "team-a", error: "unavailable" },
  { list: 403, namespace: 503, scope: "team-a", error: "unavailable" },
  // Of the whole cluster.
  { list: 403, namespace: 200, scope: undefined, error: "403" },
])("$error is no answer: list $list, namespace $namespace", async (row) => {
  await expect(probeList(answering(row.list, row.namespace), row.scope)).rejects.toThrow(row.error);
});
