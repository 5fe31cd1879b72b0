import type { Instant } from "./instant.ts";
import type { DecidedReason, MissedSpan } from "./run.ts";
import type { CompiledSchedule } from "./schedule.ts";

export interface Cut {
  /** Fire times before this moment may not run. */
  at: Instant;
  reason: DecidedReason;
}

/** All fire times in (after, until]: those before the cut with its reason, the others as downtime. */
export function missedSpans(
  schedule: CompiledSchedule,
  { after, until }: { after: Instant; until: Instant },
  cut: Cut,
): MissedSpan<DecidedReason>[] {
  const cutEnd = cut.reason === "downtime" ? after : Math.max(after, Math.min(until, cut.at - 1));
  return [
    ...span(schedule, { after, until: cutEnd }, cut.reason),
    ...span(schedule, { after: cutEnd, until }, "downtime"),
  ];
}

function span(
  schedule: CompiledSchedule,
  { after, until }: { after: Instant; until: Instant },
  reason: DecidedReason,
): MissedSpan<DecidedReason>[] {
  if (until <= after) return [];
  const last = schedule.latest(until, after);
  const first = schedule.next(after);
  if (last === null || first === null) return [];
  return [{ first, last, count: schedule.count(after, until), reason }];
}
