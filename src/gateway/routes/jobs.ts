import { isDeepStrictEqual } from "node:util";
import type { Job, JobSpec } from "../../domain/job.ts";
import { circuitOf } from "../../domain/circuit-of.ts";
import { canonicalJson, parseExactJson } from "../../domain/exact-json.ts";
import type { Circuits } from "../../domain/ports/circuits.ts";
import { pause } from "../../waiting/pause.ts";
import type { Clock, Monotonic, Timers } from "../../domain/ports/clock.ts";
import type { DestinationPolicy } from "../../domain/ports/destination-policy.ts";
import type { IdempotencyKeys } from "../../domain/ports/idempotency-keys.ts";
import {
  JobExists,
  JobNotFound,
  VersionConflict,
  type JobStore,
} from "../../domain/ports/job-store.ts";
import type { RunHistory } from "../../domain/ports/run-history.ts";
import type { RunLedger } from "../../domain/ports/run-ledger.ts";
import {
  patchedSpec,
  specFromRest,
  type RestJobRequest,
  type SpecResult,
} from "../../domain/rest-job.ts";
import type { RestJobCreate, RestJobPatch } from "../../domain/schema/rest-job.ts";
import { timingOf } from "../../domain/timing.ts";
import { acceptedSpec } from "../accepted-spec.ts";
import { jsonArray, jsonElements, type ApiAnswer, type ApiRequest } from "../endpoint.ts";
import { ApiError, invalid, jobOwned } from "../errors.ts";
import { existingJob } from "../existing-job.ts";
import { idempotently } from "../idempotency.ts";
import { canBeJobId, derivedJobId, newJobId } from "../job-id.ts";
import { jobCreated, jobDetail, jobSummary } from "../job-view.ts";
import type { InTurn } from "../read-turns.ts";
import { memberText } from "../request-body.ts";
import type { JobsQuery } from "../schema/jobs.ts";

export interface JobRouteOptions {
  jobs: JobStore;
  ledger: RunLedger;
  history: RunHistory;
  circuits: Pick<Circuits, "list">;
  destinations: DestinationPolicy;
  idempotency: IdempotencyKeys;
  clock: Clock;
  timers: Timers;
  monotonic: Monotonic;
  /** Bounds the pages of jobs that are read at a time. */
  pageInTurn: InTurn;
  /** Bounds the lists that are put together at a time: too many would all grow, and none would be finished. */
  listInTurn: InTurn;
  randomBytes: (count: number) => Uint8Array;
  report: (error: unknown) => void;
}

/** How often a change is tried when somebody else writes between our read and our write. */
const TRIES = 5;
/** Jobs that a list reads at a time. */
const PAGE = 100;
/** How long "run now" waits for the controller to take up a job that was created or changed a moment ago. */
const TAKE_UP_MS = 2_000;
const TAKE_UP_POLL_MS = 50;

