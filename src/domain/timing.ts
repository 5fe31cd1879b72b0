import type { Cursor, OnceState } from "./cursor.ts";
import type { JobSpec } from "./job.ts";
import {
  compileSchedule,
  cronKey,
  MOST_SCHEDULES,
  scheduleHash,
  type CompileResult,
} from "./schedule.ts";
import { createSharedValues } from "./shared-values.ts";

/** A job's schedule, compiled once per revision. Jobs with the same cron schedule share one. */
export interface Timing {
  /** Also not ok when the spec is refused for another reason than its schedule. */
  readonly compiled: CompileResult;
  /** `scheduleHash` of the spec. */
  readonly hash: string;
}

type TimedSpec = Pick<JobSpec, "schedule" | "suspend" | "refusal">;

const sharedTimings = createSharedValues<Timing>(MOST_SCHEDULES);

export function timingOf(spec: TimedSpec): Timing {
  const key = spec.refusal ? undefined : cronKey(spec.schedule);
  return key === undefined
    ? newTiming(spec)
    : sharedTimings(`${spec.suspend} ${key}`, () => newTiming(spec));
}

function newTiming(spec: TimedSpec): Timing {
  const { refusal, schedule } = spec;
  return {
    compiled: refusal ? { ok: false, finding: refusal } : compileSchedule(schedule),
    hash: scheduleHash(spec),
  };
}

/**
 * How a one-time job stands by its cursor, which may be older than the job: pause and resume keep the state,
 * another time arms the job again (docs/decisions/0023, "another time").
 */
export function onceStateOf(
  job: { spec: Pick<JobSpec, "schedule" | "suspend"> },
  cursor: Pick<Cursor, "once" | "scheduleHash"> | undefined,
  timing: Timing,
): OnceState {
  if (cursor === undefined || job.spec.schedule.kind !== "once") return "armed";
  if (cursor.scheduleHash === timing.hash) return cursor.once;
  const { schedule, suspend } = job.spec;
  const onlyToggled = cursor.scheduleHash === scheduleHash({ schedule, suspend: !suspend });
  return onlyToggled ? cursor.once : "armed";
}
