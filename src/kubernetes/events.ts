import { createHash, randomBytes } from "node:crypto";
import { StringDecoder } from "node:string_decoder";
import { LRUCache } from "lru-cache";
import type { Instant } from "../domain/instant.ts";
import type { Monotonic, Timer, Timers } from "../domain/ports/clock.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { isNotFound } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import { microTime } from "./lease.ts";
import { API_VERSION, KIND } from "./scheduled-job.ts";
import { pause } from "../waiting/pause.ts";
import { createTokenBucket, type TokenBucket } from "../waiting/token-bucket.ts";

export interface NewEvent {
  uid: string;
  namespace: string;
  name: string;
  type: "Normal" | "Warning";
  /** CamelCase, stable: people filter by it. */
  reason: string;
  /** What was being done: Schedule, Deliver. */
  action: string;
  /** For people. A time stands in it only where it is the news: texts that differ are not aggregated. */
  note: string;
}

export interface EventRecorder {
  /** Neither throws nor waits: an event that cannot be written is dropped and counted. */
  record(event: NewEvent): void;
  /**
   * For the end of a leadership: repetitions that are held back (`PATCH_EVERY_MS`) are written with a later repetition,
   * or never.
   */
  dropHeldBack(): void;
  /** Resolves when everything recorded so far is written or dropped. */
  settled(): Promise<void>;
  /** As `settled`, for the end of a process: what the API server has not taken within two seconds is dropped. */
  close(): Promise<void>;
}

export interface EventRecorderDependencies {
  client: KubernetesClient;
  /** The replica, POD_NAME. */
  instance: string;
  monotonic: Monotonic;
  timers: Timers;
  wallClock: () => Instant;
  metrics: Pick<Metrics, "kubernetesEvents">;
}

/** client-go ends a series after 6 minutes without a repetition. */
const SERIES_MS = 6 * 60_000;
/** A repeated event is patched at most this often; the count catches up when that time is over. */
const PATCH_EVERY_MS = 10_000;
/** Per object: this many at once, then one a minute. */
const BURST = 10;
const PER_SECOND = 1 / 60;
const MAX_OBJECTS = 10_000;
const MAX_WAITING = 1_000;
/**
 * For all together, in the long run; as many as may wait are written at once. The API server keeps Events for an hour:
 * when a large installation's jobs fail for longer, as many as it takes would fill etcd, and with it stop the cluster.
 */
const WRITES_PER_SECOND = 20;
/** For the end of a process: one call to an API server that does not answer may take longer than there is time. */
const LAST_WRITES_MS = 2_000;
/** The API server's limit, although its message speaks of characters. */
const NOTE_BYTES = 1_024;
/** The API server's limit, too. A pod's name may have 253. */
const INSTANCE_BYTES = 128;

interface Series {
  name: string;
  count: number;
  writtenCount: number;
  patchedAt: number;
}

