import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, inject, test } from "vitest";
import { VARIABLES } from "../../src/configuration/variables.ts";
import { CHART, helm, render, toSet, type KubernetesObject } from "./chart.ts";

const URL = "postgres://carillon:secret@db.example.com:5432/carillon";
const WITH_URL = { database: { url: URL } };

interface Container {
  name: string;
  image: string;
  env?: { name: string; value?: string; valueFrom?: unknown }[];
  securityContext?: unknown;
  resources?: { requests?: unknown; limits?: { memory?: string } };
  volumeMounts?: unknown[];
}
interface PodSpec {
  serviceAccountName?: string;
  automountServiceAccountToken?: boolean;
  enableServiceLinks?: boolean;
  imagePullSecrets?: unknown[];
  securityContext: Record<string, unknown>;
  initContainers?: Container[];
  containers: Container[];
  volumes?: unknown[];
}

const named = (objects: readonly KubernetesObject[], kind: string, name: string) => {
  const found = objects.find((object) => object.kind === kind && object.metadata.name === name);
  if (!found) throw new Error(`there is no ${kind} ${name}`);
  return found;
};
const podOf = (workload: KubernetesObject) =>
  (workload["spec"] as { template: { spec: PodSpec } }).template.spec;
const kinds = (objects: readonly KubernetesObject[]) => [
  ...new Set(objects.map((object) => object.kind)),
];
const environment = (container: Container | undefined) =>
  new Map((container?.env ?? []).map((entry) => [entry.name, entry.value]));

const secretReaders = (objects: readonly KubernetesObject[]) =>
  objects.filter(({ rules }) => JSON.stringify(rules ?? []).includes('"secrets"'));
const checksumOf = async (url: string) => {
  const gateway = named(await render({ database: { url } }), "Deployment", "carillon-gateway");
  const { template } = gateway["spec"] as { template: Pick<KubernetesObject, "metadata"> };
  return template.metadata.annotations?.["checksum/secret"];
};
const resourcePolicy = async (values: Record<string, unknown>) =>
  named(await render(values), "CustomResourceDefinition", "scheduledjobs.carillon.dev").metadata
    .annotations?.["helm.sh/resource-policy"];
const clusterWide = async (at: { release: string; namespace: string }) =>
  keysOf((await render(WITH_URL, at)).filter(({ kind }) => kind.startsWith("ClusterRole")));
const keysOf = (objects: readonly KubernetesObject[]) =>
  objects.map(({ kind, metadata }) => `${kind}/${metadata.name}`);
const leaseName = (objects: readonly KubernetesObject[], name: string) =>
  environment(podOf(named(objects, "Deployment", name)).containers[0]).get("CARILLON_LEASE_NAME");

