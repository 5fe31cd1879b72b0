import { describe, expect, test } from "vitest";
import { check, type ViolationKind } from "../../faults/checker.ts";
import type {
  Arrival,
  Evidence,
  ExpectedJob,
  RecordedExecution,
  RecordedSpan,
} from "../../faults/evidence.ts";

const AT = Date.UTC(2026, 10, 21, 12);
const MINUTE = 60_000;

function arrival(changes: Partial<Arrival> = {}): Arrival {
  return {
    runId: "run-1",
    jobId: "job-1",
    scheduledAt: AT,
    attempt: 1,
    at: AT + 40,
    answered: 200,
    endedAt: AT + 45,
    ...changes,
  };
}

function execution(changes: Partial<RecordedExecution> = {}): RecordedExecution {
  return {
    jobId: "job-1",
    runId: "run-1",
    scheduledAt: AT,
    attempt: 1,
    status: "success",
    errorMessage: null,
    trigger: "schedule",
    ...changes,
  };
}

function failure(errorMessage: string, changes: Partial<RecordedExecution> = {}) {
  return execution({ status: "failed", errorMessage, ...changes });
}

function span(changes: Partial<RecordedSpan> = {}): RecordedSpan {
  return { jobId: "job-1", first: AT, last: AT, count: 1, reason: "downtime", ...changes };
}

function job(changes: Partial<ExpectedJob> = {}): ExpectedJob {
  const targets = [{ at: AT, rule: "once" as const }];
  return { jobId: "job-1", maxRetries: 0, concurrencyPolicy: "Allow", targets, ...changes };
}

function evidence(changes: Partial<Evidence> & { maxRetries?: number } = {}): Evidence {
  const { maxRetries = 0, ...rest } = changes;
  return {
    jobs: [job({ maxRetries })],
    arrivals: [arrival()],
    executions: [execution()],
    missed: [],
    unfinished: [],
    until: AT + MINUTE,
    clockError: 25,
    recovery: { from: AT, deliveredAt: AT + 30_000 },
    ...rest,
  };
}

/** Evidence of a run by hand at AT besides the scheduled one, sent and recorded so many times. */
function byHand(sent: number, recorded = sent): Partial<Evidence> {
  const ids = Array.from({ length: sent }, (_, index) => `hand-${index}`);
  const of = (runId: string) => ({ runId, scheduledAt: AT + 7 });
  return {
    jobs: [job({ manual: { at: AT, rule: "once" } })],
    arrivals: [arrival(), ...ids.map((id) => arrival(of(id)))],
    executions: [
      execution(),
      ...ids.slice(0, recorded).map((id) => execution({ ...of(id), trigger: "manual" })),
    ],
  };
}

const LATER = AT + 2_000;

/**
 * Evidence of a job that was moved from AT to LATER. The request of AT began at `first.at` and ended at
 * `first.endedAt`, that of LATER began at LATER. Both are recorded, that of AT with `first.errorMessage` if it
 * failed.
 */
function moved(
  concurrencyPolicy: ExpectedJob["concurrencyPolicy"],
  first: Partial<Arrival> & { errorMessage?: string },
): Evidence {
  const { errorMessage, ...request } = first;
  const of = { runId: "run-2", scheduledAt: LATER };
  return evidence({
    jobs: [
      job({
        concurrencyPolicy,
        targets: [
          { at: AT, rule: "optional" },
          { at: LATER, rule: "once" },
        ],
      }),
    ],
    arrivals: [arrival(request), arrival({ ...of, at: LATER, endedAt: LATER + 5 })],
    executions: [errorMessage === undefined ? execution() : failure(errorMessage), execution(of)],
  });
}

