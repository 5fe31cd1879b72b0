import { isoUtc, type Instant } from "../../domain/instant.ts";
import type { ListedJob } from "../../domain/listed-job.ts";
import type { ApiKeys, SmtpSettingsStore } from "../../domain/ports/accounts.ts";
import type { Circuits } from "../../domain/ports/circuits.ts";
import type { Clock } from "../../domain/ports/clock.ts";
import type { DashboardStatistics } from "../../domain/ports/dashboard.ts";
import type { EmailLog } from "../../domain/ports/mail.ts";
import type { RunHistory } from "../../domain/ports/run-history.ts";
import type { ApiAnswer } from "../endpoint.ts";
import { restLogEntry } from "../routes/mail.ts";
import { failingJobs } from "./failing-jobs.ts";
import { countByStatus, type InventoryItem, type JobInventory } from "./job-inventory.ts";
import type { DashboardRequest } from "./request.ts";
import type { OtpQuery, OverviewQuery } from "./schemas.ts";

export interface OverviewRouteOptions {
  statistics: DashboardStatistics;
  inventory: JobInventory;
  history: Pick<RunHistory, "summary">;
  circuits: Pick<Circuits, "list">;
  apiKeys: Pick<ApiKeys, "list">;
  smtpSettings: Pick<SmtpSettingsStore, "revision">;
  emailLog: EmailLog;
  clock: Clock;
}

const RANGES = {
  "24h": { unit: "hour", count: 24 },
  "7d": { unit: "day", count: 7 },
  "30d": { unit: "day", count: 30 },
} as const;
const SHOWN = 8;

export function overviewRoutes(options: OverviewRouteOptions) {
  const { statistics, inventory, emailLog, clock } = options;
  return {
    async overview(request: DashboardRequest<undefined, OverviewQuery>): Promise<ApiAnswer> {
      const { account, query } = request;
      const [activity, items, lastRuns, circuits, keys, smtp, newest] = await Promise.all([
        statistics.activity({ account, ...RANGES[query.range] }),
        inventory(account, clock.now()),
        statistics.lastRuns(account, "failed or missed"),
        options.circuits.list(account),
        options.apiKeys.list(account),
        options.smtpSettings.revision(account),
        emailLog.list({ account, status: "sent", limit: 1, offset: 0 }),
      ]);
      const failing = failingJobs(items, lastRuns).sort((a, b) => b.at - a.at);
      const shown = failing.slice(0, SHOWN);
      const known = await options.history.summary(shown.map(({ item }) => item.job.uid));
      return {
        status: 200,
        body: {
          activity: activity.map((bucket) => ({
            at: isoUtc(bucket.at),
            mail_sent: bucket.mailSent,
            mail_failed: bucket.mailFailed,
            runs_succeeded: bucket.runsSucceeded,
            runs_failed: bucket.runsFailed,
          })),
          jobs: countByStatus(items),
          next_runs: soonest(items),
          failing: {
            total: failing.length,
            jobs: shown.map(({ item: { job }, missed, at }) => ({
              id: job.id,
              name: job.spec.name,
              missed,
              error_message: missed ? null : (known.get(job.uid)?.last?.errorMessage ?? null),
              at: isoUtc(at),
            })),
          },
          circuits: circuits.map(({ destination, state, since }) => ({
            destination,
            state,
            since: isoUtc(since),
          })),
          first_steps: {
            smtp: smtp !== undefined,
            api_key_used: keys.some(({ lastUsedAt }) => lastUsedAt !== null),
            mail_sent: newest.total > 0,
            job_created: items.length > 0,
          },
        },
      };
    },

    async otpOutcomes(request: DashboardRequest<undefined, OtpQuery>): Promise<ApiAnswer> {
      const { account, query } = request;
      const [days, recent] = await Promise.all([
        statistics.otps(account, query.days),
        emailLog.list({ account, kind: "otp", limit: 10, offset: 0 }),
      ]);
      return {
        status: 200,
        body: {
          days: days.map(({ sendFailed, ...day }) => ({ ...day, send_failed: sendFailed })),
          recent: recent.logs.map(restLogEntry),
        },
      };
    },
  };
}

/** The next few runs, without sorting all jobs. */
function soonest(items: readonly InventoryItem[]): object[] {
  const next: { job: ListedJob; at: Instant }[] = [];
  for (const { job, nextRunAt: at } of items) {
    if (at === null || at >= (next[SHOWN - 1]?.at ?? Infinity)) continue;
    const place = next.findIndex((other) => at < other.at);
    next.splice(place === -1 ? next.length : place, 0, { job, at });
    next.length = Math.min(next.length, SHOWN);
  }
  return next.map(({ job, at }) => ({ id: job.id, name: job.spec.name, at: isoUtc(at) }));
}
