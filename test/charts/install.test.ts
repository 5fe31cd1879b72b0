/** The chart on a real API server, which validates every object: installed, upgraded, and uninstalled. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { KubernetesClient } from "../../src/kubernetes/client.ts";
import { connect, createNamespace, installCrd } from "../kubernetes/cluster.ts";
import { CHART, helm, kubectl, toSet } from "./chart.ts";

const kubeconfig = inject("kubeconfig");
const kube = (...args: string[]) => kubectl(kubeconfig, args);
const json = async <T>(...args: string[]) => JSON.parse(await kube(...args, "-o", "json")) as T;
const EVALUATION = {
  postgresql: { enabled: true },
  networkPolicy: { enabled: true },
  gateway: { autoscaling: { enabled: true } },
  monitoring: { grafanaDashboard: { enabled: true } },
};

describe.runIf(kubeconfig !== "")("helm", { shuffle: false }, () => {
  let client: KubernetesClient;
  let namespace: string;
  let team: string;
  // Cluster-wide names contain the namespace and the release, so that they do not collide with those of other test
  // files.
  const release = `chart-${randomBytes(3).toString("hex")}`;
  const full = `${release}-carillon`;
  // Without the definition, which all test files share: helm would manage it as its own.
  const values = () => ({
    ...EVALUATION,
    crds: { enabled: false },
    bootstrap: { namespace: team },
  });
  const secret = () =>
    json<{ data: Record<string, string> }>("-n", namespace, "get", "secret", `${full}-generated`);

  /** Whether the part's service account may do this. For a no, kubectl exits with 1. */
  const may = async (part: "gateway" | "controller", ...question: string[]) => {
    const as = `--as=system:serviceaccount:${namespace}:${full}-${part}`;
    try {
      return (await kube("auth", "can-i", as, ...question)).trim() === "yes";
    } catch (error) {
      if (/^no\b/m.test(String(error))) return false;
      throw error;
    }
  };

  beforeAll(async () => {
    client = connect(kubeconfig);
    await installCrd(client);
    ({ name: namespace } = await createNamespace(client, "helm"));
    ({ name: team } = await createNamespace(client, "team"));
    // Makes Pod Security warn, which helm prints.
    await kube("label", "namespace", namespace, "pod-security.kubernetes.io/warn=restricted");
  });
  afterAll(async () => {
    await kube("delete", "namespace", namespace, team, "--wait=false");
    await client.close();
  });

  test("install: the API server takes every object, and Pod Security has no word to say", async () => {
    const args = ["install", release, CHART, "--namespace", namespace, ...toSet(values())];
    const validated = await helm([...args, "--dry-run=server"], kubeconfig);
    expect(validated).toContain("kind: Deployment");
    const said = await helm(args, kubeconfig);
    expect(said).toContain("STATUS: deployed");
    expect(said).not.toMatch(/would violate PodSecurity/);
    expect(said).toContain(`kubectl -n ${namespace} exec deploy/${full}-gateway -c gateway --`);
  });

  test("the generated Secret holds what the processes take", async () => {
    const { data } = await secret();
    const text = (key: string) => Buffer.from(data[key] ?? "", "base64").toString();
    const [id, key = ""] = text("encryption-keys").split(":");
    expect(id).toBe("k1");
    expect(Buffer.from(key, "base64")).toHaveLength(32);
    expect(text("admin-password")).toMatch(/^[A-Za-z0-9]{24}$/);
    expect(text("database-url")).toBe(
      `postgres://carillon:${text("postgres-password")}@${full}-postgresql:5432/carillon`,
    );
  });

  test("upgrade: values change, generated secrets do not", async () => {
    const before = (await secret()).data;
    const changed = { ...values(), retentionDays: 7, controller: { replicas: 3 } };
    const args = ["upgrade", release, CHART, "--namespace", namespace, ...toSet(changed)];
    expect(await helm(args, kubeconfig)).toContain("STATUS: deployed");
    expect((await secret()).data).toEqual(before);
    const controller = await json<{ spec: { replicas: number } }>(
      "-n",
      namespace,
      "get",
      "deployment",
      `${full}-controller`,
    );
    expect(controller.spec.replicas).toBe(3);
  });

  test("upgrade to Secrets of one's own: the generated key is kept for the way back", async () => {
    const before = (await secret()).data;
    const own = {
      ...values(),
      encryption: { existingSecret: "own" },
      bootstrap: { enabled: false },
    };
    const args = ["upgrade", release, CHART, "--namespace", namespace];
    await helm([...args, ...toSet(own)], kubeconfig);
    expect((await secret()).data).toEqual(before);
    await helm([...args, ...toSet(values())], kubeconfig);
    expect((await secret()).data).toEqual(before);
  });

  test("rollback: a ring in a Secret of one's own stays as it is", async () => {
    const keys = async () =>
      (await json<{ data: { keys: string } }>("-n", namespace, "get", "secret", "ring")).data.keys;
    await kube(
      "-n",
      namespace,
      "create",
      "secret",
      "generic",
      "ring",
      "--from-literal=keys=k1:old",
    );
    const own = { ...values(), encryption: { existingSecret: "ring" } };
    const before = (await secret()).data;
    await helm(["upgrade", release, CHART, "-n", namespace, ...toSet(own)], kubeconfig);
    const patch = JSON.stringify({ stringData: { keys: "k2:new" } });
    await kube("-n", namespace, "patch", "secret", "ring", "--type", "merge", "-p", patch);
    const rotated = await keys();
    await helm(["rollback", release, "-n", namespace], kubeconfig);
    expect(await keys()).toBe(rotated);
    expect((await secret()).data).toEqual(before);
  });

  test("upgrade: a newer chart leaves the database's pod alone", async () => {
    const template = async () =>
      (
        await json<{ spec: { template: unknown } }>(
          "-n",
          namespace,
          "get",
          "statefulset",
          `${full}-postgresql`,
        )
      ).spec.template;
    const before = await template();
    const args = ["upgrade", release, CHART, "--namespace", namespace];
    await helm([...args, ...toSet({ ...values(), image: { tag: "9.9.9" } })], kubeconfig);
    expect(await template()).toEqual(before);
    expect(JSON.stringify(before)).not.toContain("helm.sh/chart");
  });

  describe("rights", () => {
    const table = [
      { part: "gateway", ask: "create scheduledjobs.carillon.dev -A", may: true },
      { part: "gateway", ask: "delete scheduledjobs.carillon.dev -A", may: true },
      {
        part: "gateway",
        ask: "patch scheduledjobs.carillon.dev --subresource=status -A",
        may: false,
      },
      { part: "gateway", ask: "get leases.coordination.k8s.io -n HOME", may: false },
      { part: "gateway", ask: "create events.events.k8s.io -A", may: false },
      { part: "gateway", ask: "get namespaces", may: true },
      { part: "gateway", ask: "list namespaces", may: false },
      { part: "gateway", ask: "get secrets -n HOME", may: false },
      { part: "gateway", ask: "get secrets -A", may: false },
      { part: "gateway", ask: "create pods -n HOME", may: false },
      { part: "controller", ask: "watch scheduledjobs.carillon.dev -A", may: true },
      {
        part: "controller",
        ask: "patch scheduledjobs.carillon.dev --subresource=status -A",
        may: true,
      },
      { part: "controller", ask: "get scheduledjobs.carillon.dev -A", may: false },
      { part: "controller", ask: "update scheduledjobs.carillon.dev -A", may: false },
      { part: "controller", ask: "patch scheduledjobs.carillon.dev -A", may: false },
      { part: "controller", ask: "delete scheduledjobs.carillon.dev -A", may: false },
      { part: "controller", ask: "create leases.coordination.k8s.io -n HOME", may: true },
      { part: "controller", ask: "update leases.coordination.k8s.io/LEASE -n HOME", may: true },
      { part: "controller", ask: "update leases.coordination.k8s.io/other -n HOME", may: false },
      { part: "controller", ask: "create leases.coordination.k8s.io -n TEAM", may: false },
      { part: "controller", ask: "get secrets -n HOME", may: false },
      { part: "controller", ask: "get secrets -A", may: false },
      { part: "controller", ask: "impersonate users", may: false },
    ] as const;
    test.each(table)("$part: $ask → $may", async ({ part, ask, may: expected }) => {
      const question = ask
        .replace("HOME", namespace)
        .replace("TEAM", team)
        .replace("LEASE", `${full}-controller`);
      expect(await may(part, ...question.split(" "))).toBe(expected);
    });

    test("people who may edit a namespace may edit its jobs", async () => {
      const said = await kube("get", "clusterrole", `${namespace}:${full}-edit`, "-o", "json");
      expect(JSON.parse(said)).toMatchObject({
        metadata: { labels: { "rbac.authorization.k8s.io/aggregate-to-edit": "true" } },
      });
    });
  });

  test("upgrade to a list of namespaces: what lies outside is out of reach", async () => {
    const narrow = { ...values(), watchNamespaces: [team], headerSecretNamespaces: [team] };
    const args = ["upgrade", release, CHART, "--namespace", namespace, ...toSet(narrow)];
    await helm(args, kubeconfig);
    // Rights begin and end a moment after they are written.
    const becomes = async (part: "gateway" | "controller", question: string, expected: boolean) => {
      const answer = () => may(part, ...question.split(" "));
      await expect.poll(answer, { message: question }).toBe(expected);
    };
    await becomes("gateway", `create scheduledjobs.carillon.dev -n ${team}`, true);
    await becomes("gateway", `create scheduledjobs.carillon.dev -n ${namespace}`, false);
    await becomes("controller", "watch scheduledjobs.carillon.dev -A", false);
    await becomes("controller", `get namespaces/${team}`, true);
    await becomes("controller", `get namespaces/${namespace}`, false);
    await becomes("controller", `get secrets -n ${team}`, true);
    expect(await may("controller", "list", "secrets", "-n", team)).toBe(false);
    expect(await may("gateway", "get", "secrets", "-n", team)).toBe(false);
  });

  test("uninstall leaves the Secret with the encryption key, and nothing else", async () => {
    await helm(["uninstall", release, "--namespace", namespace], kubeconfig);
    const owned = ["-l", `app.kubernetes.io/instance=${release}`, "-o", "name"];
    const kinds = [
      "deployments,statefulsets,services,serviceaccounts,secrets,configmaps,roles,rolebindings,leases",
      "poddisruptionbudgets,networkpolicies,horizontalpodautoscalers",
    ].join(",");
    // Without kube-controller-manager nobody creates further objects for them.
    const left = (await kube("get", kinds, "-A", ...owned)).trim().split("\n");
    expect(left).toEqual([`secret/${full}-generated`]);
    expect((await kube("get", "clusterroles,clusterrolebindings", ...owned)).trim()).toBe("");
  });

  test("a second install takes the kept Secret over", async () => {
    const before = (await secret()).data;
    await helm(["install", release, CHART, "-n", namespace, ...toSet(values())], kubeconfig);
    expect((await secret()).data).toEqual(before);
    await helm(["uninstall", release, "-n", namespace], kubeconfig);
  });

  test("an install, and an upgrade, beside a Lease that a controller outside the cluster has made", async () => {
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
    const metadata = { name: `${full}-controller`, namespace };
    const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata };
    await client.call({ verb: "create", resource: "leases", path: leases, body: lease });
    for (const command of ["install", "upgrade"])
      await helm([command, release, CHART, "-n", namespace, ...toSet(values())], kubeconfig);
    await helm(["uninstall", release, "-n", namespace], kubeconfig);
    expect(await kube("get", "leases", "-n", namespace, "-o", "name")).toBe(
      `lease.coordination.k8s.io/${full}-controller\n`,
    );
  });
});
