/**
 * What must hold after a round of compressed time, whatever was done meanwhile. Pure: it compares what was asked of the
 * system with the receiver's own log and with what the system recorded. Fire times come from plain arithmetic, not from
 * the scheduler's code.
 */
import type { Evidence } from "./evidence.ts";
import { judgeCron, judgeOnce } from "./fire-times.ts";
import { periodOf } from "./short-crons.ts";
import type { Case, Report, Verdict, Violation } from "./verdict.ts";

/**
 * How far a process's measurement of PostgreSQL's clock may be off, in ms, since everything runs in one thread. It is
 * much less than the time for which runs are prepared ahead, so a run that is sent when it is prepared counts as early.
 */
const CLOCK_ERROR_MS = 15;
/**
 * A run that was started before its job was deleted may reach the receiver after the deletion has been answered: the
 * answer to the start takes up to 15 ms longer here, and the signing secrets up to 180.
 */
const ON_ITS_WAY_MS = 250;
const byUid = (of: { jobUid: string }): string => of.jobUid;

export function check(evidence: Evidence): Verdict {
  const violations: Violation[] = [];
  const verdict: Verdict = { violations, fireTimes: 0, excused: 0 };
  const arrivals = Map.groupBy(evidence.arrivals, ({ jobId }) => jobId);
  const executions = Map.groupBy(evidence.executions, byUid);
  const spans = Map.groupBy(evidence.missed, byUid);
  const decided = Map.groupBy(evidence.decided, byUid);
  const unfinished = Map.groupBy(evidence.unfinished, byUid);
  const cursors = new Map(evidence.cursors.map((cursor) => [cursor.jobUid, cursor]));
  for (const job of evidence.jobs) {
    const report: Report = (kind, at, detail) => {
      violations.push({ kind, job, at, detail });
    };
    const each: Case = {
      job,
      arrivals: arrivals.get(job.id) ?? [],
      executions: executions.get(job.uid) ?? [],
      spans: spans.get(job.uid) ?? [],
      decided: decided.get(job.uid) ?? [],
      cursor: cursors.get(job.uid),
    };
    for (const { runId, scheduledAt } of unfinished.get(job.uid) ?? [])
      report("stuck", scheduledAt, `run ${runId} is still there`);
    judgeRuns(each, report);
    judgeByHand(each, report);
    judgeDeletion(each, report);
    if (job.concurrencyPolicy === "Forbid" && (job.kind === "quiet" || job.kind === "deleted"))
      judgeOverlap(each, report);
    const period = periodOf(job.schedule);
    const { fireTimes, excused } =
      period === undefined ? judgeOnce(each, report) : judgeCron(each, period, report);
    verdict.fireTimes += fireTimes;
    verdict.excused += excused;
  }
  for (const crash of evidence.crashes)
    violations.push({ kind: "crash", job: undefined, at: 0, detail: crash });
  return verdict;
}

