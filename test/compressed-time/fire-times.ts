/** The checker's part that asks whether each fire time is accounted for exactly once. */
import type { Instant } from "../../src/domain/instant.ts";
import type { RecordedSpan } from "./evidence.ts";
import type { Case, Report } from "./verdict.ts";

/** How far the recorded start or end of a pause may be from the moment that counts for the scheduler. */
const PAUSE_ERROR_MS = 5;

interface Tally {
  fireTimes: number;
  excused: number;
}

/** Each fire time of a cron from its creation until it was deleted or paused for good is accounted for exactly once. */
export function judgeCron(each: Case, period: number, report: Report): Tally {
  const { job, executions, spans } = each;
  const executed = new Set(
    executions.flatMap(({ trigger, scheduledAt }) => (trigger === "schedule" ? [scheduledAt] : [])),
  );
  const pauses = [...pausesOf(each), ...haltsOf(each), ...pausedUnseen(each)];
  const until = accountableUntil(each);
  const tally: Tally = { fireTimes: 0, excused: 0 };
  const first = (Math.floor(job.createdAt / period) + 1) * period;
  for (let at = first; at < until; at += period) {
    const covering = spans.filter((span) => span.first <= at && at <= span.last);
    // A span with a gap, such as of runs that were dropped on both sides of one that had started, does not account for
    // each of its times.
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
  // Runs by hand that were dropped are counted in the span of the runs that were dropped with them.
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
 * For a deleted job, up to what had been decided by then, and nothing if no leader has seen it: docs/reliability.md
 * says why. For the others, up to the last step: in the end they are paused, and the scheduler has taken that up.
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
 * A pause counts from the request until the scheduler has taken up its end. Fire times in between may be executed,
 * recorded or neither, depending on when the scheduler took up what.
 */
function pausesOf({ job, decided }: Case): Pause[] {
  const pauses: Pause[] = [];
  let from: Instant | undefined;
  for (const { what, at, generation } of job.steps) {
    if (what === "pause") from ??= at - PAUSE_ERROR_MS;
    if (what !== "resume" || from === undefined) continue;
    const takenUp = decided.find((each) => each.outcome === "won" && each.generation >= generation);
    pauses.push({ from, until: (takenUp?.until ?? at) + PAUSE_ERROR_MS });
    from = undefined;
  }
  if (from !== undefined) pauses.push({ from, until: Infinity });
  return pauses;
}

/**
 * The time before a scheduler first saw a job that was paused by then: docs/reliability.md says why nothing is
 * recorded.
 */
function pausedUnseen({ job, decided }: Case): Pause[] {
  const first = decided.find(({ outcome }) => outcome === "won");
  return first?.wasStartable === undefined && first?.startable === false
    ? [{ from: job.createdAt, until: first.until }]
    : [];
}

/** From a call that was answered 410 until the scheduler lets the job start runs again. */
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
      {
        from: (sent?.at ?? executedAt) - PAUSE_ERROR_MS,
        until: (takenUp?.until ?? Infinity) + PAUSE_ERROR_MS,
      },
    ];
  });
}

/** A one-time's last time is accounted for, and its job has ended accordingly. */
export function judgeOnce(each: Case, report: Report): Tally {
  const { job, executions, spans, cursor } = each;
  if (job.schedule.kind !== "once") throw new Error(`not a cron of this suite: ${job.id}`);
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
  // Checks the times that the job had before, too, about which the cursor says nothing any more.
  const executed = new Set(scheduled.map(({ scheduledAt }) => scheduledAt));
  for (const span of spans)
    if (span.first === span.last && executed.has(span.first) && !askedAgain(each, span))
      report("two-accounts", span.first, `executed, and recorded as missed: ${span.reason}`);
  return { fireTimes: 1, excused: 0 };
}

/**
 * The job was moved to a time that it had missed: it is asked for anew, and executed. (Not the other way round: a time
 * that was executed is not missed, however often the job is moved back to it.)
 */
function askedAgain({ job, decided }: Case, { first, recordedAt }: RecordedSpan): boolean {
  return job.steps.some(({ schedule, generation }) => {
    if (schedule?.kind !== "once" || schedule.at !== first) return false;
    const takenUp = decided.find((each) => each.outcome === "won" && each.generation >= generation);
    return takenUp !== undefined && takenUp.from > recordedAt;
  });
}
