import type { AccountNamespaces, Bindings } from "../domain/ports/account-namespaces.ts";
import {
  ChangeUnread,
  PositionExpired,
  type JobEvent,
  type JobStore,
} from "../domain/ports/job-store.ts";
import { namespacesBetween } from "./account-namespaces.ts";
import { merge } from "./merge.ts";
import { Relisted } from "./relisted.ts";
import { decodePosition, encodePosition, type Scope } from "./scope.ts";
import { isUnlisted } from "./list-probe.ts";
import { createScopeWatch, type ScopeWatchDependencies } from "./scope-watch.ts";

export interface JobWatchDependencies extends Omit<ScopeWatchDependencies, "several"> {
  accountNamespaces: AccountNamespaces;
  scopes: readonly Scope[];
  /** The bindings that the last list was read under. */
  listedUnder(): Bindings | undefined;
}

/** Whose the jobs are said to be. */
interface Told {
  /** By the last list. */
  listedUnder: Bindings;
  /**
   * By the lists of single namespaces since. A watch that is opened again goes on from here: what got its former account
   * back meanwhile is as the last list has it, but not as it was told of later.
   */
  relistedUnder: Map<Scope, Bindings>;
}

/** When more namespaces than these are bound anew at once, all jobs are listed. */
const MOST_RELISTED = 20;

/** The `watch` of the JobStore port. */
export function createJobWatch(dependencies: JobWatchDependencies): JobStore["watch"] {
  const { accountNamespaces, scopes } = dependencies;
  const several = scopes.length > 1;
  const ofScope = createScopeWatch({ ...dependencies, several });
  let told: Told | undefined;

  /**
   * Follows a scope, and lists the jobs of its namespaces that are bound to another account than under these bindings.
   * No event tells of that: PostgreSQL, not the resource, knows which account a job belongs to.
   */
  async function* watchScope(
    scope: Scope,
    from: { position: string; told: Told },
    signal: AbortSignal,
  ): AsyncGenerator<JobEvent> {
    let { position } = from;
    const { listedUnder, relistedUnder } = from.told;
    let bindings = relistedUnder.get(scope) ?? listedUnder;
    const relisted = new Relisted();
    const isWatched = (namespace: string): boolean => scope === undefined || namespace === scope;
    while (!signal.aborted) {
      const ending = new AbortController();
      const either = AbortSignal.any([signal, ending.signal]);
      let rebound: string[] = [];
      const follow = async (): Promise<void> => {
        while (rebound.length === 0) {
          const now = await accountNamespaces.changedSince(bindings, either);
          if (now === undefined) return;
          rebound = namespacesBetween(bindings, now).filter(isWatched);
          bindings = now;
        }
        ending.abort();
      };
      void follow();
      try {
        for await (const event of ofScope.watch(scope, { position, relisted }, either)) {
          yield event;
          ({ position } = event);
        }
        if (rebound.length > MOST_RELISTED)
          throw new PositionExpired(`${rebound.length} namespaces were bound to other accounts`);
        // One that could not be listed so far is listed with all others as soon as it can be.
        if (scope !== undefined && isUnlisted(position)) continue;
        for (const namespace of rebound)
          yield* ofScope.relist(namespace, { position, relisted }, signal);
        if (!signal.aborted) relistedUnder.set(scope, bindings);
      } catch (error) {
        // The caller would watch from the same position, and be told what is older than the list.
        if (relisted.isAhead && !(error instanceof ChangeUnread))
          throw new PositionExpired("a watch ended before it came as far as a list", {
            cause: error,
          });
        throw error;
      } finally {
        ending.abort();
      }
    }
  }

  /** The changes of all scopes, until one of them fails. The caller then aborts the signal, which ends the others. */
  async function* watchAll(
    from: { position: string; told: Told },
    signal: AbortSignal,
  ): AsyncGenerator<JobEvent> {
    if (!several && scopes[0] === undefined) {
      yield* watchScope(undefined, from, signal);
      return;
    }
    // One watch for each namespace: the caller resumes all of them from the last positions.
    const positions = decodePosition(from.position);
    const watches = scopes.map((scope) => {
      const position = positions.get(scope ?? "");
      if (position === undefined)
        throw new PositionExpired(`no position for namespace ${scope ?? ""}`);
      return watchScope(scope, { ...from, position }, signal);
    });
    for await (const { index, value } of merge(watches)) {
      positions.set(scopes[index] ?? "", value.position);
      yield { ...value, position: encodePosition(positions) };
    }
  }

  return async function* watch(position, signal) {
    const ending = new AbortController();
    const listedUnder = dependencies.listedUnder() ?? (await accountNamespaces.bindings());
    if (told?.listedUnder !== listedUnder) told = { listedUnder, relistedUnder: new Map() };
    try {
      yield* watchAll({ position, told }, AbortSignal.any([signal, ending.signal]));
    } finally {
      ending.abort();
    }
  };
}
