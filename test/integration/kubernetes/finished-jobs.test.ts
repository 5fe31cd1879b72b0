import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { Job } from "../../../src/domain/job.ts";
import type { JobStore } from "../../../src/domain/ports/job-store.ts";
import { onceSpec } from "../../conformance/job-store.ts";
import { connect, createNamespace, installCrd, jobStore } from "../../kubernetes/cluster.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";

const kubeconfig = inject("kubeconfig");

describe.runIf(kubeconfig !== "")("what of a namespace is deleted when it is over", () => {
  let cluster: ReturnType<typeof connect>;
  let jobs: JobStore;
  let account: string;
  let path: (name: string) => string;
  beforeAll(async () => {
    cluster = connect(kubeconfig);
    await installCrd(cluster);
    const { name: namespace } = await createNamespace(cluster, "finished");
    path = (name) => `/apis/carillon.dev/v1/namespaces/${namespace}/scheduledjobs/${name}`;
    const accountNamespaces = namespaceAccounts([]);
    account = accountNamespaces.bind(namespace);
    jobs = jobStore(cluster, accountNamespaces);
  });
  afterAll(async () => {
    await cluster?.close();
  });

  const made = (id: string) =>
    jobs.create({ account, id, spec: onceSpec(Date.UTC(2035, 0, 31), { suspend: true }) });
  const patch = (name: string, body: object, subresource = "") =>
    cluster.call({
      verb: "patch",
      resource: "scheduledjobs",
      path: path(name) + subresource,
      body,
    });
  const isThere = async ({ id }: Job) => (await jobs.get(account, id)) !== undefined;

  test.each([
    { of: "applied", labels: { "app.kubernetes.io/managed-by": null } },
    { of: "taken-over", labels: { "app.kubernetes.io/managed-by": "Helm" } },
    { of: "tracked", annotations: { "argocd.argoproj.io/tracking-id": "app:g/K:ns/n" } },
    { of: "asked-to-run", annotations: { "carillon.dev/run-now": "1" } },
  ])("not what is $of since", async ({ of, ...metadata }) => {
    const job = await made(of);
    await patch(of, { metadata });
    expect(await jobs.deleteUnchanged(job)).toBe(false);
    expect(await isThere(job)).toBe(true);
  });

  test("not what somebody took over with the same label", async () => {
    const job = await made("labelled");
    await patch("labelled", { metadata: { labels: { "argocd.argoproj.io/instance": "app" } } });
    const now = await jobs.get(account, "labelled");
    expect(await jobs.deleteUnchanged(now ?? job)).toBe(false);
  });

  test("what REST made, whatever its status says by now", async () => {
    const job = await made("made");
    await patch("made", { status: { phase: "Completed" } }, "/status");
    expect(await jobs.deleteUnchanged(job)).toBe(true);
    expect(await isThere(job)).toBe(false);
  });
});