export function jobRoutes(options: JobRouteOptions) {
  const { jobs, ledger, history, clock, timers, monotonic, pageInTurn, listInTurn } = options;

  return {
    async createJob(request: ApiRequest<RestJobCreate>): Promise<ApiAnswer> {
      const { account, idempotencyKey: key } = request;
      const asked = { fields: request.body, payloadText: payloadText(request) };
      return idempotently({
        keys: options.idempotency,
        request,
        scope: "POST /jobs",
        work: async () => {
          // Checked in here, so that a replay is not judged by the present time and rules.
          const result = specFromRest({ ...asked, now: clock.now() });
          const before = result.ok ? undefined : await madeBefore(account, key, asked);
          const job = before ?? (await createOnce(account, await accepted(account, result), key));
          // A new job has no cursor. One of an earlier try may have: it is answered like a new one.
          return { status: 201, body: jobCreated({ job, cursor: undefined }) };
        },
        // The derived id makes a second try harmless: it finds the job of the first.
        repeatable: true,
        report: options.report,
      });
    },

    async listJobs(request: ApiRequest<undefined, JobsQuery>): Promise<ApiAnswer> {
      const body = await listInTurn(request.account, () => readList(request));
      return { status: 200, body };
    },

    async getJob(request: ApiRequest): Promise<ApiAnswer> {
      return detail(await existing(request));
    },

    async updateJob(request: ApiRequest<RestJobPatch>): Promise<ApiAnswer> {
      const { account, body: fields } = request;
      const asked = { fields, payloadText: payloadText(request) };
      const job = await change(request, ({ spec }) =>
        accepted(account, patchedSpec(spec, { ...asked, now: clock.now() })),
      );
      return detail(job);
    },

    async pauseJob(request: ApiRequest): Promise<ApiAnswer> {
      return detail(await change(request, async ({ spec }) => ({ ...spec, suspend: true })));
    },

    async resumeJob(request: ApiRequest): Promise<ApiAnswer> {
      const found = await existing(request);
      // Only a suspension is in the spec. A halt is not: it is lifted also where another tool manages the job.
      const job = found.spec.suspend
        ? await change(request, async ({ spec }) => ({ ...spec, suspend: false }))
        : found;
      await ledger.liftHalt(job);
      return detail(job);
    },

    async deleteJob(request: ApiRequest): Promise<ApiAnswer> {
      // Also when somebody else deletes the job at this moment, or an earlier try did and its answer was lost.
      const clearAway = async (error: unknown): Promise<never> => {
        if (error instanceof JobNotFound) await cancelLeftBehind(request);
        throw error;
      };
      const job = await existing(request).catch(clearAway);
      if (job.owner) throw jobOwned({ owner: job.owner });
      // The store first: a delete that it refuses must not cancel anything. Then PostgreSQL, before the
      // answer: no run starts once the caller has heard that the job is gone.
      await jobs.delete(job).catch(clearAway);
      await ledger.cancel([job], request.account);
      return { status: 200, body: { message: "job deleted" } };
    },

    async runJob(request: ApiRequest): Promise<ApiAnswer> {
      const key = request.idempotencyKey ?? request.requestId;
      const until = monotonic() + TAKE_UP_MS;
      for (;;) {
        // Read each time: it may be changed or deleted meanwhile.
        const job = await existing(request);
        const { compiled } = timingOf(job.spec);
        if (!compiled.ok) throw invalid([compiled.finding]);
        if (await ledger.runNow(job, key))
          return { status: 202, body: { message: "run queued", job_id: job.id } };
        // The controller has not seen the job, or its last change, yet.
        if (monotonic() >= until)
          throw new ApiError(
            "dependency_unavailable",
            "the scheduler has not taken up this job, or its last change, yet; try again",
            { retryAfterSeconds: 1 },
          );
        await pause(TAKE_UP_POLL_MS, timers);
      }
    },
  };

  /**
   * Stops when the client has gone away: others would wait for a list that nobody reads. A page becomes bytes as soon as
   * it is read: 200,000 jobs as objects take three times the memory, and half a second in which nobody is answered.
   */
  async function readList(request: ApiRequest<undefined, JobsQuery>): Promise<Buffer> {
    const { account, query, gone } = request;
    const found: Buffer[] = [];
    let next: string | undefined;
    do {
      const from = next === undefined ? {} : { continue: next };
      next = await pageInTurn(account, async () => {
        if (gone()) return undefined;
        const page = await jobs.list({ account, limit: PAGE, ...from });
        const cursors = await history.cursors(page.jobs.map((job) => job.uid));
        const summaries = page.jobs.map((job) => jobSummary({ job, cursor: cursors.get(job.uid) }));
        const elements = jsonElements(summaries.filter((summary) => matches(summary, query)));
        if (elements) found.push(elements);
        return page.continue;
      });
    } while (next !== undefined);
    return jsonArray(found);
  }

  function existing({ account, params }: Pick<ApiRequest, "account" | "params">): Promise<Job> {
    return existingJob(jobs, account, params["id"] ?? "");
  }

  /**
   * A delete that broke off between the store and PostgreSQL left runs behind. The next try finds no job, and
   * must cancel those runs before it says so. The uids are read before the job: a job that is created under
   * the id meanwhile has another uid.
   */
  async function cancelLeftBehind({ account, params }: ApiRequest): Promise<void> {
    const id = params["id"] ?? "";
    if (!canBeJobId(id)) return;
    const uids = await ledger.undeleted(account, id);
    if (uids.length === 0) return;
    const job = await jobs.get(account, id);
    await ledger.cancel(
      uids.filter((uid) => uid !== job?.uid).map((uid) => ({ uid })),
      account,
    );
  }

  async function detail(job: Job): Promise<ApiAnswer> {
    const [cursor, summaries, published] = await Promise.all([
      history.cursor(job.uid),
      history.summary([job.uid]),
      job.account === null ? [] : options.circuits.list(job.account),
    ]);
    const body = jobDetail({
      job,
      cursor,
      history: summaries.get(job.uid),
      circuit: circuitOf(job, published),
      now: clock.now(),
    });
    return { status: 200, body };
  }

  function accepted(account: string, result: SpecResult): Promise<JobSpec> {
    return acceptedSpec(options.destinations, account, result);
  }

  /**
   * The job that an earlier try with this key made, if its answer was lost. The request may be invalid by now,
   * because its time has passed; the caller must not be told so, for the job exists.
   */
  async function madeBefore(
    account: string,
    key: string | undefined,
    asked: Pick<RestJobRequest<RestJobCreate>, "fields" | "payloadText">,
  ): Promise<Job | undefined> {
    if (key === undefined) return undefined;
    const job = await jobs.get(account, derivedJobId(account, key));
    if (!job) return undefined;
    const then = specFromRest({ ...asked, now: job.createdAt });
    return then.ok && isSame(job.spec, then.spec) ? job : undefined;
  }

  async function createOnce(account: string, spec: JobSpec, key: string | undefined): Promise<Job> {
    const id =
      key === undefined
        ? newJobId(clock.now(), options.randomBytes(10))
        : derivedJobId(account, key);
    try {
      return await jobs.create({ account, id, spec });
    } catch (error) {
      if (!(error instanceof JobExists)) throw error;
      // An earlier try got as far as the store: one of the caller with this key, or, without a key, one of the store's
      // own, since nobody else has the id.
      const job = await jobs.get(account, id);
      if (job && isSame(job.spec, spec)) return job;
      if (key === undefined) throw error;
      throw new ApiError(
        "conflict",
        `a job was made with this Idempotency-Key before and differs: ${id}`,
        { cause: error },
      );
    }
  }

  /** Reads, changes and writes the job; again when somebody else was faster. */
  async function change(
    request: Pick<ApiRequest, "account" | "params">,
    to: (job: Job) => Promise<JobSpec>,
  ): Promise<Job> {
    for (let attempt = 1; ; attempt += 1) {
      const job = await existing(request);
      if (job.owner) throw jobOwned({ owner: job.owner });
      const spec = await to(job);
      try {
        return await jobs.update(job, spec);
      } catch (error) {
        if (!(error instanceof VersionConflict) || attempt === TRIES) throw error;
      }
    }
  }
}

