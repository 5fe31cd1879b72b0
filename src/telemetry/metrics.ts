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
  /** Which of the programs this is; none of those that serve when omitted. */
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
      "HTTP requests answered; with status 499 those whose client went away before that.",
      ["method", "route", "status"],
    ),
    httpRequestDuration: histogram(
      "http_request_duration_seconds",
      "Time from a request's headers to the end of its answer.",
      REQUEST_SECONDS,
      ["method", "route", "status"],
    ),
    httpRequestsInFlight: gauge("http_requests_in_flight", "HTTP requests being answered."),
    rateLimited: counter(
      "http_rate_limited_total",
      "Requests refused with 429 `rate_limited`: over their key's rate, or too many large ones, mails or lists at a time.",
    ),

    // Mail and passcodes.
    emails: counter(
      "emails_total",
      "Emails by kind (email, otp, job) and outcome (sent, failed, queue_full: too many wait for its server already, unconfigured).",
      ["kind", "outcome"],
    ),
    emailDuration: histogram(
      "email_duration_seconds",
      "Time from taking on an email to the server's answer, with the wait for a connection.",
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
      "Runs that the leader created, by trigger (schedule, manual: by annotation); not those that REST asked for.",
      ["trigger"],
    ),
    runCreationLateness: histogram(
      "run_creation_lateness_seconds",
      "Time from a scheduled run's time to its creation; 0 for runs prepared ahead of time.",
      LATENESS_SECONDS,
    ),
    runsMissed: counter(
      "runs_missed_total",
      "Fire times that did not run, by reason (downtime, deadline, overlap, past_at_creation, paused); not those of runs that a change dropped.",
      ["reason"],
    ),
    runs: counter(
      "runs_total",
      "Attempts, by job type and outcome (delivered, retryable, permanent, gone, interrupted, replaced, deleted, circuit_open), as the process concluded them that made them; those of dead ones are in `carillon_runs_reaped_total`.",
      ["type", "outcome"],
    ),
    runLateness: histogram(
      "run_lateness_seconds",
      "Time from a run's scheduled time to the start of its first attempt, unless something had put it off, such as an open circuit.",
      LATENESS_SECONDS,
      ["type"],
    ),
    runDeliveryDuration: histogram(
      "run_delivery_duration_seconds",
      "Time from an attempt's start to its outcome.",
      DELIVERY_SECONDS,
      ["type"],
    ),
    runsInFlight: gauge("runs_in_flight", "Attempts that this process is delivering."),
    runsReaped: counter(
      "runs_reaped_total",
      "Runs taken from dead workers, by result (requeued, interrupted).",
      ["result"],
    ),
    queueDepth: gauge("run_queue_depth", "Unfinished runs by state (queued, started).", ["state"]),
    queueOldestAge: gauge(
      "run_queue_oldest_age_seconds",
      "Age of the oldest due run that has not started; 0 when there is none. What waits for a retry or behind an open circuit is not due.",
    ),
    jobs: gauge("jobs", "Jobs by status, as the leader knows them.", ["status"]),

    // Circuit breakers.
    circuits: gauge("circuits", "Circuit breakers of this process by state (open, half_open).", [
      "state",
    ]),
    circuitTransitions: counter(
      "circuit_transitions_total",
      "Circuit breaker transitions, by the state that follows (open, half_open, closed).",
      ["state"],
    ),
    circuitRejections: counter(
      "circuit_rejections_total",
      "Attempts put off because their circuit was open.",
    ),
    circuitsRefused: counter(
      "circuits_refused_total",
      "Failures of destinations without a circuit breaker that got none: too many circuits are open.",
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
      "Time of one batch of decisions and its transaction.",
      WORK_SECONDS,
    ),
    reconcileQueueDepth: gauge("reconcile_queue_depth", "Jobs waiting to be reconciled."),
    namespacesRefused: gauge(
      "namespaces_refused",
      "Watched namespaces that the API server does not let this process list: their jobs wait.",
    ),
    statusWrites: counter("status_writes_total", "Job status writes by outcome (written, error).", [
      "outcome",
    ]),

    // Kubernetes. `resource` is a plural name, `status` the HTTP status or `error` for no answer.
    kubernetesRequests: counter(
      "kubernetes_requests_total",
      "Calls of the Kubernetes API by verb, resource and status; retries count each.",
      ["verb", "resource", "status"],
    ),
    kubernetesRequestDuration: histogram(
      "kubernetes_request_duration_seconds",
      "Time from sending a call of the Kubernetes API to the headers of its answer.",
      REQUEST_SECONDS,
      ["verb", "resource"],
    ),
    kubernetesWatchEnds: counter(
      "kubernetes_watch_ends_total",
      "Watches that ended, by reason (timeout, inactive, expired, malformed, lost).",
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
      "Connections of the pool by state (idle, used).",
      ["state"],
    ),
    databasePoolWaiting: gauge("database_pool_waiting", "Callers waiting for a connection."),
    databaseUp: gauge(
      "database_up",
      "1 when PostgreSQL answered at this scrape, and takes writes, otherwise 0.",
    ),
    databaseFailures: counter(
      "database_failures_total",
      "Statements that PostgreSQL did not carry out, and that are tried again: unreachable, read-only, full, too slow, locked.",
    ),
    clockOffset: gauge(
      "clock_offset_seconds",
      "PostgreSQL's clock minus this machine's wall clock.",
    ),

    retentionLastSuccess: gauge(
      "retention_last_success_timestamp_seconds",
      "When this process last removed all that is past its retention (history, finished one-time jobs); until it has, when it started.",
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
