import { isDeepStrictEqual } from "node:util";
import { canonicalJson } from "../domain/exact-json.ts";
import type { Job } from "../domain/job.ts";
import { isResourceName } from "../domain/kubernetes-name.ts";
import {
  JobNotFound,
  JobOwned,
  VersionConflict,
  type JobStore,
} from "../domain/ports/job-store.ts";
import { createAccountList } from "./account-list.ts";
import { isConflict, isNotFound } from "./api-error.ts";
import { FIELD_MANAGER, createResource, takeBack } from "./create-resource.ts";
import { definitionMissing, definitionTooOld, isKindMissing } from "./definition-missing.ts";
import { deleteResource } from "./delete-resource.ts";
import { createInNamespace } from "./in-namespace.ts";
import { invalidInput } from "./invalid-input.ts";
import { createJobList } from "./job-list.ts";
import { createJobWatch, type JobWatchDependencies } from "./job-watch.ts";
import { listResources } from "./list-resources.ts";
import { isMadeByRest, resourceOwner } from "./resource-owner.ts";
import {
  PLURAL,
  jobFromResource,
  specFromResource,
  specToResource,
  type ScheduledJob,
} from "./scheduled-job.ts";
import { jobsPath, scopesOf, type Scope } from "./scope.ts";
import { probeList } from "./list-probe.ts";

export interface KubernetesJobStoreDependencies extends Omit<
  JobWatchDependencies,
  "scopes" | "listedUnder"
> {
  /** The namespaces to serve, when the installation may not see the whole cluster. */
  namespaces?: readonly string[];
}

interface JobResource {
  resource: ScheduledJob;
  namespace: string;
  account: string;
}

/** Status writes of the leader get in between a read and a write; so many of them in a row are no accident. */
const MAX_CONFLICTS = 8;