function isSame(one: JobSpec, other: JobSpec): boolean {
  return isDeepStrictEqual(comparable(one), comparable(other));
}

/** Kubernetes gives a payload back as equal JSON, not as the same bytes. */
function comparable(spec: JobSpec): object {
  const { target } = spec;
  return target.kind === "webhook"
    ? { ...spec, target: { ...target, payload: canonicalJson(parseExactJson(target.payload)) } }
    : spec;
}

/** `webhook_payload` as written in the body. Throws ApiError 400 for a number that a JSON round trip would change. */
export function payloadText(request: Pick<ApiRequest, "json">): string | undefined {
  if (!request.json) return undefined;
  const inexact = request.json.members.get("webhook_payload")?.inexact;
  if (typeof inexact === "string")
    throw invalid([
      {
        field: "webhook_payload",
        message: `the number ${inexact.slice(0, 40)} would change in a JSON round trip; send it as a string`,
      },
    ]);
  return memberText(request.json, "webhook_payload");
}

function matches(job: ReturnType<typeof jobSummary>, query: JobsQuery): boolean {
  return (
    (query.status === undefined || job.status === query.status) &&
    (query.type === undefined || job.type === query.type) &&
    (query.schedule_type === undefined || job.schedule_type === query.schedule_type) &&
    (query.q === undefined || job.name.toLowerCase().includes(query.q.toLowerCase()))
  );
}
