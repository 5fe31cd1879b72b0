import { circuitKey } from "../domain/circuit-of.ts";
import { copiedText } from "../domain/copied-text.ts";
import { SECOND, type Instant } from "../domain/instant.ts";
import type { JobOutline } from "../domain/job-outline.ts";
import { nextRunAt } from "../domain/job-status.ts";
import type { Circuits } from "../domain/ports/circuits.ts";
import type { Clock, Monotonic, Timers } from "../domain/ports/clock.ts";
import type { Leadership } from "../domain/ports/leadership.ts";
import type { JobHistory, RunHistory } from "../domain/ports/run-history.ts";
import type { Reconciled, StatusReporter } from "../domain/ports/status-reporter.ts";
import { createSharedValues } from "../domain/shared-values.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { ApiError, isByAdmission, isNotFound } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import type { EventRecorder } from "./events.ts";
import { missedEvent, statusEvents, type Told } from "./job-events.ts";
import { createOpenCircuits } from "./open-circuits.ts";
import { pause } from "../waiting/pause.ts";
import { statusDigest, type ResourceMemory } from "./resource-memory.ts";
import { PLURAL, withoutNulls } from "./scheduled-job.ts";
import { jobsPath } from "./scope.ts";
import { createStatusBacklog } from "./status-backlog.ts";
import { statusContent } from "./status-content.ts";
import { createTokenBucket } from "../waiting/token-bucket.ts";

export interface StatusWriterDependencies {
  client: KubernetesClient;
  memory: ResourceMemory;
  history: Pick<RunHistory, "summary">;
  circuits: Pick<Circuits, "listAll">;
  events: Pick<EventRecorder, "record" | "dropHeldBack">;
  /** Asked before each look and try of a write: after the process was stopped, `clear` may come too late. */
  leadership: Pick<Leadership, "holds">;
  clock: Clock;
  monotonic: Monotonic;
  timers: Timers;
  metrics: Pick<Metrics, "statusWrites">;
  log: Pick<Logger, "warn">;
  /** Upper bound of writes a second in the long run. Default 50: etcd takes a few hundred in all. */
  writesPerSecond?: number;
  /** How long a status may lag, so that a run's creation and its end become one write. Default 1 s. */
  settleMs?: number;
}

export interface StatusWriter extends StatusReporter {
  /** Writes until the signal aborts. Never rejects for an outage. */
  run(signal: AbortSignal): Promise<void>;
  /** Jobs whose status is known to be behind; for tests. */
  readonly behind: number;
}

/** There is one for each job, which is why the entries share what is equal. */
interface Entry extends Reconciled {
  job: JobOutline;
  /** When the history is read again, monotonic; doubles from `FIRST_LOOK_MS` while nothing changes. */
  lookAt: number;
  lookAfterMs: number;
  /** Null: read, and there is none. Undefined: not read yet. */
  history: JobHistory | null | undefined;
  told: Told | undefined;
  /** `circuitKey` of the job's destination. */
  circuit: string | null;
  /** Writes of this generation's status that the API server refused in a row; when the next may start, monotonic. */
  refusals: number;
  writeAt: number;
}

const TICK_MS = 200;
const FIRST_LOOK_MS = 1_000;
/** Also how late an unexpected result (of "run now" or a retry) may show up when its hint was lost. */
const LAST_LOOK_MS = 5 * 60_000;
const LOOKS_AT_ONCE = 1_000;
const CONCURRENT_WRITES = 8;
/** Whose keys are kept once for all their jobs. */
const MOST_DESTINATIONS = 16_384;

/**
 * Writes what PostgreSQL says into `status`, as the leader: the whole status, on the subresource, for this
 * incarnation of the job only. Only the latest state is written. The rate is bounded, so that a thousand runs at
 * once do not keep the API server from its work, and shared by the namespaces. Workers record results on other
 * replicas and say so (`closed`); as that may get lost, the history is also read shortly after each fire time, and
 * then ever less often.
 */
