import type { Finding } from "../../domain/findings.ts";
import { isoUtc, type Instant } from "../../domain/instant.ts";
import type { Job, JobSpec, Schedule } from "../../domain/job.ts";
import type { Clock } from "../../domain/ports/clock.ts";
import type { DestinationPolicy } from "../../domain/ports/destinations.ts";
import { JobNotFound, type JobStore } from "../../domain/ports/job-store.ts";
import type { JobHistory, RunHistory } from "../../domain/ports/run-ledger.ts";
import { patchedSpec, restFields, specFromRest } from "../../domain/rest-job.ts";
import { compileSchedule, parseRunAt } from "../../domain/schedule.ts";
import { jobCreate, jobPatch } from "../../domain/schema/rest-job.ts";
import { answerText, jsonObject, JsonText, type ApiAnswer, type ApiRequest } from "../endpoint.ts";
import { ApiError, errorAnswer } from "../errors.ts";
import { canBeJobId } from "../job-id.ts";
import type { jobRoutes } from "../routes/jobs.ts";
import { createValidators } from "../validate.ts";
import { memberText } from "../request-body.ts";
import { countByStatus, jobInventory, type InventoryItem } from "./job-inventory.ts";
import type { DashboardRequest } from "./request.ts";
import type { BulkBody, JobCheckQuery, JobsPageQuery } from "./schemas.ts";
import { yamlText } from "./yaml-text.ts";

export interface DashboardJobRouteOptions {
  jobs: JobStore;
  history: RunHistory;
  destinations: DestinationPolicy;
  clock: Clock;
  /** The same operations of the REST API. */
  rest: ReturnType<typeof jobRoutes>;
  /** The ScheduledJob that a job is, or would be, as a resource. */
  manifest: (job: { name: string; spec: JobSpec }) => object;
}

const FIRE_TIMES = 10;

export function dashboardJobRoutes(options: DashboardJobRouteOptions) {
  const { jobs, history, clock, rest } = options;
  const validators = createValidators();
  const checkCreate = validators.compile(jobCreate);
  const checkPatch = validators.compile(jobPatch);

  return {
    async pageJobs(request: DashboardRequest<undefined, JobsPageQuery>): Promise<ApiAnswer> {
      const { limit = 25, offset = 0, sort = "created" } = request.query;
      const all = await jobInventory(options, request.account, clock.now());
      const found = all.filter((item) => matches(item, request.query));
      // Only what the order or the filter needs is read of the history for all of them.
      const wide = sort === "last_run" || request.query.status === "failing";
      const early = wide ? await summaries(found) : undefined;
      const kept =
        request.query.status === "failing"
          ? found.filter(({ job }) => early?.get(job.uid)?.last?.status === "failed")
          : found;
      kept.sort(orderBy(sort, early));
      const page = kept.slice(offset, offset + limit);
      const known = early ?? (await summaries(page));
      return {
        status: 200,
        body: {
          jobs: page.map((item) => rowOf(item, known.get(item.job.uid))),
          total: kept.length,
          counts: countByStatus(all),
        },
      };
    },

    async viewJob(request: DashboardRequest): Promise<ApiAnswer> {
      const job = await existing(request.account, request.params["id"] ?? "");
      const [detail, cursor] = await Promise.all([rest.getJob(request), history.cursor(job.uid)]);
      return {
        status: 200,
        body: jsonObject({
          job: new JsonText(answerText(detail)),
          managed_by: job.owner,
          halted: cursor?.haltedGeneration === job.generation,
          made_by: job.id.startsWith("job-") ? "rest" : "kubectl",
          manifest: yamlText(options.manifest({ name: job.id, spec: job.spec })),
        }),
      };
    },

    async checkJob(
      request: DashboardRequest<Record<string, unknown>, JobCheckQuery>,
    ): Promise<ApiAnswer> {
      const findings = await findingsOf(request);
      return {
        status: 200,
        body: { findings, fire_times: fireTimes(request.body, clock.now()).map(isoUtc) },
      };
    },

    async bulkJobs(request: DashboardRequest<BulkBody>): Promise<ApiAnswer> {
      const { action, ids } = request.body;
      const failures: { id: string; error: string }[] = [];
      for (const id of new Set(ids)) {
        const each: ApiRequest = { ...request, params: { id }, body: undefined, query: {} };
        try {
          await (action === "pause" ? rest.pauseJob(each) : rest.resumeJob(each));
        } catch (error) {
          const answer = errorAnswer(error);
          // A job that is gone or owned is its own affair; anything else concerns all of them.
          if (answer.status !== 404 && answer.status !== 409) throw error;
          failures.push({ id, error: answer.body.error });
        }
      }
      const changed = new Set(ids).size - failures.length;
      return { status: 200, body: { changed, failures } };
    },
  };

  async function existing(account: string, id: string): Promise<Job> {
    const job = canBeJobId(id) ? await jobs.get(account, id) : undefined;
    if (!job) throw new JobNotFound(id);
    return job;
  }

  function summaries(items: readonly InventoryItem[]): Promise<Map<string, JobHistory>> {
    return history.summary(items.map(({ job }) => job.uid));
  }

  /** What the REST API would say to this body, as data. */
  async function findingsOf(
    request: DashboardRequest<Record<string, unknown>, JobCheckQuery>,
  ): Promise<readonly Finding[]> {
    const { account, body, json, query } = request;
    const now = clock.now();
    const payloadText = json && memberText(json, "webhook_payload");
    try {
      const result =
        query.id === undefined
          ? specFromRest({ fields: checkCreate(body), payloadText, now })
          : patchedSpec((await existing(account, query.id)).spec, {
              fields: checkPatch(body),
              payloadText,
              now,
            });
      if (!result.ok) return result.findings;
      const { target } = result.spec;
      if (target.kind !== "webhook") return [];
      const refusal = await options.destinations.refusal(account, new URL(target.url));
      return refusal === null ? [] : [{ field: "webhook_url", message: refusal }];
    } catch (error) {
      if (error instanceof ApiError && error.details) return error.details;
      throw error;
    }
  }
}

