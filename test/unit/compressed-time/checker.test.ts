import { describe, expect, test } from "vitest";
import { check } from "../../compressed-time/checker.ts";
import type {
  Decided,
  Evidence,
  LastCursor,
  RecordedExecution,
  RecordedSpan,
  Step,
  JobRecord,
} from "../../compressed-time/evidence.ts";
import { describeViolation } from "../../compressed-time/report.ts";
import { everyMs } from "../../compressed-time/short-crons.ts";
import type { ViolationKind } from "../../compressed-time/verdict.ts";
import type { Arrival } from "../../faults/evidence.ts";

/** Jobs are created at START, have fire times at 100, 200 and 300, and are paused for good at 350. */
const START = Date.UTC(2026, 10, 26, 12);
const PERIOD = 100;
const TIMES = [100, 200, 300];

const key = (after: number): string => `run-${after}`;

function arrival(after: number, changes: Partial<Arrival> = {}): Arrival {
  return {
    runId: key(after),
    jobId: "job-1",
    scheduledAt: START + after,
    attempt: 1,
    at: START + after + 5,
    answered: 200,
    endedAt: START + after + 15,
    ...changes,
  };
}

function execution(after: number, changes: Partial<RecordedExecution> = {}): RecordedExecution {
  return {
    jobUid: "uid-1",
    runId: key(after),
    trigger: "schedule",
    scheduledAt: START + after,
    attempt: 1,
    status: "success",
    httpStatus: 200,
    errorMessage: null,
    executedAt: START + after + 5,
    recordedAt: START + after + 40,
    ...changes,
  };
}

function span(after: number, changes: Partial<RecordedSpan> = {}): RecordedSpan {
  const at = START + after;
  return {
    jobUid: "uid-1",
    first: at,
    last: at,
    count: 1,
    reason: "downtime",
    recordedAt: at + 20,
    ...changes,
  };
}

function step(what: Step["what"], after: number, changes: Partial<Step> = {}): Step {
  return { what, at: START + after, answered: START + after + 2, generation: 1, ...changes };
}

function decided(after: number, changes: Partial<Decided> = {}): Decided {
  return {
    jobUid: "uid-1",
    member: "process-1",
    from: START + after,
    until: START + after + 10,
    outcome: "won",
    generation: 1,
    position: START + after,
    wasStartable: true,
    startable: true,
    once: "armed",
    created: [],
    missed: [],
    ...changes,
  };
}

function job(changes: Partial<JobRecord> = {}): JobRecord {
  return {
    uid: "uid-1",
    id: "job-1",
    kind: "edited",
    createdAt: START,
    schedule: everyMs(PERIOD),
    generation: 1,
    concurrencyPolicy: "Allow",
    maxRetries: 0,
    steps: [
      step("create", 0, { schedule: everyMs(PERIOD) }),
      step("pause", 350, { generation: 2 }),
    ],
    ...changes,
  };
}

function cursor(changes: Partial<LastCursor> = {}): LastCursor {
  return {
    jobUid: "uid-1",
    generation: 2,
    position: START + 360,
    once: "armed",
    deleted: false,
    ...changes,
  };
}

/** Evidence of a cron, each of whose three fire times was sent once and recorded once. */
function cron(changes: Partial<Evidence> = {}): Evidence {
  return {
    jobs: [job()],
    arrivals: TIMES.map((after) => arrival(after)),
    decided: [],
    executions: TIMES.map((after) => execution(after)),
    missed: [],
    cursors: [cursor()],
    unfinished: [],
    crashes: [],
    faults: {},
    ...changes,
  };
}

const but = <T extends { scheduledAt: number }>(all: readonly T[], after: number): T[] =>
  all.filter(({ scheduledAt }) => scheduledAt !== START + after);

/** The same without any trace of the fire time at 200. */
function without200(changes: Partial<Evidence> = {}): Evidence {
  const { arrivals, executions } = cron();
  return cron({ arrivals: but(arrivals, 200), executions: but(executions, 200), ...changes });
}