/** Events of events.k8s.io/v1 on ScheduledJobs: what repeats becomes one Event with a series. */
export function createEventRecorder(dependencies: EventRecorderDependencies): EventRecorder {
  const { client, monotonic, timers, wallClock, metrics } = dependencies;
  const time = { perf: { now: monotonic }, ttlResolution: 0 };
  const series = new LRUCache<string, Series>({ max: MAX_OBJECTS, ttl: SERIES_MS, ...time });
  /** Timers until held back repetitions are written. Beyond `MAX_WAITING` they are written with the next repetition. */
  const heldBack = new Map<Series, Timer>();
  const buckets = new LRUCache<string, TokenBucket>({ max: MAX_OBJECTS });
  const allWrites = createTokenBucket({
    perSecond: WRITES_PER_SECOND,
    burst: MAX_WAITING,
    monotonic,
  });
  /** Writes by namespace, in the order of their turns. */
  const waiting = new Map<string, (() => Promise<void>)[]>();
  /** The writes that wait, and the one under way. */
  let unwritten = 0;
  let pumping: Promise<void> = Promise.resolve();
  /** Aborts when the process ends: the writes that wait are written without a pause. */
  const hurry = new AbortController();
  /** Aborts when there is no more time for them. */
  const ending = new AbortController();

  /**
   * When too many wait, the namespace with the most writes loses one in favour of a namespace that has at least two
   * fewer; otherwise the new one is dropped.
   */
  function enqueue(namespace: string, write: () => Promise<void>): void {
    const theirs = waiting.get(namespace) ?? [];
    if (unwritten >= MAX_WAITING) {
      metrics.kubernetesEvents.inc({ outcome: "dropped" });
      let most = theirs;
      for (const others of waiting.values()) if (others.length > most.length) most = others;
      if (most.length < theirs.length + 2) return;
      most.pop();
      unwritten -= 1;
    }
    theirs.push(write);
    waiting.set(namespace, theirs);
    unwritten += 1;
    if (unwritten === 1) pumping = pump();
  }

  /** One write at a time, the namespaces in turn: events are the least important work of the API server. */
  async function pump(): Promise<void> {
    for (const [namespace, theirs] of waiting) {
      while (!hurry.signal.aborted && !allWrites.take())
        await pause(1_000 / WRITES_PER_SECOND, timers, hurry.signal);
      const write = theirs.shift();
      waiting.delete(namespace);
      if (theirs.length > 0) waiting.set(namespace, theirs);
      try {
        await write?.();
      } catch {
        metrics.kubernetesEvents.inc({ outcome: "error" });
      }
      unwritten -= 1;
    }
  }

  async function create(event: NewEvent, known: Series): Promise<void> {
    const { count } = known;
    await client.call({
      verb: "create",
      resource: "events",
      path: eventsPath(event.namespace),
      signal: ending.signal,
      body: {
        apiVersion: "events.k8s.io/v1",
        kind: "Event",
        metadata: { name: known.name, namespace: event.namespace },
        eventTime: microTime(wallClock()),
        ...(count > 1 && { series: seriesOf(count) }),
        reportingController: "carillon.dev/controller",
        reportingInstance: firstBytes(dependencies.instance, INSTANCE_BYTES),
        type: event.type,
        reason: event.reason,
        action: event.action,
        note: firstBytes(event.note, NOTE_BYTES),
        regarding: {
          apiVersion: API_VERSION,
          kind: KIND,
          namespace: event.namespace,
          name: event.name,
          uid: event.uid,
        },
      },
    });
    known.writtenCount = count;
    metrics.kubernetesEvents.inc({ outcome: "written" });
  }

  const seriesOf = (count: number) => ({ count, lastObservedTime: microTime(wallClock()) });

  async function repeat(event: NewEvent, known: Series): Promise<void> {
    const { count } = known;
    if (known.writtenCount === count) return;
    try {
      await client.call({
        verb: "patch",
        resource: "events",
        path: `${eventsPath(event.namespace)}/${known.name}`,
        signal: ending.signal,
        body: { series: seriesOf(count) },
      });
    } catch (error) {
      // Somebody deleted the event, or it was never written.
      if (isNotFound(error)) return create(event, known);
      throw error;
    }
    known.writtenCount = count;
    metrics.kubernetesEvents.inc({ outcome: "repeated" });
  }

  function writeRepeated(event: NewEvent, known: Series): void {
    heldBack.get(known)?.cancel();
    heldBack.delete(known);
    known.patchedAt = monotonic();
    enqueue(event.namespace, () => repeat(event, known));
  }

  function holdBack(event: NewEvent, known: Series, forMs: number): void {
    if (hurry.signal.aborted || heldBack.has(known) || heldBack.size >= MAX_WAITING) return;
    heldBack.set(
      known,
      timers.after(forMs, () => writeRepeated(event, known)),
    );
  }

  function dropHeldBack(): void {
    for (const timer of heldBack.values()) timer.cancel();
    heldBack.clear();
  }

  return {
    record(event) {
      const key = createHash("sha1")
        .update([event.uid, event.type, event.reason, event.action, event.note].join("\n"))
        .digest("base64url");
      const known = series.get(key);
      if (known) {
        known.count += 1;
        series.set(key, known);
        const wait = known.patchedAt + PATCH_EVERY_MS - monotonic();
        if (wait > 0) holdBack(event, known, wait);
        else writeRepeated(event, known);
        return;
      }
      let bucket = buckets.get(event.uid);
      if (!bucket) {
        bucket = createTokenBucket({ perSecond: PER_SECOND, burst: BURST, monotonic });
        buckets.set(event.uid, bucket);
      }
      if (!bucket.take()) {
        metrics.kubernetesEvents.inc({ outcome: "dropped" });
        return;
      }
      const first = {
        name: eventName(event.name),
        count: 1,
        writtenCount: 0,
        patchedAt: monotonic(),
      };
      series.set(key, first);
      enqueue(event.namespace, () => create(event, first));
    },
    dropHeldBack,
    settled: () => pumping,
    async close() {
      hurry.abort();
      dropHeldBack();
      const lastWrites = timers.after(LAST_WRITES_MS, () => ending.abort());
      await pumping;
      lastWrites.cancel();
    },
  };
}

/** A DNS subdomain, as the job's name is. The cut-off name must not end in a hyphen or dot. */
function eventName(job: string): string {
  return `${job.slice(0, 230).replace(/[^a-z0-9]+$/, "")}.${randomBytes(8).toString("hex")}`;
}

/** At most `limit` bytes of UTF-8, without a part of a character at the end. */
function firstBytes(text: string, limit: number): string {
  return new StringDecoder("utf8").write(Buffer.from(text).subarray(0, limit));
}

function eventsPath(namespace: string): string {
  return `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/events`;
}
