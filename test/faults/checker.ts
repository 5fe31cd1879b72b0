/**
 * What must hold after every round of the fault suite, whatever was done to the system. Pure: it compares what was
 * asked of the system with the receivers' own log and with what the system recorded.
 */
import { isoUtc, type Instant } from "../../src/domain/instant.ts";
import type {
  Arrival,
  Evidence,
  ExpectedJob,
  RecordedExecution,
  RecordedSpan,
  Target,
} from "./evidence.ts";

export type ViolationKind =
  | "lost"
  | "early"
  | "duplicate"
  | "changed-id"
  | "too-many-attempts"
  | "repeated-attempt"
  | "unrecorded-delivery"
  | "success-without-delivery"
  | "two-accounts"
  | "given-up"
  | "cancelled-but-fired"
  | "overlapping"
  | "out-of-turn"
  | "unasked"
  | "wrong-span"
  | "stuck"
  | "slow-recovery";

export interface Violation {
  kind: ViolationKind;
  jobId: string;
  /** The fire time that it is about, be it expected or not. */
  at: Instant;
  detail: string;
}

export interface Verdict {
  violations: Violation[];
  /** Expected fire times that had to be accounted for. */
  targets: number;
  /** Those that an operation crossed, or that were cancelled in time. */
  free: number;
  /** Runs that were asked for by hand. */
  manual: number;
  /** Targets with at least one delivery. */
  delivered: number;
  /** Requests at the receiver. */
  requests: number;
  /** Why targets without a delivery have none: reason → targets. */
  reasons: Record<string, number>;
  /** Milliseconds from target to first arrival, ascending. */
  lateness: number[];
}

interface Case {
  job: ExpectedJob;
  target: Target;
  manual: boolean;
  arrivals: Arrival[];
  executions: RecordedExecution[];
  spans: RecordedSpan[];
}

/** docs/reliability.md promises that deliveries go on within so many milliseconds after an outage. */
const RECOVERY_MS = 30_000;
/** A replaced run may still be under way when its replacement is sent: it is aborted within so many milliseconds. */
const ABORTED_WITHIN_MS = 5_000;
/** Reasons that only an operation can cause: not accepted for a fire time that no operation has touched. */
const ASKED_FOR = new Set(["superseded", "paused", "deleted", "account_deleted"]);

export function check(evidence: Evidence): Verdict {
  const violations: Violation[] = [];
  const { cases, strays } = assign(evidence);
  violations.push(...strays);
  const reasons: Record<string, number> = {};
  const lateness: number[] = [];
  let targets = 0;
  let free = 0;
  let manual = 0;
  let delivered = 0;
  for (const each of cases) {
    if (each.manual) manual += 1;
    else if (each.target.rule === "once") targets += 1;
    else free += 1;
    violations.push(...judge(each, evidence.clockError));
    const first = each.arrivals[0];
    if (first) {
      delivered += 1;
      if (!each.manual) lateness.push(first.at - each.target.at);
    } else {
      const reason = reasonOf(each);
      if (reason !== undefined) reasons[reason] = (reasons[reason] ?? 0) + 1;
    }
  }
  const scheduled = cases.filter((each) => !each.manual && each.job.concurrencyPolicy !== "Allow");
  for (const ofJob of Map.groupBy(scheduled, ({ job }) => job.jobId).values())
    violations.push(...judgeOverlap(ofJob, evidence.clockError));
  for (const { runId, jobId, scheduledAt } of evidence.unfinished)
    if (scheduledAt <= evidence.until)
      violations.push({ kind: "stuck", jobId, at: scheduledAt, detail: `run ${runId}` });
  violations.push(...judgeRecovery(evidence.recovery));
  return {
    violations,
    targets,
    free,
    manual,
    delivered,
    requests: cases.reduce((sum, { arrivals }) => sum + arrivals.length, 0),
    reasons,
    lateness: lateness.sort((a, b) => a - b),
  };
}

/** Assigns all evidence to its target or its run by hand. What is left was never asked for: the strays. */
function assign(evidence: Evidence): { cases: Case[]; strays: Violation[] } {
  const strays: Violation[] = [];
  const byJob = new Map<string, Map<Instant, Case>>();
  const byHand = new Map<string, Case>();
  for (const job of evidence.jobs) {
    const cases = new Map<Instant, Case>();
    for (const target of job.targets)
      if (target.at <= evidence.until) cases.set(target.at, emptyCase(job, target, false));
    byJob.set(job.jobId, cases);
    if (job.manual) byHand.set(job.jobId, emptyCase(job, job.manual, true));
  }
  const manualRuns = new Set(
    [...evidence.executions, ...evidence.unfinished]
      .filter(({ trigger }) => trigger === "manual")
      .map(({ runId }) => runId),
  );
  const caseOf = (of: Arrival | RecordedExecution, what: string): Case | undefined => {
    const { jobId, scheduledAt: at, runId } = of;
    const found = manualRuns.has(runId) ? byHand.get(jobId) : byJob.get(jobId)?.get(at);
    if (found === undefined && at <= evidence.until)
      strays.push({ kind: "unasked", jobId, at, detail: `${what} of run ${runId}` });
    return found;
  };
  for (const arrival of [...evidence.arrivals].sort((a, b) => a.at - b.at))
    caseOf(arrival, "request")?.arrivals.push(arrival);
  for (const execution of evidence.executions)
    caseOf(execution, "execution")?.executions.push(execution);
  for (const span of evidence.missed) {
    if (span.first > evidence.until) continue;
    const covered = [...(byJob.get(span.jobId)?.values() ?? [])].filter(
      ({ target }) => target.at >= span.first && target.at <= span.last,
    );
    for (const each of covered) each.spans.push(span);
    if (covered.length !== span.count && span.last <= evidence.until)
      strays.push({
        kind: "wrong-span",
        jobId: span.jobId,
        at: span.first,
        detail: `${span.reason}: says ${span.count} fire times until ${isoUtc(span.last)}, there are ${covered.length}`,
      });
  }
  const scheduled = [...byJob.values()].flatMap((cases) => [...cases.values()]);
  return { cases: [...scheduled, ...byHand.values()], strays };
}