// Skipped without a control plane: then the machine has neither Go nor helm.
describe.runIf(inject("kubeconfig") !== "")("the chart's templates", () => {
  test("lint finds nothing", async () => {
    const said = await helm(["lint", "--strict", CHART, "--set", `database.url=${URL}`]);
    expect(said).toContain("0 chart(s) failed");
  });

  const matrix = [
    {
      title: "an outside database by URL",
      values: WITH_URL,
      has: ["Secret"],
      lacks: ["StatefulSet"],
    },
    {
      title: "nothing but existing Secrets",
      values: {
        database: { existingSecret: "db" },
        encryption: { existingSecret: "keys" },
        bootstrap: { existingSecret: "admin" },
      },
      has: ["Deployment", "CustomResourceDefinition", "PodDisruptionBudget"],
      lacks: ["Secret", "StatefulSet", "NetworkPolicy", "ServiceMonitor"],
    },
    {
      title: "the PostgreSQL for evaluation, with network policies",
      values: { postgresql: { enabled: true }, networkPolicy: { enabled: true } },
      has: ["StatefulSet", "NetworkPolicy"],
      lacks: [],
    },
    {
      title: "no definition, no disruption budgets, no bootstrap",
      values: {
        ...WITH_URL,
        crds: { enabled: false },
        bootstrap: { enabled: false },
        gateway: { podDisruptionBudget: { enabled: false } },
        controller: { podDisruptionBudget: { enabled: false } },
      },
      has: ["Deployment"],
      lacks: ["CustomResourceDefinition", "PodDisruptionBudget"],
    },
    {
      title: "everything that watches and scales",
      values: {
        ...WITH_URL,
        gateway: { autoscaling: { enabled: true } },
        monitoring: {
          serviceMonitor: { enabled: true, interval: "1m30s", labels: { release: "prometheus" } },
          prometheusRule: { enabled: true },
          grafanaDashboard: { enabled: true },
        },
      },
      has: ["HorizontalPodAutoscaler", "ServiceMonitor", "PrometheusRule", "ConfigMap"],
      lacks: [],
    },
  ];
  test.each(matrix)("$title", async ({ values, has, lacks }) => {
    const objects = await render(values);
    expect(kinds(objects)).toEqual(expect.arrayContaining(has));
    for (const kind of lacks) expect(kinds(objects)).not.toContain(kind);
    const seen = new Set<string>();
    for (const { kind, metadata, apiVersion } of objects) {
      expect(apiVersion).toMatch(/^(v1|[a-z.0-9]+\/v\d)/);
      seen.add(`${kind}/${metadata.namespace ?? ""}/${metadata.name}`);
    }
    expect(seen.size).toBe(objects.length);
  });

  test("every pod is what Pod Security calls restricted, with bounded memory", async () => {
    const objects = await render({ postgresql: { enabled: true } });
    const workloads = objects.filter(({ kind }) => kind === "Deployment" || kind === "StatefulSet");
    expect(workloads).toHaveLength(3);
    for (const workload of workloads) {
      const pod = podOf(workload);
      expect(pod.securityContext).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: "RuntimeDefault" },
      });
      expect(pod.enableServiceLinks).toBe(false);
      for (const container of [...(pod.initContainers ?? []), ...pod.containers]) {
        expect(container.securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
        expect(container.resources?.requests).toBeDefined();
        expect(container.resources?.limits?.memory).toMatch(/^\d+[MG]i$/);
      }
    }
    expect(podOf(named(objects, "StatefulSet", "carillon-postgresql"))).toMatchObject({
      automountServiceAccountToken: false,
    });
  });

  test("the programs know every variable that they are given, and none twice", async () => {
    const objects = await render(WITH_URL);
    const known = new Set(Object.values(VARIABLES).map((variable) => variable.name));
    for (const part of ["gateway", "controller"]) {
      const pod = podOf(named(objects, "Deployment", `carillon-${part}`));
      for (const container of [...(pod.initContainers ?? []), ...pod.containers]) {
        const names = (container.env ?? []).map((entry) => entry.name);
        expect(names.filter((name) => !known.has(name))).toEqual([]);
        expect(new Set(names).size).toBe(names.length);
      }
    }
  });

  test("values reach the processes", async () => {
    const objects = await render({
      ...WITH_URL,
      watchNamespaces: ["a", "b"],
      headerSecretNamespaces: ["b"],
      allowDestinations: ["10.0.0.0/8:443", "192.0.2.1"],
      allowOwnNamespaceServices: false,
      clusterDomain: "k8s.example",
      logLevel: "debug",
      retentionDays: 7,
      finishedJobsDays: 8,
      bootstrap: { namespace: "a" },
      controller: { deliveryConcurrency: 9 },
      gateway: {
        rateLimit: { perSecond: 5, burst: 6 },
        trustedProxies: ["10.0.0.0/8", "fd00::/8"],
      },
      image: { repository: "registry.example/carillon", digest: `sha256:${"0".repeat(64)}` },
    });
    const controller = podOf(named(objects, "Deployment", "carillon-controller")).containers[0];
    expect(Object.fromEntries(environment(controller))).toMatchObject({
      CARILLON_WATCH_NAMESPACES: "a,b",
      CARILLON_HEADER_SECRET_NAMESPACES: "b",
      CARILLON_ALLOW_DESTINATIONS: "10.0.0.0/8:443,192.0.2.1",
      CARILLON_ALLOW_OWN_NAMESPACE_SERVICES: "false",
      CARILLON_CLUSTER_DOMAIN: "k8s.example",
      CARILLON_LOG_LEVEL: "debug",
      CARILLON_RETENTION_DAYS: "7",
      CARILLON_DELIVERY_CONCURRENCY: "9",
      CARILLON_LEASE_NAME: "carillon-controller",
    });
    expect(controller?.image).toBe(`registry.example/carillon@sha256:${"0".repeat(64)}`);
    const gateway = podOf(named(objects, "Deployment", "carillon-gateway"));
    expect(Object.fromEntries(environment(gateway.containers[0]))).toMatchObject({
      CARILLON_RATE_LIMIT: "5",
      CARILLON_RATE_LIMIT_BURST: "6",
      CARILLON_TRUSTED_PROXIES: "10.0.0.0/8,fd00::/8",
      CARILLON_FINISHED_JOBS_DAYS: "8",
    });
    expect(Object.fromEntries(environment(gateway.initContainers?.[0]))).toMatchObject({
      CARILLON_BOOTSTRAP_ACCOUNT: "default",
      CARILLON_BOOTSTRAP_NAMESPACE: "a",
    });
  });

  test("further variables reach all processes, migrate included", async () => {
    const secretKeyRef = { name: "database", key: "password" };
    const extraEnv = [
      { name: "NODE_EXTRA_CA_CERTS", value: "/ca/ca.pem" },
      { name: "PGPASSWORD", valueFrom: { secretKeyRef } },
    ];
    for (const bootstrap of [{ enabled: true }, { enabled: false }]) {
      const objects = await render({ ...WITH_URL, bootstrap, extraEnv });
      for (const part of ["gateway", "controller"]) {
        const pod = podOf(named(objects, "Deployment", `carillon-${part}`));
        const containers = [...(pod.initContainers ?? []), ...pod.containers];
        expect(containers.map(({ name }) => name)).toEqual(["migrate", part]);
        for (const container of containers)
          expect(container.env).toEqual(expect.arrayContaining(extraEnv));
      }
    }
  });

  test("secrets to pull images with reach every pod, the database's too", async () => {
    const imagePullSecrets = [{ name: "mirror" }];
    const objects = await render({ postgresql: { enabled: true }, imagePullSecrets });
    const workloads = objects.filter(({ kind }) => kind === "Deployment" || kind === "StatefulSet");
    expect(workloads).toHaveLength(3);
    for (const workload of workloads)
      expect(podOf(workload).imagePullSecrets).toEqual(imagePullSecrets);
  });

  test("large numbers are written out: a values file's are floats", async () => {
    const rateLimit = { perSecond: 1_000_000, burst: 10_000_000 };
    const objects = await render({ ...WITH_URL, gateway: { rateLimit } });
    const gateway = podOf(named(objects, "Deployment", "carillon-gateway"));
    expect(Object.fromEntries(environment(gateway.containers[0]))).toMatchObject({
      CARILLON_RATE_LIMIT: "1000000",
      CARILLON_RATE_LIMIT_BURST: "10000000",
    });
  });

  test("a number that is null is left to the program", async () => {
    const objects = await render({ ...WITH_URL, retentionDays: null });
    const gateway = podOf(named(objects, "Deployment", "carillon-gateway"));
    expect(Object.fromEntries(environment(gateway.containers[0]))).toMatchObject({
      CARILLON_RETENTION_DAYS: "",
    });
  });

  test("a list that is null is empty", async () => {
    const lists = ["watchNamespaces", "headerSecretNamespaces", "allowDestinations", "extraEnv"];
    const values = { ...WITH_URL, ...Object.fromEntries(lists.map((list) => [list, null])) };
    expect(keysOf(await render(values))).toEqual(keysOf(await render(WITH_URL)));
  });

  test("without an address there is no first user, and no password that nobody has", async () => {
    const objects = await render({ ...WITH_URL, bootstrap: { email: "" } });
    const gateway = podOf(named(objects, "Deployment", "carillon-gateway"));
    const names = gateway.initContainers?.[0]?.env?.map(({ name }) => name) ?? [];
    expect(names).toContain("CARILLON_BOOTSTRAP_ACCOUNT");
    expect(names.filter((name) => /EMAIL|PASSWORD/.test(name))).toEqual([]);
    expect(named(objects, "Secret", "carillon-generated")["data"]).not.toHaveProperty(
      "admin-password",
    );
  });

  test("single sign-on reaches the gateways, its secret by reference", async () => {
    const objects = await render({
      ...WITH_URL,
      publicUrl: "https://carillon.example.com",
      singleSignOn: {
        issuer: "https://id.example.com/realm",
        clientId: "carillon",
        name: "Example ID",
        existingSecret: "oidc",
      },
    });
    const [gateway] = podOf(named(objects, "Deployment", "carillon-gateway")).containers;
    expect(Object.fromEntries(environment(gateway))).toMatchObject({
      CARILLON_PUBLIC_URL: "https://carillon.example.com",
      CARILLON_OIDC_ISSUER: "https://id.example.com/realm",
      CARILLON_OIDC_CLIENT_ID: "carillon",
      CARILLON_OIDC_NAME: "Example ID",
    });
    const secret = gateway?.env?.find(({ name }) => name === "CARILLON_OIDC_CLIENT_SECRET");
    expect(secret?.valueFrom).toEqual({ secretKeyRef: { name: "oidc", key: "client-secret" } });
    const known = new Set(Object.values(VARIABLES).map((variable) => variable.name));
    expect(gateway?.env?.filter(({ name }) => !known.has(name))).toEqual([]);
    const controller = podOf(named(objects, "Deployment", "carillon-controller")).containers[0];
    expect(JSON.stringify(controller)).not.toContain("OIDC");
  });

  test("no two releases share a cluster-wide name, whatever their names are made of", async () => {
    const one = await clusterWide({ release: "eu-carillon", namespace: "platform" });
    const other = await clusterWide({ release: "carillon", namespace: "platform-eu" });
    expect(one.length).toBeGreaterThan(5);
    expect(one.filter((key) => other.includes(key))).toEqual([]);
  });

  test("names that YAML takes for something else stay names: a namespace may be called 4711", async () => {
    const monitoring = { serviceMonitor: { enabled: true }, prometheusRule: { enabled: true } };
    const values = [
      {
        database: { existingSecret: "1", existingSecretKey: "2" },
        encryption: { existingSecret: "3", existingSecretKey: "4" },
        bootstrap: { existingSecret: "5", existingSecretKey: "6", namespace: "7" },
        singleSignOn: {
          issuer: "https://id.example.com",
          clientId: "8",
          existingSecret: "9",
          existingSecretKey: "10",
        },
        publicUrl: "https://carillon.example.com",
        watchNamespaces: ["7"],
        headerSecretNamespaces: ["7"],
        monitoring: { ...monitoring, grafanaDashboard: { enabled: true } },
        nameOverride: "11",
        fullnameOverride: "null",
      },
      {
        postgresql: { enabled: true, persistence: { storageClassName: "13" } },
        networkPolicy: { enabled: true },
        gateway: { autoscaling: { enabled: true } },
      },
    ];
    const namely = /^(name|namespace|key|storageClassName|app.kubernetes.io\/.*)$/;
    const unnamed: string[] = [];
    for (const each of values)
      for (const object of await render(each, { release: "true", namespace: "4711" }))
        JSON.stringify(object, (field, value: unknown) => {
          if (namely.test(field) && !["string", "object"].includes(typeof value))
            unnamed.push(`${object.kind} ${object.metadata.name}: ${field}: ${String(value)}`);
          return value;
        });
    expect(unnamed).toEqual([]);
  });

  test("a chart that has this one as a dependency may make it conditional", async () => {
    const objects = await render({ ...WITH_URL, enabled: true });
    expect(keysOf(objects)).toEqual(keysOf(await render(WITH_URL)));
  });

  test("pods that are not ready hold up no drain", async () => {
    const budgets = (await render(WITH_URL)).filter(({ kind }) => kind === "PodDisruptionBudget");
    expect(budgets).toHaveLength(2);
    for (const { spec } of budgets)
      expect(spec).toMatchObject({ unhealthyPodEvictionPolicy: "AlwaysAllow" });
  });

  test("a list of namespaces takes the cluster-wide rights away", async () => {
    const wide = await render(WITH_URL);
    expect(named(wide, "ClusterRoleBinding", "platform:carillon-controller")).toBeDefined();
    const narrow = await render({
      ...WITH_URL,
      watchNamespaces: ["a", "b"],
      bootstrap: { namespace: "b" },
    });
    const bindings = narrow.filter(({ kind }) => kind === "ClusterRoleBinding");
    // The only remaining right is to read the uids of those namespaces.
    expect(bindings.map(({ metadata }) => metadata.name).sort()).toEqual([
      "platform:carillon-controller-namespaces",
      "platform:carillon-gateway-namespaces",
    ]);
    const role = named(narrow, "ClusterRole", "platform:carillon-controller-namespaces");
    expect(role["rules"]).toEqual([
      { apiGroups: [""], resources: ["namespaces"], verbs: ["get"], resourceNames: ["a", "b"] },
    ]);
    const places = narrow
      .filter(({ kind, metadata }) => kind === "RoleBinding" && metadata.name.endsWith("-gateway"))
      .map(({ metadata }) => metadata.namespace);
    expect(places).toEqual(["a", "b"]);
  });

  test("Secrets are readable only where the operator says so, by the controller alone", async () => {
    expect(secretReaders(await render(WITH_URL))).toEqual([]);
    const objects = await render({ ...WITH_URL, headerSecretNamespaces: ["team-a"] });
    expect(secretReaders(objects).map(({ kind, metadata }) => [kind, metadata.namespace])).toEqual([
      ["Role", "team-a"],
    ]);
    const binding = named(objects, "RoleBinding", "platform:carillon-webhook-headers");
    expect(binding["subjects"]).toEqual([
      { kind: "ServiceAccount", name: "carillon-controller", namespace: "platform" },
    ]);
  });

  test("pods restart for another database URL, and their annotation is no quick test of a guess", async () => {
    const checksum = await checksumOf(URL);
    expect(checksum).toMatch(/^[0-9a-f]{64}$/);
    expect(checksum).toBe(await checksumOf(URL));
    expect(checksum).not.toBe(await checksumOf(URL.replace("secret", "another")));
    // Somebody who may read pods, but no Secrets, knows all of it except the password, and must not be able to guess
    // it.
    expect(checksum).not.toBe(hash("sha256", `${URL}|||false`));
  });

  test("the database's authority is a file in every container that connects to it, and no volume without", async () => {
    const objects = await render({ database: { existingSecret: "db", caSecret: "db-ca" } });
    for (const name of ["carillon-gateway", "carillon-controller"]) {
      const pod = podOf(named(objects, "Deployment", name));
      expect(pod.volumes).toEqual([{ name: "database-ca", secret: { secretName: "db-ca" } }]);
      const containers = [...(pod.initContainers ?? []), ...pod.containers];
      expect(containers.map(({ volumeMounts }) => volumeMounts)).toEqual(
        containers.map(() => [
          { name: "database-ca", mountPath: "/etc/carillon/database-ca", readOnly: true },
        ]),
      );
      expect(podOf(named(await render(WITH_URL), "Deployment", name)).volumes).toBeUndefined();
    }
  });

  test("an autoscaler's count is not in what is rendered without a cluster: each sync would undo it", async () => {
    const scaled = { ...WITH_URL, gateway: { autoscaling: { enabled: true } } };
    const gateway = named(await render(scaled), "Deployment", "carillon-gateway");
    expect(gateway["spec"]).not.toHaveProperty("replicas");
    const fixed = named(await render(WITH_URL), "Deployment", "carillon-gateway");
    expect(fixed["spec"]).toHaveProperty("replicas", 2);
  });

  test.each([
    { title: "the longest release name", release: "r".repeat(53), name: "r".repeat(41) },
    { title: "one cut off at a hyphen", release: `${"r".repeat(40)}-rr`, name: "r".repeat(40) },
    {
      title: "one that fits as it is",
      release: `${"r".repeat(32)}-carillon`,
      name: `${"r".repeat(32)}-carillon`,
    },
  ])("$title leaves room in the labels of the database's pods", async ({ release, name }) => {
    const objects = await render({ postgresql: { enabled: true } }, { release });
    const database = named(objects, "StatefulSet", `${name}-postgresql`);
    // The label controller-revision-hash is the name, a hyphen and up to ten characters.
    expect(database.metadata.name.length + 11).toBeLessThanOrEqual(63);
    expect(database["spec"]).toMatchObject({ serviceName: database.metadata.name });
    const service = named(objects, "Service", database.metadata.name);
    const { data } = objects.find(({ kind }) => kind === "Secret") as unknown as {
      data: Record<string, string>;
    };
    const url = Buffer.from(data["database-url"] ?? "", "base64").toString();
    expect(new globalThis.URL(url).hostname).toBe(service.metadata.name);
  });

  test("a probe of the database that fails takes its name from nobody, and may take longer than a second", async () => {
    const objects = await render({ postgresql: { enabled: true } });
    const service = named(objects, "Service", "carillon-postgresql");
    expect(service["spec"]).toMatchObject({ publishNotReadyAddresses: true });
    const [container] = podOf(named(objects, "StatefulSet", "carillon-postgresql")).containers;
    expect(container).toMatchObject({
      startupProbe: { timeoutSeconds: 5 },
      readinessProbe: { timeoutSeconds: 5 },
    });
  });

  test("a limit that a quota asks of every container is one of all containers of a pod", async () => {
    const resources = { limits: { cpu: "1", memory: "1Gi" } };
    const values = { ...WITH_URL, gateway: { resources }, controller: { resources } };
    const objects = await render(values);
    for (const name of ["carillon-gateway", "carillon-controller"]) {
      const pod = podOf(named(objects, "Deployment", name));
      const containers = [...(pod.initContainers ?? []), ...pod.containers];
      expect(containers.map((container) => container.resources)).toEqual(
        containers.map(() => ({ requests: expect.anything() as unknown, ...resources })),
      );
    }
  });

  test("the notes quote an account's name: it may have spaces", async () => {
    const values = toSet({ ...WITH_URL, bootstrap: { account: "Team A" } });
    const said = await helm(["install", "carillon", CHART, "--dry-run=client", ...values]);
    expect(said).toContain("key create --account 'Team A' --label first)");
  });

  test("the definition is kept unless asked otherwise", async () => {
    expect(await resourcePolicy(WITH_URL)).toBe("keep");
    expect(await resourcePolicy({ ...WITH_URL, crds: { keep: false } })).toBeUndefined();
  });

  test("two releases in one namespace share nothing", async () => {
    const [first, second] = [
      await render({ ...WITH_URL, crds: { enabled: false } }, { release: "one" }),
      await render({ ...WITH_URL, crds: { enabled: false } }, { release: "two" }),
    ];
    expect(keysOf(first).filter((key) => keysOf(second).includes(key))).toEqual([]);
    expect(leaseName(first, "one-carillon-controller")).not.toBe(
      leaseName(second, "two-carillon-controller"),
    );
  });

  const refused: {
    title: string;
    release?: string;
    values: Record<string, unknown>;
    message: string;
  }[] = [
    { title: "no database", values: {}, message: "no database: set database.url" },
    {
      title: "two databases",
      values: { ...WITH_URL, postgresql: { enabled: true } },
      message: "choose one database",
    },
    {
      title: "a database by URL beside one by Secret",
      values: { database: { url: URL, existingSecret: "db" } },
      message: "database.url and database.existingSecret are both set: choose one",
    },
    {
      title: "an autoscaler with its bounds the wrong way round",
      values: { ...WITH_URL, gateway: { autoscaling: { enabled: true, minReplicas: 11 } } },
      message: "gateway.autoscaling.minReplicas is 11, which is more than maxReplicas, 10",
    },
    {
      title: "a repository with a tag in it",
      values: { ...WITH_URL, image: { repository: "registry.example.com:5000/carillon:0.1.0" } },
      message:
        'image.repository: "registry.example.com:5000/carillon:0.1.0" has a tag or a digest: set image.tag',
    },
    {
      title: "an account's name that the program would refuse",
      values: { ...WITH_URL, bootstrap: { account: "team/a" } },
      message: "/bootstrap/account",
    },
    {
      title: "an address that is none",
      values: { ...WITH_URL, bootstrap: { email: "Ada <ada@example.com>" } },
      message: "/bootstrap/email",
    },
    {
      title: "a name that an API server would refuse",
      values: { ...WITH_URL, fullnameOverride: "Team_A" },
      message: "/fullnameOverride",
    },
    {
      title: "a part of names that an API server would refuse",
      values: { ...WITH_URL, nameOverride: "carillon.eu" },
      message: "/nameOverride",
    },
    {
      title: "a name that no Service has before Kubernetes 1.36",
      values: { ...WITH_URL, fullnameOverride: "7up" },
      message: 'a Service cannot be called "7up-gateway"',
    },
    ...["7up", "shop.eu"].map((release) => ({
      title: `a release after which no Service can be called, ${release}`,
      release,
      values: WITH_URL,
      message: `a Service cannot be called "${release}-carillon-gateway"`,
    })),
    {
      title: "an account's namespace that nobody watches",
      values: { ...WITH_URL, watchNamespaces: ["a"] },
      message: 'bootstrap.namespace is "platform", which is not in watchNamespaces',
    },
    {
      title: "Secrets of a namespace that nobody watches",
      values: {
        ...WITH_URL,
        watchNamespaces: ["platform"],
        headerSecretNamespaces: ["b"],
      },
      message: '"b" is not in watchNamespaces',
    },
    {
      title: "half a single sign-on",
      values: { ...WITH_URL, singleSignOn: { issuer: "https://id.example.com" } },
      message: "set singleSignOn.clientId and publicUrl too",
    },
    {
      title: "a variable that the chart sets itself",
      values: { ...WITH_URL, extraEnv: [{ name: "CARILLON_RATE_LIMIT", value: "5" }] },
      message: "extraEnv: the chart sets CARILLON_RATE_LIMIT itself: leave it out",
    },
    {
      title: "a label that the chart selects pods by",
      values: { ...WITH_URL, gateway: { podLabels: { "app.kubernetes.io/name": "mine" } } },
      message: "gateway.podLabels: the chart sets app.kubernetes.io/name itself: leave it out",
    },
    {
      title: "a label that the chart scrapes pods by",
      values: { ...WITH_URL, controller: { podLabels: { "carillon.dev/metrics": "no" } } },
      message: "controller.podLabels: the chart sets carillon.dev/metrics itself: leave it out",
    },
    { title: "a misspelt value", values: { ...WITH_URL, replicas: 3 }, message: "replicas" },
    {
      title: "a database URL of another kind",
      values: { database: { url: "mysql://x" } },
      message: "/database/url",
    },
    {
      title: "a section with nothing in it",
      values: { ...WITH_URL, gateway: { service: null } },
      message: "at '/gateway': missing property 'service'",
    },
    {
      title: "a host's name among addresses",
      values: { ...WITH_URL, allowDestinations: ["db.internal:443"] },
      message: "/allowDestinations/0",
    },
    ...["10.0.0.0/33", "10.0.0.256", "10.0.0/8", "::1/129", "10.0.0.1:0", "[::1]:65536"].map(
      (rule) => ({
        title: `an address that the program would not start with, ${rule}`,
        values: { ...WITH_URL, allowDestinations: ["10.0.0.0/8", rule] },
        message: `allowDestinations: "${rule}" is not CIDR[:port]`,
      }),
    ),
    {
      title: "no image",
      values: { ...WITH_URL, image: { repository: "" } },
      message: "/image/repository",
    },
    {
      title:
        "an annotation that is no string, which the API server would refuse with everything beside it",
      values: { ...WITH_URL, gateway: { podAnnotations: { "example.com/port": 9090 } } },
      message: "/gateway/podAnnotations/example.com~1port",
    },
    {
      title: "a variable that is no string",
      values: { ...WITH_URL, extraEnv: [{ name: "MINE", value: 5 }] },
      message: "/extraEnv/0/value",
    },
    {
      title: "a variable with a misspelt field",
      values: { ...WITH_URL, extraEnv: [{ name: "MINE", valeu: "5" }] },
      message: "/extraEnv/0",
    },
    {
      title: "a variable given twice",
      values: {
        ...WITH_URL,
        extraEnv: [
          { name: "MINE", value: "5" },
          { name: "MINE", value: "6" },
        ],
      },
      message: "extraEnv: MINE is given twice",
    },
    {
      title: "no replica",
      values: { ...WITH_URL, controller: { replicas: 0 } },
      message: "/controller/replicas",
    },
  ];
  test.each(refused)(
    "$title is refused with a message",
    async ({ values, message, release = "carillon" }) => {
      await expect(render(values, { release })).rejects.toThrow(message);
    },
  );

  test("a release's name that no Service can have needs another one for the objects", async () => {
    const values = { ...WITH_URL, fullnameOverride: "seven-up" };
    expect(keysOf(await render(values, { release: "7up" }))).toContain("Service/seven-up-gateway");
  });

  test("deploy/kubernetes is what the chart makes of its values", async () => {
    const folder = join(CHART, "../../deploy/kubernetes");
    const { renderManifests } = await import("../../scripts/render-manifests.ts");
    const stored = await readFile(join(folder, "carillon.yaml"), "utf8");
    const fresh = await renderManifests((args) => helm(args));
    expect(
      stored === fresh,
      "deploy/kubernetes/carillon.yaml is stale: node scripts/render-manifests.ts",
    ).toBe(true);
    // Otherwise whoever applies it would use a published password.
    expect(stored).not.toMatch(/^kind: Secret$/m);
  });
});