/** The next fire times of a schedule, also when the rest of the job is not valid yet. */
function fireTimes(body: Record<string, unknown>, now: Instant): Instant[] {
  const schedule = scheduleOf(body, now);
  const compiled = schedule && compileSchedule(schedule);
  if (!compiled?.ok) return [];
  const times: Instant[] = [];
  let after = now;
  while (times.length < FIRE_TIMES) {
    const next = compiled.schedule.next(after);
    if (next === null) break;
    times.push(next);
    after = next;
  }
  return times;
}

function scheduleOf(body: Record<string, unknown>, now: Instant): Schedule | undefined {
  const { schedule_type: kind, cron_expression: expression, timezone, run_at: runAt } = body;
  if (kind === "one_time") {
    const at = typeof runAt === "string" ? parseRunAt(runAt, now) : undefined;
    return typeof at === "number" ? { kind: "once", at } : undefined;
  }
  if (typeof expression !== "string") return undefined;
  return { kind: "cron", expression, timeZone: typeof timezone === "string" ? timezone : "UTC" };
}

function matches({ job, status }: InventoryItem, query: JobsPageQuery): boolean {
  const { target, name } = job.spec;
  const wanted = query.status === "failing" ? "active" : query.status;
  const needle = query.q?.toLowerCase();
  return (
    (wanted === undefined || status === wanted) &&
    (query.type === undefined || target.kind === query.type) &&
    (needle === undefined ||
      [name, job.id, addressOf(job.spec)].some((text) => text.toLowerCase().includes(needle)))
  );
}

function orderBy(
  sort: NonNullable<JobsPageQuery["sort"]>,
  history: ReadonlyMap<string, JobHistory> | undefined,
): (a: InventoryItem, b: InventoryItem) => number {
  const last = ({ job }: InventoryItem) => history?.get(job.uid)?.last?.executedAt ?? 0;
  const orders: Record<typeof sort, (a: InventoryItem, b: InventoryItem) => number> = {
    name: (a, b) => a.job.spec.name.localeCompare(b.job.spec.name, "en"),
    // Infinity minus Infinity is no number: jobs without a next run stay as they are.
    next_run: (a, b) => (a.nextRunAt ?? Infinity) - (b.nextRunAt ?? Infinity) || 0,
    last_run: (a, b) => last(b) - last(a),
    created: (a, b) => b.job.createdAt - a.job.createdAt,
  };
  return orders[sort];
}

function addressOf({ target }: JobSpec): string {
  return target.kind === "webhook" ? target.url : target.to;
}

function rowOf({ job, status, nextRunAt }: InventoryItem, history: JobHistory | undefined) {
  const fields = restFields(job.spec);
  return {
    id: job.id,
    name: fields.name,
    type: fields.type,
    schedule_type: fields.schedule_type,
    cron_expression: fields.cron_expression,
    timezone: fields.timezone,
    run_at: fields.run_at,
    target: addressOf(job.spec),
    status,
    next_run_at: nextRunAt === null ? null : isoUtc(nextRunAt),
    last_run_at: history?.last ? isoUtc(history.last.executedAt) : null,
    last_status: history?.last?.status ?? null,
    managed_by: job.owner?.tool ?? null,
    created_at: isoUtc(job.createdAt),
  };
}
