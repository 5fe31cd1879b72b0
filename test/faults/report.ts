import { isoUtc } from "../../src/domain/instant.ts";
import type { RoundReport } from "./round.ts";

/** The figures of one round or of several together, one fact per line. */
export function summary(reports: readonly RoundReport[]): string {
  const sum = (of: (report: RoundReport) => number): number =>
    reports.reduce((total, report) => total + of(report), 0);
  const longest = (of: (report: RoundReport) => number): string =>
    `${(Math.max(...reports.map(of)) / 1_000).toFixed(1)} s`;
  const faults = sumsOf(reports.map((report) => report.faults.committed));
  const reasons = sumsOf(reports.map((report) => report.verdict.reasons));
  const lateness = reports.flatMap(({ verdict }) => verdict.lateness).sort((a, b) => a - b);
  const skipped = sum((report) => report.faults.skipped);
  const kinds = ranked(faults).map(([label, count]) => `${label} ${count}`);
  return [
    `  jobs ${sum(({ jobs }) => jobs.created)} (refused as too late ${sum(({ jobs }) => jobs.refused)}), ` +
      `targets ${sum(({ verdict }) => verdict.targets)}, crossed by an edit ${sum(({ verdict }) => verdict.free)}, ` +
      `asked for by hand ${sum(({ verdict }) => verdict.manual)}`,
    `  faults ${Object.values(faults).reduce((total, count) => total + count, 0)}` +
      (skipped > 0 ? ` (SKIPPED ${skipped} clock jumps: libfaketime is not installed)` : "") +
      `: ${kinds.join(", ")}`,
    `  delivered ${sum(({ verdict }) => verdict.delivered)} in ${sum(({ verdict }) => verdict.requests)} requests; ` +
      `lateness ms p50 ${quantile(lateness, 0.5)}, p90 ${quantile(lateness, 0.9)}, max ${quantile(lateness, 1)}`,
    `  after the last fault: a new job delivered within ${longest((report) => report.recoveredAfterMs ?? Infinity)}, ` +
      `everything accounted for within ${longest((report) => report.settledAfterMs)}`,
    ...ranked(reasons).map(
      ([reason, count]) => `  not delivered ${String(count).padStart(5)}  ${reason}`,
    ),
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

function sumsOf(counts: readonly Record<string, number>[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const each of counts)
    for (const [name, count] of Object.entries(each)) sums[name] = (sums[name] ?? 0) + count;
  return sums;
}

function ranked(counts: Record<string, number>): [string, number][] {
  return Object.entries(counts).sort(([, a], [, b]) => b - a);
}

function quantile(ascending: readonly number[], share: number): number {
  return Math.round(ascending[Math.ceil(share * ascending.length) - 1] ?? 0);
}
