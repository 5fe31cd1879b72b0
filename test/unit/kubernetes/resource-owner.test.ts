import { expect, test } from "vitest";
import { resourceOwner } from "../../../src/kubernetes/resource-owner.ts";

const CASES: {
  title: string;
  metadata: Parameters<typeof resourceOwner>[0];
  owner: ReturnType<typeof resourceOwner>;
}[] = [
  { title: "nobody", metadata: {}, owner: null },
  {
    title: "made by REST",
    metadata: { labels: { "app.kubernetes.io/managed-by": "carillon" } },
    owner: null,
  },
  {
    title: "plain kubectl apply",
    metadata: { annotations: { "kubectl.kubernetes.io/last-applied-configuration": "{}" } },
    owner: null,
  },
  {
    title: "Argo CD by annotation",
    metadata: {
      annotations: {
        "argocd.argoproj.io/tracking-id": "shop:carillon.dev/ScheduledJob:team-a/nightly",
      },
    },
    owner: { tool: "Argo CD", name: "shop" },
  },
  {
    title: "Argo CD by label",
    metadata: { labels: { "argocd.argoproj.io/instance": "shop" } },
    owner: { tool: "Argo CD", name: "shop" },
  },
  {
    title: "Flux Kustomization",
    metadata: {
      labels: {
        "kustomize.toolkit.fluxcd.io/name": "apps",
        "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
      },
    },
    owner: { tool: "Flux", name: "Kustomization flux-system/apps" },
  },
  {
    title: "Flux HelmRelease wins over the Helm that it runs",
    metadata: {
      labels: {
        "app.kubernetes.io/managed-by": "Helm",
        "helm.toolkit.fluxcd.io/name": "shop",
        "helm.toolkit.fluxcd.io/namespace": "team-a",
      },
      annotations: { "meta.helm.sh/release-name": "shop" },
    },
    owner: { tool: "Flux", name: "HelmRelease team-a/shop" },
  },
  {
    title: "Helm",
    metadata: {
      labels: { "app.kubernetes.io/managed-by": "Helm" },
      annotations: {
        "meta.helm.sh/release-name": "shop",
        "meta.helm.sh/release-namespace": "team-a",
      },
    },
    owner: { tool: "Helm", name: "release team-a/shop" },
  },
  {
    title: "an owning controller",
    metadata: { ownerReferences: [{ kind: "Shop", name: "main", controller: true }] },
    owner: { tool: "Shop", name: "main" },
  },
  {
    title: "an owner that does not control",
    metadata: { ownerReferences: [{ kind: "Shop", name: "main" }] },
    owner: null,
  },
  {
    title: "any other manager",
    metadata: {
      labels: { "app.kubernetes.io/managed-by": "pulumi", "app.kubernetes.io/instance": "shop" },
    },
    owner: { tool: "pulumi", name: "shop" },
  },
];

test.each(CASES)("$title", ({ metadata, owner }) => {
  expect(resourceOwner(metadata)).toEqual(owner);
});

test("a name of any length is kept as a short one", () => {
  const annotations = { "argocd.argoproj.io/tracking-id": "x".repeat(200_000) };
  expect(resourceOwner({ annotations })?.name).toBe(`${"x".repeat(512)}…`);
});