/** Evidence of a one-time at 200 that was sent and recorded. */
function once(changes: Partial<Evidence> = {}, steps: readonly Step[] = []): Evidence {
  const schedule = { kind: "once", at: START + 200 } as const;
  return cron({
    jobs: [job({ kind: "once", schedule, steps: [step("create", 0, { schedule }), ...steps] })],
    arrivals: [arrival(200)],
    executions: [execution(200)],
    cursors: [cursor({ once: "completed", generation: 1 })],
    ...changes,
  });
}

/** Evidence of a quiet job that forbids overlap; the request of 100 ends at `ended`. */
function forbidding(ended: number | null, errorMessage: string | null = null): Evidence {
  const failed = { status: "failed", httpStatus: 500, errorMessage } as const;
  return cron({
    jobs: [job({ kind: "quiet", concurrencyPolicy: "Forbid" })],
    arrivals: [
      arrival(100, {
        endedAt: ended === null ? null : START + ended,
        answered: errorMessage === null ? 200 : null,
      }),
      arrival(200),
      arrival(300),
    ],
    executions: [
      execution(100, errorMessage === null ? {} : failed),
      execution(200),
      execution(300),
    ],
  });
}

/** Evidence of a pause at 150 and a resume at 220, which the scheduler took up at `takenUp`. */
function pausedAt200(takenUp: number): Evidence {
  const steps = [
    step("create", 0),
    step("pause", 150, { generation: 2 }),
    step("resume", 220, { generation: 3 }),
    step("pause", 350, { generation: 4 }),
  ];
  return without200({
    jobs: [job({ kind: "paused", steps })],
    decided: [decided(takenUp, { generation: 3, wasStartable: false })],
  });
}

/** Evidence of a call of 100 that was answered 410, and of a lift of the halt, which was taken up at `takenUp`. */
function haltedAt200(takenUp: number): Evidence {
  const gone = { httpStatus: 410, status: "failed", errorMessage: "gone" } as const;
  return without200({
    jobs: [job({ kind: "gone" })],
    arrivals: [arrival(100, { answered: 410 }), arrival(300)],
    executions: [execution(100, gone), execution(300)],
    decided: [decided(takenUp, { wasStartable: false })],
  });
}

/** Evidence of a pause at 250, which was taken up at 260, without any trace of fire times. */
function newAndPaused(change: Partial<Decided>): Evidence {
  const steps = [step("create", 0), step("pause", 250, { generation: 2 })];
  return cron({
    jobs: [job({ kind: "paused", steps })],
    arrivals: [],
    executions: [],
    decided: [decided(260, { generation: 2, ...change })],
  });
}

/** Evidence of a deletion at 250, answered at 252; the scheduler had decided up to `position`. */
function deleted(position: number, changes: Partial<Evidence> = {}): Evidence {
  const { arrivals, executions } = cron();
  return cron({
    jobs: [job({ kind: "deleted", steps: [step("create", 0), step("delete", 250)] })],
    arrivals: but(arrivals, 300),
    executions: but(executions, 300),
    cursors: [cursor({ position: START + position, deleted: true })],
    ...changes,
  });
}

const byHand = { trigger: "manual", runId: "by-hand" } as const;

