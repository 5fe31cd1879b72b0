import { copiedText } from "../domain/copied-text.ts";
import type { JobOwner } from "../domain/job.ts";

/** Marks resources that REST made and nobody else owns. */
export const MANAGED_BY_LABEL = "app.kubernetes.io/managed-by";
export const MANAGED_BY = "carillon";

interface OwnedMeta {
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: { kind: string; name: string; controller?: boolean }[];
}

/**
 * Who would put the resource back as it was if REST changed it: null when nobody. Argo CD and Flux
 * reconcile all the time, Helm at its next upgrade, an owning controller at once.
 */
export function resourceOwner(metadata: OwnedMeta): JobOwner | null {
  const labels = metadata.labels ?? {};
  const annotations = metadata.annotations ?? {};

  // `<application>:<group>/<kind>:<namespace>/<name>`
  const tracking = bounded(annotations["argocd.argoproj.io/tracking-id"]);
  const application = tracking?.split(":")[0] ?? labels["argocd.argoproj.io/instance"];
  if (application) return { tool: "Argo CD", name: application };

  for (const [prefix, kind] of [
    ["kustomize.toolkit.fluxcd.io", "Kustomization"],
    ["helm.toolkit.fluxcd.io", "HelmRelease"],
  ] as const) {
    const name = labels[`${prefix}/name`];
    const namespace = labels[`${prefix}/namespace`];
    if (name) return { tool: "Flux", name: `${kind} ${namespace ? `${namespace}/` : ""}${name}` };
  }

  const release = bounded(annotations["meta.helm.sh/release-name"]);
  if (release) {
    const namespace = bounded(annotations["meta.helm.sh/release-namespace"]);
    return { tool: "Helm", name: `release ${namespace ? `${namespace}/` : ""}${release}` };
  }

  const controller = metadata.ownerReferences?.find((reference) => reference.controller === true);
  if (controller) return { tool: bounded(controller.kind), name: bounded(controller.name) };

  const manager = labels[MANAGED_BY_LABEL];
  if (manager && manager !== MANAGED_BY) {
    const name = labels["app.kubernetes.io/instance"] ?? labels["app.kubernetes.io/name"];
    return { tool: manager, name: name ?? MANAGED_BY_LABEL };
  }
  return null;
}

/** REST made the resource, and nobody else owns it now. */
export function isMadeByRest(metadata: OwnedMeta): boolean {
  return metadata.labels?.[MANAGED_BY_LABEL] === MANAGED_BY && resourceOwner(metadata) === null;
}

/** Longer than any name that a tool gives. */
const MOST = 512;

/** Owners are kept with their jobs, and an annotation may have 256 KiB. */
function bounded<T extends string | undefined>(text: T): T | string {
  if (text === undefined || text.length <= MOST) return text;
  return `${copiedText(text.slice(0, MOST).toWellFormed())}…`;
}