describe("what is in order", () => {
  const cases: { name: string; evidence: Evidence; delivered: number; reasons: object }[] = [
    { name: "one delivery, one execution", evidence: evidence(), delivered: 1, reasons: {} },
    {
      name: "missed, with a reason",
      evidence: evidence({ arrivals: [], executions: [], missed: [span()] }),
      delivered: 0,
      reasons: { "missed: downtime": 1 },
    },
    {
      name: "interrupted before a byte left",
      evidence: evidence({
        arrivals: [],
        executions: [failure("interrupted: outcome unknown")],
      }),
      delivered: 0,
      reasons: { "interrupted: outcome unknown": 1 },
    },
    {
      name: "interrupted after the delivery",
      evidence: evidence({ executions: [failure("interrupted: outcome unknown")] }),
      delivered: 1,
      reasons: {},
    },
    {
      name: "three attempts of one run",
      evidence: evidence({
        maxRetries: 3,
        arrivals: [
          arrival({ answered: 500 }),
          arrival({ attempt: 2, answered: null }),
          arrival({ attempt: 3 }),
        ],
        executions: [
          failure("the receiver answered 500"),
          failure("timed out", { attempt: 2 }),
          execution({ attempt: 3 }),
        ],
      }),
      delivered: 1,
      reasons: {},
    },
    {
      name: "earlier by less than the clocks can tell",
      evidence: evidence({ arrivals: [arrival({ at: AT - 25 })] }),
      delivered: 1,
      reasons: {},
    },
    {
      name: "a span over several fire times",
      evidence: evidence({
        jobs: [
          job({ targets: [0, 1, 2].map((n) => ({ at: AT - n * MINUTE, rule: "once" as const })) }),
        ],
        missed: [span({ first: AT - 2 * MINUTE, last: AT - MINUTE, count: 2 })],
      }),
      delivered: 1,
      reasons: { "missed: downtime": 2 },
    },
    {
      name: "nothing at all for a time that an edit crossed",
      evidence: evidence({
        jobs: [job({ targets: [{ at: AT, rule: "optional" }] })],
        arrivals: [],
        executions: [],
      }),
      delivered: 0,
      reasons: {},
    },
    {
      name: "what lies after the end of the observation",
      evidence: evidence({
        arrivals: [arrival(), arrival({ scheduledAt: AT + 2 * MINUTE })],
        unfinished: [
          {
            runId: "run-2",
            jobId: "job-1",
            scheduledAt: AT + 2 * MINUTE,
            trigger: "schedule",
          },
        ],
      }),
      delivered: 1,
      reasons: {},
    },
    {
      name: "a run asked for by hand, besides the scheduled one",
      evidence: evidence(byHand(1)),
      delivered: 2,
      reasons: {},
    },
    {
      name: "two runs of a job side by side, which may be",
      evidence: moved("Allow", { endedAt: LATER + 900 }),
      delivered: 2,
      reasons: {},
    },
    {
      name: "one that takes the other's place",
      evidence: moved("Replace", {
        endedAt: LATER + 900,
        answered: null,
        errorMessage: "replaced: outcome unknown",
      }),
      delivered: 2,
      reasons: {},
    },
    {
      name: "one after the other, as far as the clocks can tell",
      evidence: moved("Forbid", { endedAt: LATER + 25 }),
      delivered: 2,
      reasons: {},
    },
    {
      name: "one beside another that was given up with its worker",
      evidence: moved("Forbid", {
        endedAt: LATER + 900,
        answered: null,
        errorMessage: "interrupted: outcome unknown",
      }),
      delivered: 2,
      reasons: {},
    },
  ];
  test.each(cases)("$name", ({ evidence, delivered, reasons }) => {
    const verdict = check(evidence);
    expect(verdict.violations).toEqual([]);
    expect(verdict.delivered).toBe(delivered);
    expect(verdict.reasons).toEqual(reasons);
  });
});