function emptyCase(job: ExpectedJob, target: Target, manual: boolean): Case {
  return { job, target, manual, arrivals: [], executions: [], spans: [] };
}

function judgeRecovery({ from, deliveredAt }: Evidence["recovery"]): Violation[] {
  if (deliveredAt !== null && deliveredAt - from <= RECOVERY_MS) return [];
  const detail =
    deliveredAt === null
      ? "a job made after the last fault did not run"
      : `a job made after the last fault ran ${deliveredAt - from} ms after it`;
  return [{ kind: "slow-recovery", jobId: "", at: from, detail }];
}

function judge(each: Case, clockError: number): Violation[] {
  const { job, target, arrivals, executions, spans } = each;
  const found: Violation[] = [];
  const report = (kind: ViolationKind, detail: string): void => {
    found.push({ kind, jobId: job.jobId, at: target.at, detail });
  };

  if (target.rule === "never" && arrivals.length > 0)
    report("cancelled-but-fired", describeArrivals(arrivals));
  if (target.rule === "once" && arrivals.length + executions.length + spans.length === 0)
    report("lost", "no request, no execution, not recorded as missed");
  if (spans.length > 1 || (spans.length > 0 && arrivals.length + executions.length > 0))
    report(
      "two-accounts",
      `missed (${spans.map((span) => span.reason).join(", ")}), ${executions.length} executions, ${describeArrivals(arrivals)}`,
    );
  const [span] = spans;
  if (target.rule === "once" && span && ASKED_FOR.has(span.reason))
    report("given-up", `recorded as ${span.reason}, which nobody asked for`);
  for (const arrival of arrivals)
    if (arrival.at < target.at - clockError)
      report(
        "early",
        `${target.at - arrival.at} ms before its time: ${describeArrivals([arrival])}`,
      );

  if (job.maxRetries === 0 && arrivals.length > 1) report("duplicate", describeArrivals(arrivals));
  const ids = new Set([...arrivals, ...executions].map(({ runId }) => runId));
  if (ids.size > 1) report("changed-id", [...ids].join(", "));
  if (arrivals.length > 1 + job.maxRetries || executions.length > 1 + job.maxRetries)
    report(
      "too-many-attempts",
      `${executions.length} executions with max_retries ${job.maxRetries}, ${describeArrivals(arrivals)}`,
    );
  const attempts = new Set(arrivals.map(({ runId, attempt }) => `${runId} ${attempt}`));
  if (attempts.size < arrivals.length) report("repeated-attempt", describeArrivals(arrivals));

  for (const arrival of arrivals)
    if (!executions.some((execution) => sameAttempt(execution, arrival)))
      report("unrecorded-delivery", describeArrivals([arrival]));
  for (const execution of executions)
    if (execution.status === "success") {
      const arrival = arrivals.find((candidate) => sameAttempt(execution, candidate));
      if (arrival?.answered === undefined || arrival.answered === null || arrival.answered >= 300)
        report(
          "success-without-delivery",
          `attempt ${execution.attempt} of run ${execution.runId}: ${describeArrivals(arrival ? [arrival] : [])}`,
        );
    }
  return found;
}

/**
 * For Forbid and Replace: no fire time is sent long after a later one. For Forbid: none is sent while one of an earlier
 * fire time is open, unless that one was given up with its worker, and recorded so.
 */
function judgeOverlap(cases: readonly Case[], clockError: number): Violation[] {
  const inOrder = cases.toSorted((a, b) => a.target.at - b.target.at);
  const found: Violation[] = [];
  for (const [index, { job, target, arrivals, executions }] of inOrder.entries())
    for (const earlier of arrivals)
      for (const later of inOrder.slice(index + 1).flatMap((each) => each.arrivals)) {
        const report = (kind: ViolationKind): void => {
          const detail = `${job.concurrencyPolicy}: ${describeArrivals([earlier])}; ${describeArrivals([later])}`;
          found.push({ kind, jobId: job.jobId, at: target.at, detail });
        };
        if (earlier.at > later.at + ABORTED_WITHIN_MS) report("out-of-turn");
        else if (
          job.concurrencyPolicy === "Forbid" &&
          (earlier.endedAt ?? Infinity) > later.at + clockError &&
          !executions.some((each) => sameAttempt(each, earlier) && gaveUp(each))
        )
          report("overlapping");
      }
  return found;
}

function gaveUp({ errorMessage }: RecordedExecution): boolean {
  return errorMessage?.startsWith("interrupted") === true;
}

function sameAttempt(
  a: { runId: string; attempt: number },
  b: { runId: string; attempt: number },
): boolean {
  return a.runId === b.runId && a.attempt === b.attempt;
}

function reasonOf({ executions, spans }: Case): string | undefined {
  const [span] = spans;
  if (span) return `missed: ${span.reason}`;
  return executions.at(-1)?.errorMessage ?? undefined;
}

function describeArrivals(arrivals: readonly Arrival[]): string {
  if (arrivals.length === 0) return "no request";
  return arrivals
    .map(
      ({ runId, attempt, at, answered }) =>
        `attempt ${attempt} of ${runId} at ${isoUtc(at)}, answered ${answered ?? "nothing"}`,
    )
    .join("; ");
}
