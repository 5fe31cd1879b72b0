import { LRUCache } from "lru-cache";
import type { AccountNamespaces } from "../domain/ports/account-namespaces.ts";
import type { Monotonic, Random, Timers } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import {
  ChangeUnread,
  JOBS_PER_PAGE,
  PositionExpired,
  type JobEvent,
} from "../domain/ports/job-store.ts";
import { pause } from "../waiting/pause.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { ApiError, isExpired } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import { allPages, listResources } from "./list-resources.ts";
import type { Relisted } from "./relisted.ts";
import { isBefore, isComparable } from "./resource-version.ts";
import type { ResourceMemory } from "./resource-memory.ts";
import { PLURAL, keptJobFromResource, type ScheduledJob } from "./scheduled-job.ts";
import { jobsPath, type Scope } from "./scope.ts";
import {
  isForbiddenOrNotServed,
  isUnlisted,
  PROBE_MS,
  probeList,
  type Unlisted,
} from "./list-probe.ts";
import { MalformedWatch, watchError, watchEvents, type WatchEvent } from "./watch-events.ts";

export interface ScopeWatchDependencies {
  client: KubernetesClient;
  accountNamespaces: Pick<AccountNamespaces, "accountOf" | "forget">;
  monotonic: Monotonic;
  timers: Timers;
  random: Random;
  metrics: Pick<Metrics, "kubernetesWatchEnds">;
  /** Watches of other scopes begin and end with each. */
  several: boolean;
  /**
   * Milliseconds without a byte after which a watch counts as lost. Default 100 s, ≥ 90 s in production: bookmarks
   * come once a minute.
   */
  inactivityMs?: number;
  /** Told of every resource that a watch, and a list without an account, bring. */
  memory?: Pick<ResourceMemory, "seen">;
}

/** client-go's range. The server ends each watch at a random time in it, so that a fleet's do not end at once. */
const TIMEOUT_SECONDS = { min: 300, max: 600 };
/**
 * Bookmarks come once a minute. Longer silence means that the API server is gone, or that nothing of this kind has
 * changed since it started and etcd has not told it of its progress yet (every 10 minutes unless configured).
 */
const INACTIVITY_MS = 100_000;
/** A server that ends watches faster than this is in trouble: the caller must back off. */
const SHORTEST_MS = 1_000;
/** Between two tries when one of several namespaces may be listed but not watched. */
const REFUSED_MS = 10_000;
/** Between two looks at a namespace that could not be listed. */
const LOOK_AGAIN_MS = 30_000;
/**
 * Before the first look at a namespace that refused; then ever longer. An API server that has just started refuses
 * everybody.
 */
const LOOK_SOON_MS = 1_000;
const MAX_SUSPECTS = 1_000;

/** Follows the jobs of one scope. */
export interface ScopeWatch {
  /**
   * Changes after the position, as in the JobStore port, until the signal aborts. A watch that the server ends in good
   * order is resumed from where it was; whatever else ends it is thrown, for the caller to back off. The position moves
   * past an event only once its account is known and it has been handed out, so that an error in between loses none.
   * What `relisted` has shown already is told as a bookmark.
   */
  watch(
    scope: Scope,
    from: { position: string; relisted: Relisted },
    signal: AbortSignal,
  ): AsyncGenerator<JobEvent>;
  /**
   * All jobs of a namespace in the scope as changes, while the scope's watch rests at this position. Throws
   * PositionExpired when the watch could not tell afterwards what the list has shown.
   */
  relist(
    namespace: string,
    at: { position: string; relisted: Relisted },
    signal: AbortSignal,
  ): AsyncGenerator<JobEvent>;
}

