/** Of the checker: whether each fire time that had to be is accounted for, exactly once. */
import type { Instant } from "../../src/domain/instant.ts";
import type { RecordedSpan } from "./evidence.ts";
import type { Case, Report } from "./verdict.ts";

/** Between the moment that we write down and the one that the scheduler goes by, when a pause begins and ends. */
const NOTED_MS = 5;

interface Tally {
  fireTimes: number;
  excused: number;
}

/** Each fire time of a cron, from its creation until it was deleted or paused for good, is accounted for exactly once. */
export function judgeCron(each: Case, period: number, report: Report): Tally {
  const { job, executions, spans } = each;
  const executed = new Set(
    executions.flatMap(({ trigger, scheduledAt }) => (trigger === "schedule" ? [scheduledAt] : [])),
  );
  const pauses = [...pausesOf(each), ...haltsOf(each), ...unseen(each)];
  const until = accountableUntil(each);
  const tally: Tally = { fireTimes: 0, excused: 0 };
  const first = (Math.floor(job.createdAt / period) + 1) * period;
  for (let at = first; at < until; at += period) {
    const covering = spans.filter((span) => span.first <= at && at <= span.last);
    // A span with a hole, as of runs that were dropped on both sides of one that had started, says less of each time.
    const exact = covering.filter((span) => span.count === timesIn(span, period));
    const accounts = Number(executed.has(at)) + exact.length;
    if (!executed.has(at) && covering.length === 0) {
      if (pauses.some(({ from, until: end }) => from <= at && at <= end)) {
        tally.excused += 1;
        continue;
      }
      report("lost", at, "neither executed nor recorded as missed");
    }
    tally.fireTimes += 1;
    if (accounts > 1)
      report(
        "two-accounts",
        at,
        `${executed.has(at) ? "executed, and " : ""}recorded as missed: ${exact.map(({ reason }) => reason).join(", ")}`,
      );
  }
  // Runs by hand that were dropped count in the span of those that were dropped with them.
  const byHand = job.steps.some(({ what }) => what === "run by hand");
  for (const span of spans)
    if (!byHand && span.count > timesIn(span, period))
      report(
        "wrong-span",
        span.first,
        `${span.count} times are recorded as missed (${span.reason}) where there are ${timesIn(span, period)}`,
      );
  return tally;
}

function timesIn({ first, last }: RecordedSpan, period: number): number {
  return Math.round((last - first) / period) + 1;
}

/**
 * Of a deleted job what had been decided by then, or was never seen by a leader: docs/reliability.md says why no more.
 * Of the others everything, since in the end they are paused, and have been taken up as such.
 */
function accountableUntil({ job, cursor }: Case): Instant {
  const deletion = job.steps.find(({ what }) => what === "delete");
  if (deletion === undefined) return job.steps.at(-1)?.at ?? job.createdAt;
  return cursor === undefined || cursor.generation === 0
    ? job.createdAt
    : Math.min(cursor.position, deletion.at);
}

interface Pause {
  from: Instant;
  until: Instant;
}

/**
 * From when a pause is asked for until the scheduler has taken up its end: in between fire times are executed, recorded,
 * or do not exist, depending on when it took up what.
 */
function pausesOf({ job, decided }: Case): Pause[] {
  const pauses: Pause[] = [];
  let from: Instant | undefined;
  for (const { what, at, generation } of job.steps) {
    if (what === "pause") from ??= at - NOTED_MS;
    if (what !== "resume" || from === undefined) continue;
    const takenUp = decided.find((each) => each.outcome === "won" && each.generation >= generation);
    pauses.push({ from, until: (takenUp?.until ?? at) + NOTED_MS });
    from = undefined;
  }
  if (from !== undefined) pauses.push({ from, until: Infinity });
  return pauses;
}

/** Of a new job that was paused before any scheduler saw it: docs/reliability.md says why nothing is on record. */
function unseen({ job, decided }: Case): Pause[] {
  const first = decided.find(({ outcome }) => outcome === "won");
  return first?.wasStartable === undefined && first?.startable === false
    ? [{ from: job.createdAt, until: first.until }]
    : [];
}

/** From the call that was answered 410 until the scheduler began anew after it. */
function haltsOf({ arrivals, executions, decided }: Case): Pause[] {
  return executions.flatMap(({ runId, attempt, httpStatus, executedAt }) => {
    if (httpStatus !== 410) return [];
    const sent = arrivals.find((each) => each.runId === runId && each.attempt === attempt);
    const answered = sent?.endedAt ?? executedAt;
    const takenUp = decided.find(
      (each) =>
        each.outcome === "won" &&
        each.startable &&
        each.wasStartable === false &&
        each.from > answered,
    );
    return [
      { from: (sent?.at ?? executedAt) - NOTED_MS, until: (takenUp?.until ?? Infinity) + NOTED_MS },
    ];
  });
}

/** The last time that a one-time was moved to is accounted for, and its job has ended as that says. */
export function judgeOnce(each: Case, report: Report): Tally {
  const { job, executions, spans, cursor } = each;
  if (job.schedule.kind !== "once") throw new Error(`a cron that is none of ours: ${job.id}`);
  const { at } = job.schedule;
  const scheduled = executions.filter(({ trigger }) => trigger === "schedule");
  const mine = scheduled.filter(({ scheduledAt }) => scheduledAt === at);
  const missed = spans.filter((span) => span.first <= at && at <= span.last);
  const end = cursor?.once ?? "unknown";
  const expected =
    mine.length === 0
      ? "missed"
      : mine.some(({ status }) => status === "success")
        ? "completed"
        : "failed";
  if (mine.length + missed.length === 0)
    report("lost", at, `neither executed nor recorded as missed; the job is ${end}`);
  else if (end !== expected) report("wrong-end", at, `the job ends as ${end}, not as ${expected}`);
  // Also of the times that it had before: of those the cursor says nothing any more.
  const executed = new Set(scheduled.map(({ scheduledAt }) => scheduledAt));
  for (const span of spans)
    if (span.first === span.last && executed.has(span.first) && !askedAgain(each, span))
      report("two-accounts", span.first, `executed, and recorded as missed: ${span.reason}`);
  return { fireTimes: 1, excused: 0 };
}

/**
 * Who moves a job to a time that it has missed asks for it anew, and gets it. (Not the other way round: a time that was
 * executed has not been missed, however often the job is moved back to it.)
 */
function askedAgain({ job, decided }: Case, { first, recordedAt }: RecordedSpan): boolean {
  return job.steps.some(({ schedule, generation }) => {
    if (schedule?.kind !== "once" || schedule.at !== first) return false;
    const takenUp = decided.find((each) => each.outcome === "won" && each.generation >= generation);
    return takenUp !== undefined && takenUp.from > recordedAt;
  });
}
