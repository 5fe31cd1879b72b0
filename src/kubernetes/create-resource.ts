import { InvalidInput } from "../domain/findings.ts";
import type { JobSpec } from "../domain/job.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import { JobExists } from "../domain/ports/job-store.ts";
import { ApiError, isAlreadyExists, isConflict, isNotFound } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import { definitionMissing, definitionTooOld, isKindMissing } from "./definition-missing.ts";
import { deleteResource } from "./delete-resource.ts";
import { invalidInput } from "./invalid-input.ts";
import { MANAGED_BY, MANAGED_BY_LABEL } from "./resource-owner.ts";
import { API_VERSION, KIND, PLURAL, specToResource, type ScheduledJob } from "./scheduled-job.ts";
import { jobsPath } from "./scope.ts";

type Client = Pick<KubernetesClient, "call">;

/** The name under which managedFields show what REST wrote. */
export const FIELD_MANAGER = "carillon-gateway";

/** `refused`: for the caller, if the namespace is the right one. */
export type Creation =
  { created: ScheduledJob; refused?: undefined } | { created?: undefined; refused: Error };

/** Makes a job as REST does. Throws DependencyUnavailable when it is not known whether it has been made. */
export async function createResource(
  client: Client,
  namespace: string | undefined,
  { id, spec }: { id: string; spec: JobSpec },
): Promise<Creation> {
  if (namespace === undefined) return { refused: noNamespace() };
  try {
    const created = await client.call<ScheduledJob>({
      verb: "create",
      resource: PLURAL,
      path: jobsPath(namespace),
      query: { fieldManager: FIELD_MANAGER, fieldValidation: "Strict" },
      body: {
        apiVersion: API_VERSION,
        kind: KIND,
        metadata: { name: id, namespace, labels: { [MANAGED_BY_LABEL]: MANAGED_BY } },
        spec: specToResource(spec),
      },
    });
    return { created };
  } catch (error) {
    const refused = refusal(error, { namespace, id });
    if (refused === undefined) throw error;
    return { refused };
  }
}

/**
 * Deletes what was made where the account no longer is: nobody has been told of it, and it would run for whichever
 * account its namespace belongs to. If the process dies before, it stays (docs/reliability.md).
 */
export async function takeBack(client: Client, { metadata }: ScheduledJob): Promise<void> {
  const { name, namespace, uid } = metadata;
  try {
    await deleteResource(client, namespace, { name, uid });
  } catch (error) {
    throw new DependencyUnavailable("kubernetes", {
      cause: new Error(
        `the ScheduledJob ${namespace}/${name} was made for no account and could not be deleted again: delete it`,
        { cause: error },
      ),
    });
  }
}

/** Undefined when the API server has not answered. */
function refusal(
  error: unknown,
  { namespace, id }: { namespace: string; id: string },
): Error | undefined {
  if (isAlreadyExists(error)) return new JobExists(`a job ${id} exists already`, { cause: error });
  const what = `create ${jobsPath(namespace)}`;
  if (isKindMissing(error)) return definitionMissing(error, what);
  if (isNotFound(error) || isTerminating(error)) return noNamespace();
  if (!(error instanceof ApiError)) return undefined;
  // The namespace's ResourceQuota was changed at the same time, and the API server has given up counting.
  if (isConflict(error))
    return new DependencyUnavailable("kubernetes", { cause: error, retryAfterSeconds: 1 });
  return definitionTooOld(error, what) ?? invalidInput(error) ?? error;
}

function isTerminating(error: unknown): boolean {
  return (
    error instanceof ApiError &&
    (error.status?.details?.causes ?? []).some((cause) => cause.reason === "NamespaceTerminating")
  );
}

function noNamespace(): InvalidInput {
  return new InvalidInput([
    {
      field: "",
      message:
        "the account is bound to no existing namespace, so it cannot hold jobs: bind one with `carillon admin account bind`",
    },
  ]);
}
