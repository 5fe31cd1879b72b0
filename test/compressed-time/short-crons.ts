import type { Instant } from "../../src/domain/instant.ts";
import type { Schedule } from "../../src/domain/job.ts";
import type { CompileResult, compileSchedule } from "../../src/domain/schedule.ts";

/** A cron of this suite: it fires at all multiples of `period` milliseconds since the epoch. */
export function everyMs(period: number): Schedule {
  return { kind: "cron", expression: `@every ${period}`, timeZone: "UTC" };
}

/** Milliseconds between the fire times of `everyMs`; undefined for every other schedule. */
export function periodOf(schedule: Schedule): number | undefined {
  const [, period] = (schedule.kind === "cron" && /^@every (\d+)$/.exec(schedule.expression)) || [];
  return period === undefined ? undefined : Number(period);
}

/**
 * The product's compiler, which also compiles `everyMs`. Crons of people fire once a minute at most, so a test of the
 * whole would see only a few fire times of each job. The scheduler asks the same three questions of any schedule.
 */
export function withShortCrons(compile: typeof compileSchedule): typeof compileSchedule {
  return (schedule) => {
    const period = periodOf(schedule);
    return period === undefined ? compile(schedule) : shortCron(period);
  };
}

function shortCron(period: number): CompileResult {
  const index = (at: Instant): number => Math.floor(at / period);
  return {
    ok: true,
    schedule: {
      next: (after) => (index(after) + 1) * period,
      latest: (atOrBefore, after) => {
        const at = index(atOrBefore) * period;
        return at > after ? at : null;
      },
      count: (after, upTo) => Math.max(0, index(upTo) - index(after)),
    },
  };
}
