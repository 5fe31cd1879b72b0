import type { Instant } from "../../src/domain/instant.ts";
import type { ConcurrencyPolicy, Job, JobSpec, Schedule } from "../../src/domain/job.ts";
import type { Random } from "../../src/domain/ports/clock.ts";
import { VersionConflict, type JobStore } from "../../src/domain/ports/job-store.ts";
import type { RunLedger } from "../../src/domain/ports/run-ledger.ts";
import { between, pick } from "../faults/seeded-random.ts";
import type { JobKind, Step, JobRecord } from "./evidence.ts";
import { MOODS, urlOf } from "./receiver.ts";
import { everyMs } from "./short-crons.ts";

/** A job as a caller of the API sees it, who records each request about it. */
export interface TrackedJob {
  readonly kind: JobKind;
  /** The job as of the last answer; undefined once it is deleted. */
  readonly now: Job | undefined;
  readonly steps: readonly Step[];
  edit(what: Step["what"], change: (spec: JobSpec) => JobSpec): Promise<void>;
  /** Resumes a job that is not paused, which lifts the halt after a 410. */
  lift(): Promise<void>;
  runByHand(key: string): Promise<void>;
  delete(): Promise<void>;
  record(): JobRecord;
}

/** What the gateway calls, without HTTP. */
export interface Api {
  jobs: JobStore;
  ledger: RunLedger;
}

export const POLICIES = ["Allow", "Forbid", "Replace"] as const;

const ACCOUNT = "0198c0de-0000-7000-8000-000000000001";

/** A random spec of a job of this kind: its receiver, policy, retries and deadlines. */
export function specOf(options: {
  random: Random;
  name: string;
  kind: JobKind;
  now: Instant;
}): JobSpec {
  const { random, name, kind, now } = options;
  const gone = kind === "gone" || (kind === "once" && random() < 0.3);
  const schedule: Schedule =
    kind === "once"
      ? { kind: "once", at: Math.round(now + between(random, -20, 600)) }
      : everyMs(pick(random, [120, 150, 200, 250]));
  return {
    name,
    schedule,
    target: {
      kind: "webhook",
      url: urlOf(name, pick(random, MOODS), gone),
      payload: "{}",
      headers: {},
      headersFrom: [],
      timeoutSeconds: 30,
    },
    suspend: false,
    startingDeadlineSeconds: random() < (kind === "once" ? 0.2 : 0.3) ? 1.2 : null,
    deliveryDeadlineSeconds: random() < 0.3 ? 0.3 : 5,
    concurrencyPolicy: pick<ConcurrencyPolicy>(random, POLICIES),
    retry: {
      maxRetries: pick(random, [0, 0, 1, 3]),
      minBackoffSeconds: 0.05,
      maxBackoffSeconds: 0.3,
    },
  };
}

export async function createJob(
  api: Api,
  request: { kind: JobKind; id: string; spec: JobSpec },
): Promise<TrackedJob> {
  const { kind, id, spec } = request;
  const at = Date.now();
  const created = await api.jobs.create({ account: ACCOUNT, id, spec });
  const steps: Step[] = [
    { what: "create", at, answered: Date.now(), generation: 1, schedule: spec.schedule },
  ];
  let last = created;
  let deleted = false;

  /** Records a request before it is sent: its effect may come before its answer. */
  async function step(
    what: Step["what"],
    ask: () => Promise<boolean>,
    schedule?: Schedule,
  ): Promise<void> {
    const recorded: Step = {
      what,
      at: Date.now(),
      answered: null,
      generation: last.generation,
      ...(schedule ? { schedule } : {}),
    };
    steps.push(recorded);
    if (await ask()) recorded.answered = Date.now();
    recorded.generation = last.generation;
  }

  return {
    kind,
    get now() {
      return deleted ? undefined : last;
    },
    steps,
    edit: async (what, change) => {
      const next = change(last.spec);
      const moved = JSON.stringify(next.schedule) !== JSON.stringify(last.spec.schedule);
      await step(
        what,
        async () => {
          last = await api.jobs.update(last, next);
          return true;
        },
        moved ? next.schedule : undefined,
      );
    },
    lift: () =>
      step("lift", async () => {
        try {
          await api.ledger.liftHalt(last);
          return true;
        } catch (error) {
          // Refused, because others kept writing the job's cursor.
          if (error instanceof VersionConflict) return false;
          throw error;
        }
      }),
    runByHand: (key) => step("run by hand", () => api.ledger.runNow(last, key)),
    // First in the store, then in the ledger, before the answer: as the gateway does.
    delete: () =>
      step("delete", async () => {
        deleted = true;
        await api.jobs.delete(last);
        await api.ledger.cancel([last], ACCOUNT);
        return true;
      }),
    record: () => ({
      uid: last.uid,
      id,
      kind,
      createdAt: created.createdAt,
      schedule: last.spec.schedule,
      generation: last.generation,
      concurrencyPolicy: created.spec.concurrencyPolicy,
      maxRetries: created.spec.retry.maxRetries,
      steps,
    }),
  };
}