export function createScopeWatch(dependencies: ScopeWatchDependencies): ScopeWatch {
  const { client, accountNamespaces, monotonic, timers, random, metrics, several } = dependencies;
  const inactivityMs = dependencies.inactivityMs ?? INACTIVITY_MS;
  /**
   * Namespaces in which jobs were deleted, and none was seen since: they may be deleted and made again. Where
   * namespaces come and go all the time, most stay gone: beyond the limit the account of the oldest is forgotten at
   * once, instead of at its next job.
   */
  const suspects = new LRUCache<string, true>({
    max: MAX_SUSPECTS,
    dispose: (_, namespace, reason) => {
      if (reason === "evict") accountNamespaces.forget(namespace);
    },
  });

  /** The position at which a watch last fell silent. */
  const silentAt = new Map<Scope, string>();

  /**
   * When each namespace that could not be listed is looked at next (monotonic), and how long that is after the look
   * before. Kept here, because all watches end with one of them, which may break more often than that.
   */
  const nextLooks = new Map<string, { at: number; afterMs: number }>();

  async function* watch(
    scope: Scope,
    { position, relisted }: { position: string; relisted: Relisted },
    signal: AbortSignal,
  ): AsyncGenerator<JobEvent> {
    if (scope !== undefined && isUnlisted(position)) {
      await untilListable(scope, position, signal);
      return;
    }
    nextLooks.delete(scope ?? "");
    let at = position;
    // A watch may begin after an outage in which etcd was restored.
    let doubted = true;
    let refusedBefore = false;
    while (!signal.aborted) {
      const { min, max } = TIMEOUT_SECONDS;
      const began = monotonic();
      try {
        if (doubted) doubted = !(await isReached(scope, at, signal));
        const body = await client.watch({
          resource: PLURAL,
          path: jobsPath(scope),
          query: {
            watch: "true",
            resourceVersion: at,
            allowWatchBookmarks: "true",
            timeoutSeconds: Math.round(min + random() * (max - min)),
          },
          signal,
          inactivityMs,
        });
        refusedBefore = false;
        try {
          // Tells the caller that the store answers: the next event may be a minute away.
          yield { type: "bookmark", position: at };
          for await (const events of watchEvents<ScheduledJob>(body as AsyncIterable<Buffer>))
            for (const { event, account } of withAccounts(events)) {
              if (event.type === "ERROR") throw watchError(event.object);
              const version = event.object.metadata.resourceVersion;
              const isKnown =
                event.type === "BOOKMARK" ||
                (account !== undefined &&
                  relisted.hasShown(event.object.metadata.namespace, version));
              yield isKnown
                ? { type: "bookmark", position: version }
                : jobEvent(event.object, await account);
              at = version;
              relisted.reached(at);
            }
        } finally {
          body.destroy();
        }
      } catch (error) {
        if (signal.aborted) return;
        if ((error as NodeJS.ErrnoException).code === "UND_ERR_BODY_TIMEOUT") {
          metrics.kubernetesWatchEnds.inc({ reason: "inactive" });
          silentAt.set(scope, at);
          doubted = true;
          continue;
        }
        if (scope === undefined || !isForbiddenOrNotServed(error)) throw failure(error);
        await onRefusal(scope, error, { before: refusedBefore, signal });
        refusedBefore = true;
        continue;
      }
      if (signal.aborted) return;
      metrics.kubernetesWatchEnds.inc({ reason: "timeout" });
      if (monotonic() - began < SHORTEST_MS)
        throw new DependencyUnavailable("kubernetes", {
          cause: new Error("the API server ended a watch as soon as it had begun"),
        });
    }
  }

  async function* relist(
    namespace: string,
    { position, relisted }: { position: string; relisted: Relisted },
    signal: AbortSignal,
  ): AsyncGenerator<JobEvent> {
    const read = (token: string | undefined) =>
      listResources(client, namespace, { limit: JOBS_PER_PAGE, continue: token, signal });
    try {
      for await (const { metadata, items } of allPages(read)) {
        const { resourceVersion: version } = metadata;
        // The same on every page: they are of one snapshot.
        if (!isComparable(version) || !isComparable(position))
          throw new PositionExpired(`nobody knows whether ${position} is before ${version}`);
        relisted.add(namespace, version);
        const account = await accountOf(namespace);
        for (const resource of items)
          if (resource.metadata.deletionTimestamp === undefined)
            yield { ...jobEvent(resource, account), position };
      }
    } catch (error) {
      if (!signal.aborted) throw failure(error);
    }
  }

  /**
   * Whether the API server has got as far as `at`. After etcd was restored from a backup it has not, and sends nothing
   * for that position, not even bookmarks: throws PositionExpired, so that the caller lists before the same position is
   * reached again with other content. False when the server did not answer in time: the watch goes on, because a list
   * is the last thing that a busy server needs. Not if the watch was silent at this position before: a server that is
   * cut off from etcd still opens watches.
   */
  async function isReached(scope: Scope, at: string, signal: AbortSignal): Promise<boolean> {
    let now: string;
    try {
      const looked = await listResources(client, scope, { limit: 1, signal, timeoutMs: PROBE_MS });
      now = looked.metadata.resourceVersion;
    } catch (error) {
      if (error instanceof DependencyUnavailable && silentAt.get(scope) !== at) return false;
      throw error;
    }
    if (isBefore(now, at)) throw new PositionExpired(`the API server is at ${now}, before ${at}`);
    return true;
  }

  /**
   * After a watch was refused. Throws, except when aborted, or at the first refusal if the namespace can be listed: the
   * watch may be allowed by now.
   */
  async function onRefusal(
    scope: string,
    error: ApiError,
    { before, signal }: { before: boolean; signal: AbortSignal },
  ): Promise<void> {
    const now = await probeList(client, scope).catch((cause: unknown) => {
      throw failure(cause);
    });
    // The next list leaves the namespace out, and the next watch waits for it.
    if (now !== "listed")
      throw failure(new PositionExpired(`namespace ${scope}: ${now}`, { cause: error }));
    // The API server may just have started.
    if (!before) return pause(LOOK_SOON_MS, timers, signal);
    // The watches of the other namespaces begin and end with this one. They answer, so that the caller does not back
    // off by itself.
    if (several) await pause(REFUSED_MS, timers, signal);
    if (!signal.aborted) throw failure(error);
  }

  /** Throws when the namespace was made (again), gave our rights back, or is gone at last: the caller lists again. */
  async function untilListable(scope: string, was: Unlisted, signal: AbortSignal): Promise<void> {
    let afterMs = was === "refused" ? LOOK_SOON_MS : LOOK_AGAIN_MS;
    for (;;) {
      const look = nextLooks.get(scope) ?? { at: monotonic() + afterMs, afterMs };
      nextLooks.set(scope, look);
      await pause(Math.max(0, look.at - monotonic()), timers, signal);
      if (signal.aborted) return;
      nextLooks.delete(scope);
      afterMs = Math.min(LOOK_AGAIN_MS, look.afterMs * 2);
      // Without an answer nothing is concluded: the watches of the other namespaces notice an outage.
      const now = await probeList(client, scope).catch(() => was);
      if (now !== was && !signal.aborted)
        throw failure(new PositionExpired(`namespace ${scope} was ${was} and is ${now}`));
    }
  }

  /**
   * Events that arrived together, with the accounts of their jobs, which are looked up for all of them at once: one
   * after the other, the answers would come more slowly than the events.
   */
  function withAccounts(events: readonly WatchEvent<ScheduledJob>[]): {
    event: WatchEvent<ScheduledJob>;
    /** Undefined: the event is not about a job, or the job is deleted. */
    account?: Promise<string | null>;
  }[] {
    const forgotten = new Set<string>();
    return events.map((event) => {
      if (event.type === "ERROR" || event.type === "BOOKMARK") return { event };
      const { namespace, deletionTimestamp } = event.object.metadata;
      // A namespace that is deleted deletes its jobs first. When it is made again it is another incarnation, and its
      // jobs must not count for the account that the first one was bound to: so its account is looked up anew at the
      // next job. Once for all events of this batch: where jobs come and go all the time, all others would wait behind
      // the look-ups.
      if (event.type === "DELETED" || deletionTimestamp !== undefined) {
        suspects.set(namespace, true);
        return { event };
      }
      if (suspects.delete(namespace) && !forgotten.has(namespace)) {
        forgotten.add(namespace);
        accountNamespaces.forget(namespace);
      }
      const account = accountOf(namespace);
      // A failure is thrown where the event is handed out. If the watch ends before, nobody awaits it.
      account.catch(() => undefined);
      return { event, account };
    });
  }

  /** `account` is undefined for a job that is deleted. */
  function jobEvent(resource: ScheduledJob, account: string | null | undefined): JobEvent {
    const { uid, resourceVersion: position } = resource.metadata;
    if (account === undefined) return { type: "deleted", uid, position };
    dependencies.memory?.seen(resource);
    return { type: "changed", job: keptJobFromResource(resource, account), position };
  }

  /** Throws ChangeUnread when PostgreSQL, which has the bindings, is away while the API server tells of changes. */
  async function accountOf(namespace: string): Promise<string | null> {
    try {
      return await accountNamespaces.accountOf(namespace);
    } catch (error) {
      if (!(error instanceof DependencyUnavailable)) throw error;
      const { dependency, cause, retryAfterSeconds } = error;
      throw new ChangeUnread(dependency, { cause, retryAfterSeconds });
    }
  }

  /** What the caller gets for an error that ends the watch; counts it, unless the API server refused. */
  function failure(error: unknown): Error {
    if (error instanceof DependencyUnavailable || error instanceof PositionExpired) {
      const reason = error instanceof PositionExpired ? "expired" : "lost";
      metrics.kubernetesWatchEnds.inc({ reason });
      return error;
    }
    if (isExpired(error)) {
      metrics.kubernetesWatchEnds.inc({ reason: "expired" });
      return new PositionExpired("the watch's position is gone", { cause: error });
    }
    // An event may have been lost: the caller lists again.
    if (error instanceof MalformedWatch) {
      metrics.kubernetesWatchEnds.inc({ reason: "malformed" });
      return new PositionExpired("the watch sent what is no event", { cause: error });
    }
    if (error instanceof ApiError) return error;
    metrics.kubernetesWatchEnds.inc({ reason: "lost" });
    return new DependencyUnavailable("kubernetes", { cause: error });
  }

  return { watch, relist };
}
