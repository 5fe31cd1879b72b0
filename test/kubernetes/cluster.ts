import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { KubeConfig } from "@kubernetes/client-node";
import { parse } from "yaml";
import type { AccountNamespaces } from "../../src/domain/ports/account-namespaces.ts";
import type { JobStore } from "../../src/domain/ports/job-store.ts";
import { isNotFound } from "../../src/kubernetes/api-error.ts";
import { createKubernetesClient, type KubernetesClient } from "../../src/kubernetes/client.ts";
import {
  createKubernetesJobStore,
  type KubernetesJobStoreDependencies,
} from "../../src/kubernetes/kubernetes-job-store.ts";
import type { ScheduledJob } from "../../src/kubernetes/scheduled-job.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { until } from "../until.ts";
import { realTime } from "./real-time.ts";

const CRD_FILE = join(import.meta.dirname, "../../crds/scheduledjobs.carillon.dev.yaml");

/** A client of the cluster. With `token` it acts as another user. */
export function connect(
  kubeconfig: string,
  options: { server?: string; connections?: number; token?: string } = {},
): KubernetesClient & { metrics: ReturnType<typeof createMetrics> } {
  const kubeConfig = new KubeConfig();
  kubeConfig.loadFromFile(kubeconfig);
  if (options.server !== undefined) {
    const { server } = options;
    // client-node allows plain HTTP only without verification of TLS.
    const skipTLSVerify = server.startsWith("http:");
    kubeConfig.clusters = kubeConfig.clusters.map((cluster) => ({
      ...cluster,
      server,
      skipTLSVerify,
    }));
  }
  const { token } = options;
  if (token !== undefined) kubeConfig.users = kubeConfig.users.map(({ name }) => ({ name, token }));
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  const client = createKubernetesClient({
    kubeConfig,
    ...realTime,
    metrics,
    userAgent: "carillon-test",
    connections: options.connections,
  });
  return Object.assign(client, { metrics });
}

/** The job store of that cluster, as one process of the product uses it. */
export function jobStore(
  client: ReturnType<typeof connect>,
  accountNamespaces: AccountNamespaces,
  more: Partial<KubernetesJobStoreDependencies> = {},
): JobStore {
  const { metrics } = client;
  return createKubernetesJobStore({ client, accountNamespaces, metrics, ...realTime, ...more });
}

/** The CRD of this checkout. */
export async function readCrd() {
  return parse(await readFile(CRD_FILE, "utf8")) as CustomResourceDefinition;
}

interface CustomResourceDefinition {
  metadata: { name: string };
  spec: { versions: { schema: { openAPIV3Schema: StructuralSchema } }[] };
}

interface StructuralSchema {
  properties?: Record<string, StructuralSchema>;
}

/** Installs a CRD, by default that of this checkout, and waits until the API server serves it. */
export async function installCrd(
  client: KubernetesClient,
  definition?: CustomResourceDefinition,
): Promise<void> {
  const crd = definition ?? (await readCrd());
  await client.call({
    verb: "apply",
    resource: "customresourcedefinitions",
    path: `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${crd.metadata.name}`,
    query: { fieldManager: "carillon-test", force: "true" },
    body: crd,
  });
  const served = async () => {
    try {
      await client.call({
        verb: "list",
        resource: "scheduledjobs",
        path: "/apis/carillon.dev/v1/scheduledjobs",
        query: { limit: 1 },
      });
      return true;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  };
  await until("the ScheduledJob API", served, 20_000);
}

/** Creates a namespace for one test, which touches nothing outside it. */
export async function createNamespace(
  client: KubernetesClient,
  prefix = "test",
): Promise<{ name: string; uid: string }> {
  const name = `${prefix}-${randomBytes(5).toString("hex")}`;
  const created = await client.call<{ metadata: { uid: string } }>({
    verb: "create",
    resource: "namespaces",
    path: "/api/v1/namespaces",
    body: { apiVersion: "v1", kind: "Namespace", metadata: { name } },
  });
  return { name, uid: created.metadata.uid };
}

/** What the API server would store of a ScheduledJob, by a dry run. Unknown fields are errors, as for kubectl apply. */
export async function tryCreate(
  client: KubernetesClient,
  namespace: string,
  job: { metadata?: Record<string, unknown>; spec: object },
): Promise<ScheduledJob> {
  return client.call<ScheduledJob>({
    verb: "create",
    resource: "scheduledjobs",
    path: `/apis/carillon.dev/v1/namespaces/${namespace}/scheduledjobs`,
    query: { dryRun: "All", fieldValidation: "Strict" },
    body: {
      apiVersion: "carillon.dev/v1",
      kind: "ScheduledJob",
      metadata: { name: "nightly", ...job.metadata },
      spec: job.spec,
    },
  });
}