describe("what is in order", () => {
  const retried = { attempt: 2, at: START + 250 };
  const cases: { name: string; evidence: Evidence }[] = [
    { name: "a cron, each time sent and recorded once", evidence: cron() },
    { name: "a time that is recorded as missed", evidence: without200({ missed: [span(200)] }) },
    {
      name: "a span with a hole over a time that was executed",
      evidence: cron({
        executions: [execution(200)],
        arrivals: [arrival(200)],
        missed: [span(100, { last: START + 300, count: 2 })],
      }),
    },
    { name: "a time within a pause", evidence: pausedAt200(230) },
    { name: "a time within a halt", evidence: haltedAt200(230) },
    {
      name: "a new job that was paused before anybody saw it",
      evidence: newAndPaused({ wasStartable: undefined, startable: false }),
    },
    { name: "a deletion before the time was decided", evidence: deleted(201) },
    {
      name: "a job that no leader saw before its deletion",
      evidence: deleted(250, {
        arrivals: [],
        executions: [],
        cursors: [cursor({ generation: 0, position: START + 250, deleted: true })],
      }),
    },
    {
      name: "as many attempts as are allowed",
      evidence: cron({
        jobs: [job({ maxRetries: 1 })],
        arrivals: [...cron().arrivals, arrival(200, retried)],
        executions: [...cron().executions, execution(200, { attempt: 2 })],
      }),
    },
    { name: "requests that follow each other", evidence: forbidding(190) },
    {
      name: "one that was given up with its worker",
      evidence: forbidding(null, "interrupted: outcome unknown"),
    },
    { name: "a one-time that was sent", evidence: once() },
    {
      name: "a one-time that was missed",
      evidence: once({
        arrivals: [],
        executions: [],
        missed: [span(200)],
        cursors: [cursor({ once: "missed" })],
      }),
    },
    {
      name: "a one-time that was missed, and moved to the same time again",
      evidence: once(
        { missed: [span(200)], decided: [decided(210), decided(410, { generation: 3 })] },
        [step("move", 400, { generation: 3, schedule: { kind: "once", at: START + 200 } })],
      ),
    },
  ];
  test.each(cases)("$name", ({ evidence }) => {
    expect(check(evidence).violations.map((each) => describeViolation(each, evidence))).toEqual([]);
  });
});

