import { randomUUID } from "node:crypto";
import { timingOf } from "../src/domain/timing.ts";
import {
  jobFromResource,
  withoutNulls,
  type ScheduledJob,
} from "../src/kubernetes/scheduled-job.ts";
import { statusContent } from "../src/kubernetes/status-content.ts";
import { aCursor } from "../test/unit/domain/decide-builders.ts";

/** etcd's default limit is 128 operations in a transaction. */
const PUTS = 100;

/**
 * Puts ScheduledJobs straight into etcd, as the API server would have stored them, with defaults, managedFields and a
 * status: 100,000 take seconds instead of five minutes. The API server notices them through its own watch of etcd.
 */
export async function seedScheduledJobs(options: {
  etcdUrl: string;
  namespace: string;
  count: number;
}): Promise<void> {
  const { etcdUrl, namespace, count } = options;
  for (let from = 0; from < count; from += PUTS) {
    const success = [];
    for (let index = from; index < Math.min(count, from + PUTS); index += 1) {
      const name = `seed-${String(index).padStart(6, "0")}`;
      const key = `/registry/carillon.dev/scheduledjobs/${namespace}/${name}`;
      success.push({
        request_put: {
          key: base64(key),
          value: base64(JSON.stringify(storedJob(namespace, name, index))),
        },
      });
    }
    const answer = await fetch(`${etcdUrl}/v3/kv/txn`, {
      method: "POST",
      body: JSON.stringify({ success }),
    });
    if (!answer.ok) throw new Error(`etcd: ${answer.status} ${await answer.text()}`);
    await answer.arrayBuffer();
  }
}

/** A daily webhook with a payload of a few hundred bytes. The minute of the day is `index` modulo 1,440. */
function storedJob(namespace: string, name: string, index: number) {
  const time = new Date(Math.floor(Date.now() / 1_000) * 1_000).toISOString().replace(".000Z", "Z");
  const spec = {
    concurrencyPolicy: "Allow" as const,
    deliveryDeadlineSeconds: 3600,
    displayName: `Report ${index}`,
    retry: { maxBackoffSeconds: 3600, maxRetries: 3, minBackoffSeconds: 5 },
    schedule: {
      cron: `${index % 60} ${Math.floor(index / 60) % 24} * * *`,
      timeZone: index % 2 === 0 ? "UTC" : "Europe/Paris",
    },
    suspend: false,
    webhook: {
      headers: { "X-Team": "reports" },
      payload: {
        report: index,
        recipients: ["a@example.com", "b@example.com"],
        text: "x".repeat(200),
      },
      timeoutSeconds: 30,
      url: `https://hooks.example.com/reports/${index}`,
    },
  };
  const resource = {
    apiVersion: "carillon.dev/v1",
    kind: "ScheduledJob",
    metadata: {
      creationTimestamp: time,
      generation: 1,
      labels: { "app.kubernetes.io/managed-by": "carillon" },
      managedFields: [
        {
          apiVersion: "carillon.dev/v1",
          fieldsType: "FieldsV1",
          fieldsV1: {
            "f:metadata": { "f:labels": { ".": {}, "f:app.kubernetes.io/managed-by": {} } },
            "f:spec": {
              ".": {},
              ...fieldsOf(spec),
              "f:retry": { ".": {}, ...fieldsOf(spec.retry) },
              "f:schedule": { ".": {}, ...fieldsOf(spec.schedule) },
              "f:webhook": { ".": {}, ...fieldsOf(spec.webhook) },
            },
          },
          manager: "carillon-gateway",
          operation: "Update",
          time,
        },
      ],
      name,
      namespace,
      uid: randomUUID(),
    },
    spec,
  };
  return {
    ...resource,
    status: statusOf({ ...resource, metadata: { ...resource.metadata, resourceVersion: "1" } }),
  };
}

/** As a leader writes it for a job that has not run yet. */
function statusOf(resource: ScheduledJob) {
  const job = jobFromResource(resource, "account");
  const observed = { cursor: aCursor(job), status: "active" as const, timing: timingOf(job.spec) };
  const status = statusContent({
    job,
    observed,
    history: undefined,
    circuitOpen: false,
    transitions: new Map(),
    now: Date.now(),
  });
  return withoutNulls(status);
}

/** Names of fields as managedFields writes them. */
function fieldsOf(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.keys(value).map((field) => [`f:${field}`, {}]));
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}
