import type { Finding } from "../../domain/findings.ts";
import { isoUtc, isoUtcOrNull, type Instant } from "../../domain/instant.ts";
import type { JobSpec, Schedule } from "../../domain/job.ts";
import type { Clock } from "../../domain/ports/clock.ts";
import type { DashboardStatistics } from "../../domain/ports/dashboard.ts";
import type { DestinationPolicy } from "../../domain/ports/destination-policy.ts";
import type { JobStore } from "../../domain/ports/job-store.ts";
import type { JobHistory, RunHistory } from "../../domain/ports/run-history.ts";
import { patchedSpec, specFromRest } from "../../domain/rest-job.ts";
import { compileSchedule, parseRunAt } from "../../domain/schedule.ts";
import { jobCreate, jobPatch } from "../../domain/schema/rest-job.ts";
import { acceptedSpec } from "../accepted-spec.ts";
import { answerText, jsonObject, JsonText, type ApiAnswer, type ApiRequest } from "../endpoint.ts";
import { ApiError, errorAnswer } from "../errors.ts";
import { existingJob } from "../existing-job.ts";
import { OUR_JOB_ID } from "../job-id.ts";
import { payloadText, type jobRoutes } from "../routes/jobs.ts";
import { validator } from "../validate.ts";
import { failingJobs } from "./failing-jobs.ts";
import { countByStatus, type InventoryItem, type JobInventory } from "./job-inventory.ts";
import { createJobOrders } from "./job-order.ts";
import type { DashboardRequest } from "./request.ts";
import type { BulkBody, JobCheckQuery, JobsPageQuery } from "./schemas.ts";
import { yamlText } from "./yaml-text.ts";

export interface DashboardJobRouteOptions {
  jobs: JobStore;
  inventory: JobInventory;
  statistics: Pick<DashboardStatistics, "lastRuns">;
  history: RunHistory;
  destinations: DestinationPolicy;
  clock: Clock;
  /** The same operations of the REST API. */
  rest: ReturnType<typeof jobRoutes>;
  /** The ScheduledJob resource of a job, or the one that it would have in a cluster. */
  manifest: (job: { name: string; spec: JobSpec }) => object;
}

const FIRE_TIMES = 10;
/** Jobs of a bulk action that are written at the same time. */
const BULK_WIDTH = 8;