describe("what is planted is found", () => {
  const never = [job({ targets: [{ at: AT, rule: "never" }] })];
  const cases: { name: string; evidence: Evidence; found: ViolationKind[] }[] = [
    {
      name: "a loss",
      evidence: evidence({ arrivals: [], executions: [] }),
      found: ["lost"],
    },
    {
      name: "a duplicate",
      evidence: evidence({ arrivals: [arrival(), arrival({ attempt: 2 })] }),
      found: ["duplicate", "too-many-attempts", "unrecorded-delivery"],
    },
    {
      name: "a second run for the same time",
      evidence: evidence({
        maxRetries: 3,
        arrivals: [arrival(), arrival({ runId: "run-2" })],
        executions: [execution(), execution({ runId: "run-2" })],
      }),
      found: ["changed-id"],
    },
    {
      name: "an early run",
      evidence: evidence({ arrivals: [arrival({ at: AT - 26 })] }),
      found: ["early"],
    },
    {
      name: "the same attempt twice",
      evidence: evidence({ maxRetries: 3, arrivals: [arrival(), arrival({ at: AT + 90 })] }),
      found: ["repeated-attempt"],
    },
    {
      name: "one attempt too many",
      evidence: evidence({
        maxRetries: 1,
        arrivals: [1, 2, 3].map((attempt) => arrival({ attempt })),
        executions: [1, 2, 3].map((attempt) => execution({ attempt })),
      }),
      found: ["too-many-attempts"],
    },
    {
      name: "an unrecorded delivery",
      evidence: evidence({ executions: [] }),
      found: ["unrecorded-delivery"],
    },
    {
      name: "an unrecorded attempt among recorded ones",
      evidence: evidence({
        maxRetries: 3,
        arrivals: [arrival({ answered: 500 }), arrival({ attempt: 2 })],
        executions: [execution({ attempt: 2 })],
      }),
      found: ["unrecorded-delivery"],
    },
    {
      name: "a success that nobody received",
      evidence: evidence({ arrivals: [] }),
      found: ["success-without-delivery"],
    },
    {
      name: "a success that was a failure",
      evidence: evidence({ arrivals: [arrival({ answered: 500 })] }),
      found: ["success-without-delivery"],
    },
    {
      name: "delivered and called missed",
      evidence: evidence({ missed: [span()] }),
      found: ["two-accounts"],
    },
    {
      name: "given up for an edit that nobody made",
      evidence: evidence({
        arrivals: [],
        executions: [],
        missed: [span({ reason: "superseded" })],
      }),
      found: ["given-up"],
    },
    {
      name: "missed twice",
      evidence: evidence({ arrivals: [], executions: [], missed: [span(), span()] }),
      found: ["two-accounts"],
    },
    {
      name: "a cancelled time that fired",
      evidence: evidence({ jobs: never }),
      found: ["cancelled-but-fired"],
    },
    {
      name: "a time that nobody asked for",
      evidence: evidence({ arrivals: [arrival(), arrival({ scheduledAt: AT - 1 })] }),
      found: ["unasked"],
    },
    {
      name: "a job that nobody made",
      evidence: evidence({ executions: [execution(), execution({ jobId: "job-2" })] }),
      found: ["unasked"],
    },
    {
      name: "a span that counts wrong",
      evidence: evidence({ arrivals: [], executions: [], missed: [span({ count: 2 })] }),
      found: ["wrong-span"],
    },
    {
      name: "a run that does not end",
      evidence: evidence({
        unfinished: [{ runId: "run-1", jobId: "job-1", scheduledAt: AT, trigger: "schedule" }],
      }),
      found: ["stuck"],
    },
    {
      name: "a run asked for by hand that is lost",
      evidence: evidence(byHand(0)),
      found: ["lost"],
    },
    {
      name: "two runs for one that was asked for by hand",
      evidence: evidence(byHand(2)),
      found: ["duplicate", "changed-id", "too-many-attempts"],
    },
    {
      name: "a run by hand that nobody asked for",
      evidence: evidence({
        executions: [
          execution(),
          execution({ runId: "hand-1", scheduledAt: AT + 7, trigger: "manual" }),
        ],
      }),
      found: ["unasked"],
    },
    {
      name: "one beside another, which is forbidden",
      evidence: moved("Forbid", { endedAt: LATER + 26 }),
      found: ["overlapping"],
    },
    {
      name: "one beside another that is still open",
      evidence: moved("Forbid", { endedAt: null, answered: null, errorMessage: "timed out" }),
      found: ["overlapping"],
    },
    {
      name: "one whose place another has taken",
      evidence: moved("Replace", { at: LATER + 5_001, endedAt: LATER + 5_005 }),
      found: ["out-of-turn"],
    },
    {
      name: "deliveries that go on too late after an outage",
      evidence: evidence({ recovery: { from: AT, deliveredAt: AT + 30_001 } }),
      found: ["slow-recovery"],
    },
    {
      name: "deliveries that do not go on after an outage",
      evidence: evidence({ recovery: { from: AT, deliveredAt: null } }),
      found: ["slow-recovery"],
    },
  ];
  test.each(cases)("$name", ({ evidence, found }) => {
    const kinds = check(evidence).violations.map(({ kind }) => kind);
    expect(new Set(kinds)).toEqual(new Set(found));
  });
});