/** What must hold for each run and each executed fire time, whatever was asked. */
function judgeRuns({ job, arrivals, executions }: Case, report: Report): void {
  const byHand = new Set(
    executions.flatMap(({ runId, trigger }) => (trigger === "manual" ? [runId] : [])),
  );
  const most = job.maxRetries + 1;
  const all = [...arrivals, ...executions];
  const scheduled = all.filter(({ runId }) => !byHand.has(runId));
  for (const [at, of] of Map.groupBy(scheduled, ({ scheduledAt }) => scheduledAt)) {
    const runs = new Set(of.map(({ runId }) => runId));
    if (runs.size > 1) report("two-runs", at, `the fire time became ${[...runs].join(" and ")}`);
  }
  for (const runId of new Set(all.map(({ runId }) => runId))) {
    const sent = arrivals.filter((arrival) => arrival.runId === runId);
    const recorded = executions.filter((execution) => execution.runId === runId);
    const at = (sent[0] ?? recorded[0])?.scheduledAt ?? 0;
    if (sent.length > most || recorded.length > most)
      report(
        "too-many-attempts",
        at,
        `run ${runId} was sent ${sent.length} times and has ${recorded.length} executions, of ${most} at most`,
      );
    for (const [what, attempts] of [
      ["sent", sent],
      ["recorded", recorded],
    ] as const) {
      const numbers = attempts.map(({ attempt }) => attempt);
      if (new Set(numbers).size < numbers.length)
        report("repeated-attempt", at, `run ${runId}: attempts ${what}: ${numbers.join(", ")}`);
    }
    for (const arrival of sent) {
      const { attempt } = arrival;
      if (arrival.at < at - CLOCK_ERROR_MS)
        report("early", at, `attempt ${attempt} of run ${runId} came ${at - arrival.at} ms early`);
      const execution = recorded.find((each) => each.attempt === attempt);
      if (execution === undefined)
        report("unrecorded-delivery", at, `attempt ${attempt} of run ${runId} has no execution`);
      else if (arrival.at > execution.recordedAt + CLOCK_ERROR_MS)
        report(
          "sent-after-takeover",
          at,
          `attempt ${attempt} of run ${runId} was sent ${arrival.at - execution.recordedAt} ms after it had been recorded (${execution.errorMessage ?? execution.status})`,
        );
    }
    for (const { attempt, status } of recorded) {
      const answered = sent.find((arrival) => arrival.attempt === attempt)?.answered ?? null;
      if (status === "success" && answered !== 200)
        report(
          "success-without-delivery",
          at,
          `attempt ${attempt} of run ${runId} is recorded as a success, the receiver answered ${answered ?? "nothing"}`,
        );
    }
  }
}

/** Runs by hand that were accepted have run. Only for jobs that nobody changes, whose runs nothing may drop. */
function judgeByHand({ job, executions }: Case, report: Report): void {
  if (job.kind !== "quiet") return;
  const asked = job.steps.filter(({ what, answered }) => what === "run by hand" && answered);
  const ran = new Set(
    executions.flatMap(({ runId, trigger }) => (trigger === "manual" ? [runId] : [])),
  );
  if (ran.size !== asked.length)
    report(
      "lost-by-hand",
      asked[0]?.at ?? job.createdAt,
      `${asked.length} runs by hand were accepted, ${ran.size} have executions`,
    );
}

function judgeDeletion({ job, arrivals }: Case, report: Report): void {
  const answered = job.steps.find(({ what }) => what === "delete")?.answered ?? null;
  if (answered === null) return;
  for (const { at, runId, scheduledAt } of arrivals)
    if (at > answered + ON_ITS_WAY_MS)
      report(
        "sent-after-deletion",
        scheduledAt,
        `run ${runId} was sent ${at - answered} ms after the deletion had been answered`,
      );
}

/** With Forbid, no run is sent while one of another fire time is open, unless that one was given up with its worker. */
function judgeOverlap({ arrivals, executions }: Case, report: Report): void {
  const byHand = new Set(
    executions.flatMap(({ runId, trigger }) => (trigger === "manual" ? [runId] : [])),
  );
  const inOrder = arrivals
    .filter(({ runId }) => !byHand.has(runId))
    .toSorted((a, b) => a.at - b.at);
  for (const [index, later] of inOrder.entries())
    for (const earlier of inOrder.slice(0, index)) {
      if (earlier.scheduledAt === later.scheduledAt) continue;
      const open = (earlier.endedAt ?? Infinity) > later.at + CLOCK_ERROR_MS;
      const givenUp = executions.some(
        ({ runId, attempt, errorMessage }) =>
          runId === earlier.runId &&
          attempt === earlier.attempt &&
          errorMessage?.startsWith("interrupted") === true,
      );
      if (open && !givenUp)
        report(
          "overlapping",
          later.scheduledAt,
          `run ${later.runId} was sent while run ${earlier.runId} of an earlier fire time was open`,
        );
    }
}
