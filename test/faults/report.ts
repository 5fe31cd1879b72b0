import { isoUtc } from "../../src/domain/instant.ts";
import type { RoundReport } from "./round.ts";

/** What a round, or several together, came to; one fact a line. */
export function summary(reports: readonly RoundReport[]): string {
  const sum = (of: (report: RoundReport) => number): number =>
    reports.reduce((total, report) => total + of(report), 0);
  const reasons: Record<string, number> = {};
  for (const { verdict } of reports)
    for (const [reason, count] of Object.entries(verdict.reasons))
      reasons[reason] = (reasons[reason] ?? 0) + count;
  const lateness = reports.flatMap(({ verdict }) => verdict.lateness).sort((a, b) => a - b);
  const skipped = sum(({ faults }) => faults.skipped);
  const settled = Math.max(...reports.map(({ settledAfterMs }) => settledAfterMs));
  return [
    `  jobs ${sum(({ jobs }) => jobs.created)} (refused as too late ${sum(({ jobs }) => jobs.refused)}), ` +
      `targets ${sum(({ verdict }) => verdict.targets)}, crossed by an edit ${sum(({ verdict }) => verdict.free)}`,
    `  faults ${sum(({ faults }) => faults.committed)}` +
      (skipped > 0 ? `, SKIPPED ${skipped} clock jumps: libfaketime is not installed` : ""),
    `  delivered ${sum(({ verdict }) => verdict.delivered)} in ${sum(({ verdict }) => verdict.requests)} requests; ` +
      `lateness ms p50 ${quantile(lateness, 0.5)}, p90 ${quantile(lateness, 0.9)}, max ${quantile(lateness, 1)}`,
    `  accounted for within ${(settled / 1_000).toFixed(1)} s of the last fault`,
    ...Object.entries(reasons)
      .sort(([, a], [, b]) => b - a)
      .map(([reason, count]) => `  not delivered ${String(count).padStart(5)}  ${reason}`),
    `  violations ${sum((report) => violationLines(report).length)}`,
  ].join("\n");
}

export function violationLines({ verdict, crashes }: RoundReport): string[] {
  return [
    ...verdict.violations.map(
      ({ kind, jobId, at, detail }) => `  VIOLATION ${kind} ${jobId} ${isoUtc(at)}: ${detail}`,
    ),
    ...crashes.map((crash) => `  VIOLATION crash: ${crash}`),
  ];
}

function quantile(ascending: readonly number[], share: number): number {
  return Math.round(ascending[Math.ceil(share * ascending.length) - 1] ?? 0);
}
