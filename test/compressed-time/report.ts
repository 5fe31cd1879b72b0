import { isoUtc, type Instant } from "../../src/domain/instant.ts";
import type { Evidence } from "./evidence.ts";
import { periodOf } from "./short-crons.ts";
import type { Verdict, Violation } from "./verdict.ts";

/** The figures of a round, one fact per line. */
export function summary(evidence: Evidence, verdict: Verdict): string {
  const reasons: Record<string, number> = {};
  for (const { reason, count } of evidence.missed) reasons[reason] = (reasons[reason] ?? 0) + count;
  const failed = evidence.executions.filter(({ status }) => status === "failed").length;
  const missed = Object.entries(reasons).sort(([, a], [, b]) => b - a);
  const faults = Object.entries(evidence.faults).sort(([, a], [, b]) => b - a);
  return [
    `  jobs ${evidence.jobs.length}, changes ${evidence.jobs.reduce((sum, { steps }) => sum + steps.length, 0)}`,
    `  faults: ${faults.map(([fault, count]) => `${fault} ${count}`).join(", ")}`,
    `  requests ${evidence.arrivals.length}, executions ${evidence.executions.length} (failed ${failed})`,
    `  fire times checked ${verdict.fireTimes}, in a pause ${verdict.excused}`,
    `  missed ${missed.map(([reason, count]) => `${reason} ${count}`).join(", ")}`,
    `  violations ${verdict.violations.length}`,
  ].join("\n");
}

/** How many ms before and after a violation everything about its job is listed. */
const AROUND_MS = 900;

/** What is wrong, and what happened to the job around it. Moments are in ms from the fire time that it is about. */
export function describeViolation(
  { kind, job, at, detail }: Violation,
  evidence: Evidence,
): string {
  if (job === undefined) return `${kind}: ${detail}`;
  const from = (moment: Instant | null): string =>
    moment === null ? "?" : `${moment < at ? "" : "+"}${moment - at}`;
  const around = (start: Instant, end: Instant = start): boolean =>
    end > at - AROUND_MS && start < at + AROUND_MS;
  const events: [Instant, string][] = [];
  for (const step of job.steps)
    if (around(step.at)) {
      const to = step.schedule?.kind === "once" ? ` to ${from(step.schedule.at)}` : "";
      const cron = step.schedule && periodOf(step.schedule);
      const answered = step.answered === null ? "not answered" : `answered ${from(step.answered)}`;
      events.push([
        step.at,
        `asked: ${step.what}${to}${cron === undefined ? "" : ` to every ${cron} ms`}, generation ${step.generation}, ${answered}`,
      ]);
    }
  for (const each of evidence.decided)
    if (each.jobUid === job.uid && around(each.from, each.until)) {
      const created = each.created.map(
        ({ trigger, scheduledAt }) => `${trigger} ${from(scheduledAt)}`,
      );
      const missed = each.missed.map(
        ({ first, last, reason }) => `${from(first)} to ${from(last)} ${reason}`,
      );
      events.push([
        each.from,
        `${each.member} decided until ${from(each.until)}, ${each.outcome}: generation ${each.generation}, ` +
          `position ${from(each.position)}, ${each.startable ? "" : "not "}startable, ${each.once}, ` +
          `creates [${created.join(", ")}], missed [${missed.join(", ")}]`,
      ]);
    }
  for (const each of evidence.arrivals)
    if (each.jobId === job.id && around(each.scheduledAt))
      events.push([
        each.at,
        `sent: ${from(each.scheduledAt)}, attempt ${each.attempt} of ${each.runId}, ` +
          `answered ${each.answered ?? "nothing"} ${from(each.endedAt)}`,
      ]);
  for (const each of evidence.executions)
    if (each.jobUid === job.uid && around(each.scheduledAt))
      events.push([
        each.executedAt,
        `executed: ${each.trigger} ${from(each.scheduledAt)}, attempt ${each.attempt} of ${each.runId}, ` +
          `${each.status} ${each.errorMessage ?? ""}`,
      ]);
  for (const each of evidence.missed)
    if (each.jobUid === job.uid && around(each.first, each.last))
      events.push([
        each.recordedAt,
        `missed: ${from(each.first)} to ${from(each.last)}, ${each.count}, ${each.reason}`,
      ]);
  const cursor = evidence.cursors.find(({ jobUid }) => jobUid === job.uid);
  const end = cursor
    ? `in the end: generation ${cursor.generation}, position ${from(cursor.position)}, ${cursor.once}`
    : "in the end: no cursor";
  return [
    `${kind} ${job.id} (${job.concurrencyPolicy}, max_retries ${job.maxRetries}) at ${isoUtc(at)}: ${detail}`,
    ...events
      .sort(([a], [b]) => a - b)
      .map(([moment, event]) => `    ${from(moment).padStart(6)}  ${event}`),
    `    ${end}`,
  ].join("\n");
}
