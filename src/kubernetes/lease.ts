import type { Instant } from "../domain/instant.ts";
import { isNotFound } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";

/** coordination.k8s.io/v1 Lease, as the elector reads and writes it. */
export interface Lease {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace: string; resourceVersion?: string };
  spec?: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    /** MicroTime: Go refuses fewer or more than six fractional digits. */
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

/** What the candidates agree on. The times are only for people: no candidate compares them with a clock. */
export interface ElectionRecord {
  holder: string;
  durationSeconds: number;
  /** Empty where the Lease does not say it, as `renewTime`. */
  acquireTime: string;
  renewTime: string;
  transitions: number;
}

export interface LeaseLock {
  /** Undefined when there is no Lease. Remembers its resourceVersion for `update`. */
  get(signal?: AbortSignal): Promise<ElectionRecord | undefined>;
  create(record: ElectionRecord, signal?: AbortSignal): Promise<void>;
  /** PUT with the resourceVersion of the last answer: an ApiError 409 when somebody else wrote since. */
  update(record: ElectionRecord, signal?: AbortSignal): Promise<void>;
}

export function createLeaseLock(input: {
  client: KubernetesClient;
  namespace: string;
  name: string;
  /** Milliseconds for each call. */
  timeoutMs: number;
}): LeaseLock {
  const { client, namespace, name, timeoutMs } = input;
  const collection = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
  const path = `${collection}/${name}`;
  const common = { resource: "leases", timeoutMs };
  let last: Lease | undefined;

  return {
    async get(signal) {
      try {
        last = await client.call<Lease>({ ...common, signal, verb: "get", path });
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
      const spec = last.spec ?? {};
      return {
        holder: spec.holderIdentity ?? "",
        durationSeconds: spec.leaseDurationSeconds ?? 0,
        acquireTime: spec.acquireTime ?? "",
        renewTime: spec.renewTime ?? "",
        transitions: spec.leaseTransitions ?? 0,
      };
    },
    async create(record, signal) {
      last = await client.call<Lease>({
        ...common,
        signal,
        verb: "create",
        path: collection,
        body: {
          apiVersion: "coordination.k8s.io/v1",
          kind: "Lease",
          metadata: { name, namespace },
          spec: leaseSpec(record),
        },
      });
    },
    async update(record, signal) {
      if (!last) throw new Error("a Lease is read or created before it is updated");
      last = await client.call<Lease>({
        ...common,
        signal,
        verb: "update",
        path,
        body: { ...last, spec: leaseSpec(record) },
      });
    },
  };
}

function leaseSpec(record: ElectionRecord): NonNullable<Lease["spec"]> {
  return {
    holderIdentity: record.holder,
    leaseDurationSeconds: record.durationSeconds,
    acquireTime: record.acquireTime,
    renewTime: record.renewTime,
    leaseTransitions: record.transitions,
  };
}

/** RFC 3339 with microseconds, which Lease and Event times must have. */
export function microTime(instant: Instant): string {
  return new Date(instant).toISOString().replace("Z", "000Z");
}
