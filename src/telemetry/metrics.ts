/**
 * Every metric of every process, in one place: name, help, labels, buckets. The only file that knows
 * prom-client. Units are base units (seconds, bytes), counters end in `_total`, and label values come
 * from small fixed sets: never an account, a URL, an address or a job.
 */
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from "prom-client";

/** What docs/metrics.md says about one metric. */
export interface MetricDescription {
  name: string;
  type: "counter" | "gauge" | "histogram";
  help: string;
  labels: readonly string[];
}

/** From a request that touches only memory to one that waits for a slow mail server. */
const REQUEST_SECONDS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** 0.3 s is the target for p99 at 1,000 runs of one second, 3 s for the last of 10,000. */
const LATENESS_SECONDS = [
  0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 3, 5, 10, 30, 60, 300, 1800, 3600,
];
/** 30 s is the default timeout of a webhook, 300 s the longest. */
const DELIVERY_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300,
];
/** One pass of pure decisions and one transaction. */
const WORK_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];

/** How long a scrape waits for the collectors: less than Prometheus' default time-out of 10 s. */
const COLLECT_TIMEOUT_MS = 3_000;

/** Gauges with `_total` in their names, which promtool refuses. */
const MISNAMED_DEFAULTS = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

export type Metrics = ReturnType<typeof createMetrics>;