describe("what is planted is found", () => {
  const failed = { status: "failed", httpStatus: 503, errorMessage: "busy" } as const;
  const cases: { name: string; evidence: Evidence; kind: ViolationKind }[] = [
    { name: "a fire time of which nothing is known", kind: "lost", evidence: without200() },
    { name: "one after a pause was over", kind: "lost", evidence: pausedAt200(160) },
    { name: "one after a halt was over", kind: "lost", evidence: haltedAt200(140) },
    {
      name: "one before a pause, of a job that was known",
      kind: "lost",
      evidence: newAndPaused({ wasStartable: true, startable: false }),
    },
    {
      name: "one that had been decided before the deletion",
      kind: "lost",
      evidence: deleted(201, { arrivals: [arrival(100)], executions: [execution(100)] }),
    },
    {
      name: "one that became two runs",
      kind: "two-runs",
      evidence: cron({
        arrivals: [...cron().arrivals, arrival(200, { runId: "another" })],
        executions: [...cron().executions, execution(200, { runId: "another" })],
      }),
    },
    {
      name: "one that was executed, and recorded as missed",
      kind: "two-accounts",
      evidence: cron({ missed: [span(200)] }),
    },
    {
      name: "one that was recorded as missed twice",
      kind: "two-accounts",
      evidence: without200({ missed: [span(200), span(200, { reason: "superseded" })] }),
    },
    {
      name: "a span of more times than there are",
      kind: "wrong-span",
      evidence: without200({ missed: [span(200), span(200, { count: 2 })] }),
    },
    {
      name: "a request after its run had been taken over",
      kind: "sent-after-takeover",
      evidence: cron({
        arrivals: [...but(cron().arrivals, 200), arrival(200, { at: START + 260 })],
        executions: [
          ...but(cron().executions, 200),
          execution(200, { ...failed, errorMessage: "interrupted: outcome unknown" }),
        ],
      }),
    },
    {
      name: "a request before its time",
      kind: "early",
      evidence: cron({
        arrivals: [...but(cron().arrivals, 200), arrival(200, { at: START + 170 })],
      }),
    },
    {
      name: "a request that is not recorded",
      kind: "unrecorded-delivery",
      evidence: cron({ executions: but(cron().executions, 200), missed: [span(200)] }),
    },
    {
      name: "a success that no receiver knows of",
      kind: "success-without-delivery",
      evidence: cron({ arrivals: but(cron().arrivals, 200) }),
    },
    {
      name: "a success that the receiver answered otherwise",
      kind: "success-without-delivery",
      evidence: cron({
        arrivals: [...but(cron().arrivals, 200), arrival(200, { answered: 503 })],
      }),
    },
    {
      name: "one attempt more than is allowed",
      kind: "too-many-attempts",
      evidence: cron({
        arrivals: [...cron().arrivals, arrival(200, { attempt: 2 })],
        executions: [...cron().executions, execution(200, { attempt: 2 })],
      }),
    },
    {
      name: "an attempt that was sent twice",
      kind: "repeated-attempt",
      evidence: cron({
        jobs: [job({ maxRetries: 3 })],
        arrivals: [...cron().arrivals, arrival(200)],
      }),
    },
    {
      name: "an attempt that was recorded twice",
      kind: "repeated-attempt",
      evidence: cron({
        jobs: [job({ maxRetries: 3 })],
        executions: [...cron().executions, execution(200)],
      }),
    },
    { name: "a request while another is open", kind: "overlapping", evidence: forbidding(230) },
    {
      name: "a request long after the deletion was answered",
      kind: "sent-after-deletion",
      evidence: deleted(201, {
        arrivals: [arrival(100), arrival(200, { at: START + 900 })],
      }),
    },
    {
      name: "a run by hand that was accepted and never ran",
      kind: "lost-by-hand",
      evidence: cron({
        jobs: [
          job({
            kind: "quiet",
            steps: [step("create", 0), step("run by hand", 120), step("pause", 350)],
          }),
        ],
      }),
    },
    {
      name: "a run by hand that nobody asked for",
      kind: "lost-by-hand",
      evidence: cron({
        jobs: [job({ kind: "quiet" })],
        arrivals: [...cron().arrivals, arrival(120, { runId: "by-hand" })],
        executions: [...cron().executions, execution(120, byHand)],
      }),
    },
    {
      name: "a one-time of which nothing is known",
      kind: "lost",
      evidence: once({ arrivals: [], executions: [], cursors: [cursor({ once: "fired" })] }),
    },
    {
      name: "a one-time that never ends",
      kind: "wrong-end",
      evidence: once({ cursors: [cursor({ once: "fired" })] }),
    },
    {
      name: "a one-time that failed and ends as completed",
      kind: "wrong-end",
      evidence: once({
        arrivals: [arrival(200, { answered: 503 })],
        executions: [execution(200, failed)],
      }),
    },
    {
      name: "a one-time that was sent and ends as missed",
      kind: "wrong-end",
      evidence: once({ cursors: [cursor({ once: "missed" })] }),
    },
    {
      name: "a one-time that was sent, moved away and back, and recorded as missed",
      kind: "two-accounts",
      evidence: once(
        {
          missed: [span(200, { recordedAt: START + 420 })],
          decided: [decided(410, { generation: 3 })],
        },
        [step("move", 400, { generation: 3, schedule: { kind: "once", at: START + 200 } })],
      ),
    },
    {
      name: "a run that is still there",
      kind: "stuck",
      evidence: cron({ unfinished: [{ jobUid: "uid-1", runId: "x", scheduledAt: START + 300 }] }),
    },
    { name: "a loop that ended", kind: "crash", evidence: cron({ crashes: ["process-1: …"] }) },
  ];
  test.each(cases)("$name", ({ evidence, kind }) => {
    expect(check(evidence).violations.map((violation) => violation.kind)).toContain(kind);
  });
});

test("a violation is described with what happened around it", () => {
  const evidence = without200({ decided: [decided(210)], faults: {} });
  const [violation] = check(evidence).violations;
  const text = violation && describeViolation(violation, evidence);
  expect(text).toContain("lost job-1 (Allow, max_retries 0) at 2026-11-26T12:00:00.200Z");
  expect(text).toContain("asked: create to every 100 ms");
  expect(text).toContain("process-1 decided until +20, won");
  expect(text).toContain("sent: -100, attempt 1 of run-100");
});