export function createStatusWriter(dependencies: StatusWriterDependencies): StatusWriter {
  const { client, memory, history, events, leadership, clock, monotonic, timers, metrics } =
    dependencies;
  const settleMs = dependencies.settleMs ?? 1_000;
  const perSecond = dependencies.writesPerSecond ?? 50;
  const circuits = createOpenCircuits({ circuits: dependencies.circuits, monotonic });
  const bucket = createTokenBucket({ perSecond, burst: CONCURRENT_WRITES, monotonic });
  const entries = new Map<string, Entry>();
  const sharedKeys = createSharedValues<string>(MOST_DESTINATIONS);
  const sharedTold = createSharedValues<Told>(256);
  const dirty = createStatusBacklog();
  const writing = new Set<string>();
  /** Raised by `clear`: reads and writes that began before it have no effect here afterwards. */
  let term = 0;
  /** Aborted by `clear`: a write that still waits must not undo what the next leader writes. */
  let ending = new AbortController();
  let readsFail = false;
  let writesFail = false;

  const desired = (entry: Entry, now: Instant) =>
    statusContent({
      job: entry.job,
      observed: entry,
      history: entry.history ?? undefined,
      circuitOpen: circuits.has(entry.circuit),
      transitions: memory.get(entry.job.uid)?.transitions ?? new Map(),
      now,
    });

  /** Whether the stored status is behind; then the job joins the backlog. */
  function compare(uid: string, entry: Entry, now: Instant): boolean {
    const known = memory.get(uid);
    if (!known || monotonic() < entry.writeAt) return false;
    if (statusDigest(desired(entry, now)) === known.digest) return false;
    dirty.add({ uid, namespace: known.namespace, since: monotonic() });
    return true;
  }

  /** Sets when the history is read next: soon after the next fire time, or earlier, after twice the last wait. */
  function planLook(entry: Entry, now: Instant): void {
    const next = nextRunAt(entry.job, entry.cursor, entry.timing, now);
    // One that is late is reported when its run is created.
    const fire = next === null || next <= now ? Infinity : next - now + SECOND;
    const wait = Math.min(entry.lookAfterMs, fire);
    entry.lookAt = Math.max(monotonic() + wait, entry.writeAt);
    if (wait === fire) entry.lookAfterMs = FIRST_LOOK_MS;
    else entry.lookAfterMs = Math.min(LAST_LOOK_MS, entry.lookAfterMs * 2);
  }

  function tell(entry: Entry, before: Entry["history"], now: Instant): void {
    const known = memory.get(entry.job.uid);
    if (!known) return;
    const circuitOpen = circuits.has(entry.circuit);
    const { events: newEvents, told } = statusEvents({
      job: entry.job,
      observed: entry,
      history: entry.history,
      told: entry.told,
      known,
      before,
      circuitOpen,
      now,
    });
    entry.told = sharedTold(`${told.status} ${told.circuitOpen} ${told.unready}`, () => told);
    for (const each of newEvents) events.record(each);
  }

  async function lookAtCircuits(): Promise<void> {
    const changed = await circuits.refresh();
    if (changed.size === 0) return;
    const now = clock.now();
    for (const [uid, entry] of entries) {
      // Entries without a history yet, all those of a new term among them, are about to be looked at.
      if (entry.history === undefined || entry.circuit === null || !changed.has(entry.circuit))
        continue;
      compare(uid, entry, now);
      tell(entry, entry.history, now);
    }
  }

  async function look(): Promise<void> {
    const began = term;
    const at = monotonic();
    const due: string[] = [];
    for (const [uid, entry] of entries) {
      if (entry.lookAt <= at) due.push(uid);
      if (due.length === LOOKS_AT_ONCE) break;
    }
    if (due.length === 0) return;
    const found = await history.summary(due);
    if (began !== term) return;
    const now = clock.now();
    for (const uid of due) {
      const entry = entries.get(uid);
      if (!entry) continue;
      // Moved behind the others: where more are due than are looked at together, each gets its turn.
      entries.delete(uid);
      entries.set(uid, entry);
      const before = entry.history;
      entry.history = found.get(uid) ?? null;
      if (compare(uid, entry, now)) entry.lookAfterMs = FIRST_LOOK_MS;
      tell(entry, before, now);
      planLook(entry, now);
    }
  }

  async function write(uid: string, began: number): Promise<void> {
    const entry = entries.get(uid);
    const known = memory.get(uid);
    if (!entry || !known) return;
    const status = desired(entry, clock.now());
    // The job was looked at again while its last write was under way.
    if (statusDigest(status) === known.digest) return;
    try {
      await client.call({
        verb: "patch",
        resource: `${PLURAL}/status`,
        path: `${jobsPath(known.namespace, known.name)}/status`,
        query: { fieldManager: "carillon-controller" },
        signal: ending.signal,
        // It may have waited for another try while the process was stopped, and another writes since.
        beforeTry: () => {
          if (!leadership.holds()) throw new LeadershipRanOut();
        },
        patch: "json",
        // The API server does not check a merge patch's uid on this subresource. The test keeps a job of the
        // same name that was made meanwhile from getting its predecessor's status.
        body: [
          { op: "test", path: "/metadata/uid", value: uid },
          { op: "add", path: "/status", value: withoutNulls(status) },
        ],
      });
      memory.wrote(uid, status);
      metrics.statusWrites.inc({ outcome: "written" });
      writesFail = false;
      entry.refusals = 0;
    } catch (error) {
      if (began !== term) return;
      if (error instanceof LeadershipRanOut) {
        lookWithin(FIRST_LOOK_MS, uid);
        return;
      }
      metrics.statusWrites.inc({ outcome: "error" });
      // Deleted or replaced meanwhile: the watch will say so.
      if (isNotFound(error) || isTestFailure(error)) return;
      if (!writesFail)
        dependencies.log.warn({ err: error }, "a status could not be written; retrying");
      writesFail = true;
      // What was refused would be refused again for a while.
      if (error instanceof ApiError) {
        entry.refusals += 1;
        entry.writeAt = monotonic() + Math.min(LAST_LOOK_MS, FIRST_LOOK_MS * 2 ** entry.refusals);
        entry.lookAt = entry.writeAt;
        dirty.delete(uid);
      } else {
        // Lost in an outage, for whose end the call waited.
        lookWithin(FIRST_LOOK_MS, uid);
      }
    }
  }

  /** The next look finds what is behind. */
  function lookWithin(ms: number, uid: string): void {
    const entry = entries.get(uid);
    if (!entry) return;
    entry.lookAt = Math.min(entry.lookAt, monotonic() + ms);
    entry.lookAfterMs = FIRST_LOOK_MS;
  }

  function startWrites(): void {
    while (writing.size < CONCURRENT_WRITES && leadership.holds()) {
      const uid = dirty.next(monotonic() - settleMs, writing);
      if (uid === undefined || !bucket.take()) return;
      dirty.take(uid);
      writing.add(uid);
      void write(uid, term).finally(() => writing.delete(uid));
    }
  }

  return {
    report(job, observed) {
      const { uid } = job;
      const old = entries.get(uid);
      const sameGeneration = old?.job.generation === job.generation ? old : undefined;
      const { cursor, status, timing } = observed;
      const circuit = circuitKey(job);
      entries.set(uid, {
        job,
        cursor,
        status,
        timing,
        history: old?.history,
        told: old?.told,
        circuit: circuit === null ? null : sharedKeys(circuit, () => copiedText(circuit)),
        lookAt: monotonic() + FIRST_LOOK_MS / 2,
        lookAfterMs: FIRST_LOOK_MS,
        refusals: sameGeneration?.refusals ?? 0,
        writeAt: sameGeneration?.writeAt ?? -Infinity,
      });
      const known = memory.get(uid);
      if (!known) return;
      for (const span of observed.missed) events.record(missedEvent(job, known, span));
    },
    closed(uids) {
      for (const uid of uids) lookWithin(0, uid);
    },
    forget(uid) {
      entries.delete(uid);
      dirty.delete(uid);
      memory.forget(uid);
    },
    clear() {
      term += 1;
      ending.abort();
      ending = new AbortController();
      entries.clear();
      dirty.clear();
      events.dropHeldBack();
    },
    get behind() {
      return dirty.size + writing.size;
    },
    async run(signal) {
      while (!signal.aborted) {
        if (clock.known && entries.size > 0 && leadership.holds()) {
          try {
            await lookAtCircuits();
            await look();
            readsFail = false;
          } catch (error) {
            if (!readsFail)
              dependencies.log.warn({ err: error }, "what became of runs cannot be read");
            readsFail = true;
          }
          startWrites();
        }
        await pause(TICK_MS, timers, signal);
      }
    },
  };
}

/** Ends a write before its next try. The job is looked at again, and written if the lease has been renewed by then. */
class LeadershipRanOut extends Error {
  override name = "LeadershipRanOut";
}

/**
 * The JSON patch's `test` did not hold: a 422 without causes. A refused status has causes; an admission webhook of the
 * cluster may give none either.
 */
function isTestFailure(error: unknown): boolean {
  if (!(error instanceof ApiError) || error.code !== 422 || isByAdmission(error)) return false;
  return (error.status?.details?.causes ?? []).length === 0;
}