/** A registry of its own for each call: two programs in one process (tests) do not meet. */
export function createMetrics(options: {
  version: string;
  /** The name of the program; omitted by those that do not serve. */
  program?: string;
  nodeMetrics?: boolean;
}) {
  const registry = new Registry();
  const registers = [registry];
  const descriptions: MetricDescription[] = [];
  const collectors = new Map<string, () => void | Promise<void>>();

  function counter<L extends string = never>(
    name: string,
    help: string,
    labels: readonly L[] = [],
  ) {
    descriptions.push({ name: `carillon_${name}`, type: "counter", help, labels });
    return new Counter<L>({ name: `carillon_${name}`, help, labelNames: labels, registers });
  }
  function gauge<L extends string = never>(name: string, help: string, labels: readonly L[] = []) {
    descriptions.push({ name: `carillon_${name}`, type: "gauge", help, labels });
    return new Gauge<L>({ name: `carillon_${name}`, help, labelNames: labels, registers });
  }
  function histogram<L extends string = never>(
    name: string,
    help: string,
    buckets: number[],
    labels: readonly L[] = [],
  ) {
    descriptions.push({ name: `carillon_${name}`, type: "histogram", help, labels });
    return new Histogram<L>({
      name: `carillon_${name}`,
      help,
      buckets,
      labelNames: labels,
      registers,
    });
  }

  const named = {
    // HTTP. `route` is the pattern (`/jobs/{id}`), never the path.
    httpRequests: counter(
      "http_requests_total",
      "HTTP requests answered. Status 499: the client went away before the response began.",
      ["method", "route", "status"],
    ),
    httpRequestDuration: histogram(
      "http_request_duration_seconds",
      "Time from receiving a request's headers to the end of the response.",
      REQUEST_SECONDS,
      ["method", "route", "status"],
    ),
    httpRequestsInFlight: gauge("http_requests_in_flight", "HTTP requests in progress."),
    rateLimited: counter(
      "http_rate_limited_total",
      "Requests refused with 429 `rate_limited`: over the key's rate, or too many large requests, mails, lists or unread answers at a time.",
    ),

    // Mail and passcodes.
    emails: counter(
      "emails_total",
      "Emails by kind (email, otp, job) and outcome (sent, failed, queue_full: too many already wait for the SMTP server, unconfigured: no SMTP settings).",
      ["kind", "outcome"],
    ),
    emailDuration: histogram(
      "email_duration_seconds",
      "Time from the start of a send to the SMTP server's final response, including the wait for a connection.",
      DELIVERY_SECONDS,
      ["kind"],
    ),
    otps: counter(
      "otps_total",
      "Passcode events by outcome (sent, send_failed, limited, verified, refused).",
      ["outcome"],
    ),

    // Runs.
    runsCreated: counter(
      "runs_created_total",
      "Runs created by the leader, by trigger (schedule, manual: by annotation). Runs requested through REST are not counted.",
      ["trigger"],
    ),
    runCreationLateness: histogram(
      "run_creation_lateness_seconds",
      "Time from a run's scheduled time to the run's creation; 0 for runs created ahead of time. Manual runs are not counted.",
      LATENESS_SECONDS,
    ),
    runsMissed: counter(
      "runs_missed_total",
      "Missed fire times by reason (downtime, deadline, overlap, past_at_creation, paused). Fire times of runs that were dropped, because their job changed or a newer run replaced them, are not counted.",
      ["reason"],
    ),
    runs: counter(
      "runs_total",
      "Attempts by job type and outcome (delivered, retryable, permanent, gone, interrupted, replaced, deleted, circuit_open), counted by the process that made them. Attempts of processes that died are in `carillon_runs_reaped_total`.",
      ["type", "outcome"],
    ),
    runLateness: histogram(
      "run_lateness_seconds",
      "Time from a run's scheduled time to the start of its first attempt. Runs that were postponed, for example by an open circuit, are not counted.",
      LATENESS_SECONDS,
      ["type"],
    ),
    runDeliveryDuration: histogram(
      "run_delivery_duration_seconds",
      "Time from an attempt's start to its outcome.",
      DELIVERY_SECONDS,
      ["type"],
    ),
    runsInFlight: gauge("runs_in_flight", "Attempts in progress in this process."),
    runsReaped: counter(
      "runs_reaped_total",
      "Runs taken over from dead workers, by result (requeued, interrupted).",
      ["result"],
    ),
    queueDepth: gauge("run_queue_depth", "Unfinished runs by state (queued, started).", ["state"]),
    queueOldestAge: gauge(
      "run_queue_oldest_age_seconds",
      "Age of the oldest due run that has not started; 0 if there is none. Runs that wait for a retry or an open circuit are not due.",
    ),
    jobs: gauge("jobs", "Jobs by status, as the leader knows them.", ["status"]),

    // Circuit breakers.
    circuits: gauge("circuits", "Circuit breakers of this process by state (open, half_open).", [
      "state",
    ]),
    circuitTransitions: counter(
      "circuit_transitions_total",
      "Circuit breaker transitions by new state (open, half_open, closed).",
      ["state"],
    ),
    circuitRejections: counter(
      "circuit_rejections_total",
      "Attempts postponed because their circuit was open.",
    ),
    circuitsRefused: counter(
      "circuits_refused_total",
      "Failures for which no circuit breaker was created because too many circuits are open.",
    ),
    destinationsRefused: counter(
      "destinations_refused_total",
      "Connections refused by the address guard, by protocol (webhook, smtp).",
      ["protocol"],
    ),

    // Scheduling.
    leader: gauge("leader", "1 while this process schedules, otherwise 0."),
    reconciles: counter(
      "reconciles_total",
      "Reconciled jobs by outcome (unchanged, applied, conflict, invalid, error).",
      ["outcome"],
    ),
    reconcileDuration: histogram(
      "reconcile_duration_seconds",
      "Duration of one batch of scheduling decisions and its transactions.",
      WORK_SECONDS,
    ),
    reconcileQueueDepth: gauge("reconcile_queue_depth", "Jobs waiting to be reconciled."),
    namespacesRefused: gauge(
      "namespaces_refused",
      "Watched namespaces whose jobs the API server does not let this process list. These jobs wait.",
    ),
    statusWrites: counter("status_writes_total", "Job status writes by outcome (written, error).", [
      "outcome",
    ]),

    // Kubernetes. `resource` is a plural name, `status` the HTTP status or `error` for no answer.
    kubernetesRequests: counter(
      "kubernetes_requests_total",
      "Kubernetes API calls by verb, resource and status; each retry counts.",
      ["verb", "resource", "status"],
    ),
    kubernetesRequestDuration: histogram(
      "kubernetes_request_duration_seconds",
      "Time from sending a Kubernetes API call to the headers of the response.",
      REQUEST_SECONDS,
      ["verb", "resource"],
    ),
    kubernetesWatchEnds: counter(
      "kubernetes_watch_ends_total",
      "Ended Kubernetes watches by reason (timeout, inactive, expired, malformed, lost).",
      ["reason"],
    ),
    kubernetesEvents: counter(
      "kubernetes_events_total",
      "Kubernetes Events by outcome (written, repeated, dropped, error).",
      ["outcome"],
    ),

    // PostgreSQL.
    databasePoolConnections: gauge(
      "database_pool_connections",
      "PostgreSQL connections in this process's pools by state (idle, used), without the two for leases.",
      ["state"],
    ),
    databasePoolWaiting: gauge(
      "database_pool_waiting",
      "Callers waiting for a PostgreSQL connection.",
    ),
    databaseUp: gauge(
      "database_up",
      "1 if PostgreSQL answered during this scrape and accepts writes, otherwise 0.",
    ),
    databaseFailures: counter(
      "database_failures_total",
      "Statements that failed because PostgreSQL was unreachable, read-only, full, too slow or locked.",
    ),
    clockOffset: gauge(
      "clock_offset_seconds",
      "PostgreSQL's clock minus the clock of this process's machine.",
    ),

    retentionLastSuccess: gauge(
      "retention_last_success_timestamp_seconds",
      "Unix time of the last complete removal of expired data (history, finished one-time jobs) by this process; until the first one, when the process started.",
      ["of"],
    ),

    collectionErrors: counter(
      "metrics_collection_errors_total",
      "Collectors that failed or timed out during a scrape.",
      ["collector"],
    ),
  };
  gauge("build_info", "Constant 1; the labels are the running version and program.", [
    "version",
    "program",
  ]).set({ version: options.version, ...(options.program && { program: options.program }) }, 1);

  if (options.nodeMetrics ?? true) {
    collectDefaultMetrics({ register: registry, prefix: "carillon_" });
    for (const name of MISNAMED_DEFAULTS) registry.removeSingleMetric(`carillon_${name}`);
  }

  return {
    ...named,
    /** Carillon's own metrics in the order above; Node's own are not among them. */
    descriptions: descriptions as readonly MetricDescription[],
    /**
     * Runs before each scrape, to set gauges that would go stale. A collector that throws or takes
     * longer than 3 s is counted and does not fail the scrape.
     */
    beforeScrape(name: string, collector: () => void | Promise<void>): void {
      collectors.set(name, collector);
    },
    /** The exposition text for `GET /metrics`. */
    async render(): Promise<{ contentType: string; text: string }> {
      await Promise.all(
        Array.from(collectors, async ([name, collector]) => {
          try {
            await withTimeout(Promise.resolve().then(collector), COLLECT_TIMEOUT_MS);
          } catch {
            named.collectionErrors.inc({ collector: name });
          }
        }),
      );
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}

async function withTimeout(work: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`not collected within ${ms} ms`));
    }, ms);
  });
  try {
    await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