/** Jobs as ScheduledJob resources. The API server is the store: only the next pages of a list are kept here. */
export function createKubernetesJobStore(dependencies: KubernetesJobStoreDependencies): JobStore {
  const { client, accountNamespaces } = dependencies;
  const scopes = scopesOf(dependencies.namespaces);
  const listPage = (scope: Scope, limit: number, continuation: string | undefined) =>
    listResources(client, scope, { limit, continue: continuation });
  const inNamespace = createInNamespace(accountNamespaces);
  const listAccount = createAccountList({ ...dependencies, listPage });
  const jobList = createJobList({ ...dependencies, scopes, listPage });
  const watchJobs = createJobWatch({
    ...dependencies,
    scopes,
    listedUnder: () => jobList.listedUnder(),
  });

  async function readResource(namespace: string, id: string): Promise<ScheduledJob | undefined> {
    const path = jobsPath(namespace, id);
    try {
      const found = await client.call<ScheduledJob>({ verb: "get", resource: PLURAL, path });
      // A finalizer of somebody else may keep a deleted resource for a while: for us it is gone.
      return found.metadata.deletionTimestamp === undefined ? found : undefined;
    } catch (error) {
      if (isKindMissing(error)) throw definitionMissing(error, `get ${path}`);
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /**
   * This incarnation as it is now, with its namespace; undefined when it is gone. For the namespace the cache will do:
   * the job was read as the account's, which stays while it has jobs, and the uid is that of no job elsewhere.
   */
  async function readAgain(job: Job): Promise<JobResource | undefined> {
    const { account } = job;
    const namespace = account === null ? undefined : await accountNamespaces.namespaceOf(account);
    const resource = namespace === undefined ? undefined : await readResource(namespace, job.id);
    if (account === null || namespace === undefined || resource?.metadata.uid !== job.uid)
      return undefined;
    return { resource, namespace, account };
  }

  async function readForChange(job: Job): Promise<JobResource> {
    const found = await readAgain(job);
    if (!found) throw new JobNotFound(`no job ${job.id}`);
    const owner = resourceOwner(found.resource.metadata);
    if (owner) throw new JobOwned(owner);
    return found;
  }

  return {
    async create({ account, id, spec }) {
      const { created, refused } = await inNamespace(
        account,
        (namespace) => createResource(client, namespace, { id, spec }),
        async ({ created: unwanted }) => {
          if (unwanted) await takeBack(client, unwanted);
        },
      );
      if (refused) throw refused;
      return jobFromResource(created, account);
    },

    async get(account, id) {
      // An id is a path segment: one that no resource can have is simply not there.
      if (!isResourceName(id)) return undefined;
      const resource = await inNamespace(account, async (namespace) =>
        namespace === undefined ? undefined : readResource(namespace, id),
      );
      return resource && jobFromResource(resource, account);
    },

    async list({ account, limit, continue: continuation }) {
      return account === undefined
        ? jobList.list(limit, continuation)
        : inNamespace(account, (namespace) =>
            listAccount({ account, namespace, limit, continue: continuation }),
          );
    },

    async update(job, spec) {
      const next = specToResource(spec);
      const wanted = specFromResource(next, job.id);
      for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts += 1) {
        const { resource, namespace, account } = await readForChange(job);
        const { metadata } = resource;
        if (String(metadata.generation) !== job.version)
          throw new VersionConflict(`job ${job.id} has changed since it was read`);
        const stored = resource.spec ?? {};
        const before = specFromResource(stored, job.id);
        if (isDeepStrictEqual(before, wanted)) return jobFromResource(resource, account);
        try {
          const updated = await client.call<ScheduledJob>({
            verb: "update",
            resource: PLURAL,
            path: jobsPath(namespace, job.id),
            query: { fieldManager: FIELD_MANAGER, fieldValidation: "Strict" },
            body: {
              ...resource,
              // Left out, managedFields stay as they are; sent back, they are parsed for nothing.
              metadata: { ...metadata, managedFields: undefined },
              spec: withChanges({ ...stored }, { ...specToResource(before) }, { ...next }),
            },
          });
          return jobFromResource(updated, account);
        } catch (error) {
          // A status or metadata write came in between: read again whether the spec is still the same.
          if (isConflict(error)) continue;
          if (isNotFound(error)) throw new JobNotFound(`no job ${job.id}`, { cause: error });
          const what = `update ${jobsPath(namespace, job.id)}`;
          throw definitionTooOld(error, what) ?? invalidInput(error) ?? error;
        }
      }
      throw new VersionConflict(`job ${job.id} keeps changing`);
    },

    async delete(job) {
      const { namespace } = await readForChange(job);
      let deleted: boolean;
      try {
        deleted = await deleteResource(client, namespace, { name: job.id, uid: job.uid });
      } catch (error) {
        throw invalidInput(error) ?? error;
      }
      if (!deleted) throw new JobNotFound(`no job ${job.id}`);
    },

    async deleteUnchanged(job) {
      const found = await readAgain(job);
      if (!found || !isMadeByRest(found.resource.metadata)) return false;
      const { name, uid, resourceVersion } = found.resource.metadata;
      const now = jobFromResource(found.resource, found.account);
      if (now.version !== job.version || now.runNow !== job.runNow) return false;
      return deleteResource(client, found.namespace, { name, uid, resourceVersion });
    },

    watch: watchJobs,

    async ping() {
      // A list, not the API server's /readyz: it proves the CRD and our rights as well. One listed namespace is enough:
      // others may be deleted, or their administrators may have taken our rights away.
      let refused = false;
      for (const scope of scopes) {
        const state = await probeList(client, scope);
        if (state === "listed") return;
        refused ||= state === "refused";
      }
      if (refused) throw new Error("none of the watched namespaces can be listed");
    },
  };
}

type Fields = Readonly<Record<string, unknown>>;

/** Groups of fields that are changed one by one. */
const GROUPS: ReadonlySet<string> = new Set(["schedule", "webhook", "email", "retry"]);

/**
 * The stored fields with only what has changed replaced. A default that was spelt out would be a field that the
 * author's next `kubectl apply` does not know, and so does not take away: a time zone beside `at`, for instance.
 * Unknown fields, of a newer release that runs side by side with this one, stay.
 */
function withChanges(stored: Fields, before: Fields, next: Fields): Record<string, unknown> {
  const fields: Record<string, unknown> = { ...stored };
  for (const name of new Set([...Object.keys(before), ...Object.keys(next)])) {
    const [was, is] = [before[name], next[name]];
    // Compared as texts: a payload may be nested deeper than the stack of a deep comparison.
    if (canonicalJson(was) === canonicalJson(is)) continue;
    const grouped = GROUPS.has(name) && isFields(was) && isFields(is);
    const inside = stored[name];
    fields[name] = grouped ? withChanges(isFields(inside) ? inside : {}, was, is) : is;
  }
  return fields;
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null;
}