export function dashboardJobRoutes(options: DashboardJobRouteOptions) {
  const { jobs, inventory, history, clock, rest } = options;
  const checkCreate = validator(jobCreate);
  const checkPatch = validator(jobPatch);
  const orders = createJobOrders();

  return {
    async pageJobs(request: DashboardRequest<undefined, JobsPageQuery>): Promise<ApiAnswer> {
      const { account, query } = request;
      const { limit, offset, sort } = query;
      const failing = query.status === "failing";
      // The last runs of all jobs are read only when the order or the filter needs them.
      const [all, lastRuns] = await Promise.all([
        inventory(account, clock.now()),
        failing || sort === "last_run"
          ? options.statistics.lastRuns(account, failing ? "failed or missed" : "all")
          : undefined,
      ]);
      const needle = query.q?.toLowerCase();
      const ordered = orders[sort](all, lastRuns);
      const candidates =
        failing && lastRuns ? failingJobs(ordered, lastRuns).map(({ item }) => item) : ordered;
      const found = candidates.filter((item) => matches(item, query, needle));
      const page = found.slice(offset, offset + limit);
      const known = await history.summary(page.map(({ job }) => job.uid));
      return {
        status: 200,
        body: {
          jobs: page.map((item) => rowOf(item, known.get(item.job.uid))),
          total: found.length,
          counts: countByStatus(all),
        },
      };
    },

    async viewJob(request: DashboardRequest): Promise<ApiAnswer> {
      const job = await existingJob(jobs, request.account, request.params["id"] ?? "");
      const manifestOf = (spec: JobSpec) => yamlText(options.manifest({ name: job.id, spec }));
      const masked = maskedSpec(job.spec);
      return {
        status: 200,
        body: jsonObject({
          job: new JsonText(answerText(await rest.getJob(request))),
          managed_by: job.owner,
          suspended: job.spec.suspend,
          made_by: OUR_JOB_ID.test(job.id) ? "rest" : "kubectl",
          secret_headers: secretHeaders(job.spec),
          manifest: manifestOf(job.spec),
          manifest_masked: masked && manifestOf(masked),
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
      const { action } = request.body;
      const ids = [...new Set(request.body.ids)];
      const problems = new Map<string, string>();
      const waiting = ids.values();
      const work = async (): Promise<void> => {
        for (const id of waiting) {
          const problem = await changeOne(request, action, id);
          if (problem !== null) problems.set(id, problem);
        }
      };
      await Promise.all(Array.from({ length: BULK_WIDTH }, work));
      const failures = ids.flatMap((id) => {
        const error = problems.get(id);
        return error === undefined ? [] : [{ id, error }];
      });
      return { status: 200, body: { changed: ids.length - failures.length, failures } };
    },
  };

  /** Why it could not be done; null when it was. */
  async function changeOne(
    request: DashboardRequest<BulkBody>,
    action: BulkBody["action"],
    id: string,
  ): Promise<string | null> {
    const single: ApiRequest = { ...request, params: { id }, body: undefined, query: {} };
    try {
      await (action === "pause" ? rest.pauseJob(single) : rest.resumeJob(single));
      return null;
    } catch (error) {
      const answer = errorAnswer(error);
      // That a job is gone or owned concerns only that job; any other error concerns all of them.
      if (answer.status !== 404 && answer.status !== 409) throw error;
      return answer.body.error;
    }
  }

  /** What the REST API would say to this body, as data. */
  async function findingsOf(
    request: DashboardRequest<Record<string, unknown>, JobCheckQuery>,
  ): Promise<readonly Finding[]> {
    const { account, body, query } = request;
    const now = clock.now();
    try {
      const result =
        query.id === undefined
          ? specFromRest({ fields: checkCreate(body), payloadText: payloadText(request), now })
          : patchedSpec((await existingJob(jobs, account, query.id)).spec, {
              fields: checkPatch(body),
              payloadText: payloadText(request),
              now,
            });
      await acceptedSpec(options.destinations, account, result);
      return [];
    } catch (error) {
      if (error instanceof ApiError && error.details) return error.details;
      throw error;
    }
  }
}

/** Names of the headers whose values come from Secrets. The REST API neither shows nor sets them. */
function secretHeaders({ target }: JobSpec): string[] {
  return target.kind === "webhook" ? target.headersFrom.map(({ header }) => header) : [];
}

/** The spec without the values of its headers; null if it has none. */
function maskedSpec(spec: JobSpec): JobSpec | null {
  const { target } = spec;
  const names = target.kind === "webhook" ? Object.keys(target.headers) : [];
  if (target.kind !== "webhook" || names.length === 0) return null;
  const headers = Object.fromEntries(names.map((name) => [name, "••••"]));
  return { ...spec, target: { ...target, headers } };
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

function matches(
  { job, status, text }: InventoryItem,
  query: JobsPageQuery,
  needle: string | undefined,
): boolean {
  return (
    (query.status === undefined || query.status === "failing" || status === query.status) &&
    (query.type === undefined || job.kind === query.type) &&
    (needle === undefined || text.includes(needle))
  );
}

function rowOf({ job, status, nextRunAt }: InventoryItem, history: JobHistory | undefined) {
  const { name, schedule } = job.spec;
  const cron = schedule.kind === "cron" ? schedule : undefined;
  return {
    id: job.id,
    name,
    type: job.kind,
    schedule_type: cron ? "cron" : "one_time",
    cron_expression: cron?.expression ?? null,
    timezone: cron?.timeZone ?? null,
    run_at: schedule.kind === "once" ? isoUtc(schedule.at) : null,
    target: job.address,
    status,
    next_run_at: isoUtcOrNull(nextRunAt),
    last_run_at: history?.last ? isoUtc(history.last.executedAt) : null,
    last_status: history?.last?.status ?? null,
    managed_by: job.owner?.tool ?? null,
    created_at: isoUtc(job.createdAt),
  };
}
