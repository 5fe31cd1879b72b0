import { GROUP, PLURAL, VERSION } from "./scheduled-job.ts";

/** Undefined stands for the whole cluster. */
export type Scope = string | undefined;

/** What is listed and watched: the cluster at once, or each of the given namespaces. */
export function scopesOf(namespaces: readonly string[] | undefined): readonly Scope[] {
  if (namespaces === undefined) return [undefined];
  if (namespaces.length === 0) throw new Error("an empty list of namespaces would see no job");
  return [...new Set(namespaces)].sort();
}

export function jobsPath(namespace: Scope, name?: string): string {
  const inside = namespace === undefined ? "" : `/namespaces/${encodeURIComponent(namespace)}`;
  const resource = name === undefined ? "" : `/${encodeURIComponent(name)}`;
  return `/apis/${GROUP}/${VERSION}${inside}/${PLURAL}${resource}`;
}

/** Resource versions by scope (the empty name: the cluster). The cluster's position is written as its version alone. */
export type Positions = ReadonlyMap<string, string>;

export function encodePosition(positions: Positions): string {
  const only = positions.size === 1 ? positions.get("") : undefined;
  return only ?? new URLSearchParams([...positions]).toString();
}

export function decodePosition(position: string): Map<string, string> {
  if (!position.includes("=")) return new Map([["", position]]);
  return new Map(new URLSearchParams(position));
}
