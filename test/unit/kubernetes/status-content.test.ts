import { expect, test } from "vitest";
import type { Job, JobStatus } from "../../../src/domain/job.ts";
import type { JobHistory } from "../../../src/domain/ports/run-history.ts";
import type { LastExecution } from "../../../src/domain/run.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import { statusContent } from "../../../src/kubernetes/status-content.ts";
import { aCursor, aJob, at } from "../domain/decide-builders.ts";

const LAST: LastExecution = {
  id: "execution-1",
  runId: "run-1",
  status: "success",
  httpStatus: 204,
  durationMs: 12,
  errorMessage: null,
  executedAt: at("11:50:00.750"),
  attempt: 2,
  trigger: "manual",
  scheduledAt: at("11:50"),
};

function contentOf(
  job: Job,
  known: {
    status?: JobStatus;
    history?: JobHistory;
    transitions?: [type: string, transition: { status: string; since: string }][];
  } = {},
) {
  const observed = {
    cursor: aCursor(job),
    timing: timingOf(job.spec),
    status: known.status ?? "active",
  };
  return statusContent({
    job,
    observed,
    history: known.history,
    circuitOpen: false,
    transitions: new Map(known.transitions),
    now: at("12:00:00.999"),
  });
}

test("of a cron webhook that has run: each time and number in its place", () => {
  const job = aJob({ generation: 3 });
  const history = {
    last: LAST,
    lastScheduleTime: at("11:40"),
    lastSuccessTime: at("11:50:00.750"),
  };
  const { conditions, ...status } = contentOf(job, { history });
  expect(status).toEqual({
    observedGeneration: 3,
    phase: "Active",
    type: "webhook",
    schedule: "*/10 * * * *",
    lastScheduleTime: "2026-03-10T11:40:00Z",
    lastSuccessTime: "2026-03-10T11:50:00.750Z",
    nextScheduleTime: "2026-03-10T12:10:00Z",
    lastExecution: {
      id: "execution-1",
      status: "success",
      httpStatus: 204,
      attempt: 2,
      trigger: "manual",
      scheduledTime: "2026-03-10T11:50:00Z",
      executionTime: "2026-03-10T11:50:00.750Z",
      durationMilliseconds: 12,
    },
  });
  expect(conditions?.map(({ observedGeneration }) => observedGeneration)).toEqual([3, 3, 3]);
  expect(conditions?.map(({ type, status: is, message }) => `${type} ${is}: ${message}`)).toEqual([
    "Ready True: The job is valid.",
    "Scheduled True: Next run at 2026-03-10T12:10:00.000Z.",
    "LastRunSucceeded True: Status 204 at 2026-03-10T11:50:00.750Z.",
  ]);
});

test("of a one-time mail that has not run there is nothing to say of runs", () => {
  const target = { kind: "email", to: "a@b.example", subject: "s", body: "b" } as const;
  const job = aJob({
    spec: { target: { ...target, isHtml: false }, schedule: { kind: "once", at: at("13:00") } },
  });
  expect(contentOf(job)).toMatchObject({
    type: "email",
    schedule: "2026-03-10T13:00:00Z",
    nextScheduleTime: "2026-03-10T13:00:00Z",
    lastScheduleTime: null,
    lastSuccessTime: null,
    lastExecution: null,
  });
});

test.each([
  { errorMessage: "no way", text: "no way" },
  { errorMessage: null, text: "no error text" },
])("of a failure the text is told, $text, and when it last succeeded stays", (failure) => {
  const { errorMessage, text } = failure;
  const last: LastExecution = { ...LAST, status: "failed", errorMessage };
  const history = { last, lastScheduleTime: at("11:50"), lastSuccessTime: at("09:00") };
  const { conditions, lastSuccessTime, lastExecution } = contentOf(aJob(), { history });
  expect(lastSuccessTime).toBe("2026-03-10T09:00:00Z");
  expect(lastExecution).toMatchObject({ status: "failed" });
  expect(lastExecution?.["errorMessage"]).toBe(errorMessage ?? undefined);
  expect(conditions?.at(-1)).toMatchObject({
    status: "False",
    reason: "Failed",
    message: `Failed at 2026-03-10T11:50:00.750Z: ${text}`,
  });
});

/** Whether it can run, and whether only a change of it helps. */
const shown = (job: Job) =>
  contentOf(job).conditions?.flatMap(({ type, status, reason }) =>
    type === "Ready" || type === "Stalled" ? [`${type} ${status} ${reason}`] : [],
  );

test.each([
  { field: "spec", reason: "Unreadable", stalled: false },
  { field: "run_at", reason: "InvalidSchedule", stalled: true },
  { field: "webhook_payload", reason: "TooLarge", stalled: true },
  { field: "email_body", reason: "TooLarge", stalled: true },
  { field: "webhook_url", reason: "InvalidTarget", stalled: true },
])("a job refused for its $field is $reason; stalled: $stalled", ({ field, reason, stalled }) => {
  const refused = { spec: { refusal: { field, message: "is not right" } } };
  const ends = stalled ? [`Stalled True ${reason}`] : [];
  expect(shown(aJob(refused))).toEqual([`Ready False ${reason}`, ...ends]);
  // An account may still be bound.
  expect(shown(aJob({ ...refused, account: null }))).toEqual(["Ready False NoAccount"]);
});

test.each<{ status: JobStatus; phase: string }>([
  { status: "active", phase: "Active" },
  { status: "paused", phase: "Paused" },
  { status: "completed", phase: "Completed" },
  { status: "failed", phase: "Failed" },
  { status: "invalid", phase: "Invalid" },
])("the phase of a job that is $status", ({ status, phase }) => {
  expect(contentOf(aJob(), { status }).phase).toBe(phase);
});

test("a condition has the time of its last change, in whole seconds", () => {
  const since = "2026-03-10T08:00:00Z";
  const { conditions } = contentOf(aJob({ spec: { suspend: true } }), {
    transitions: [
      ["Ready", { status: "True", since }],
      ["Scheduled", { status: "True", since }],
    ],
  });
  const times = conditions?.map((each) => [each.type, each.status, each.lastTransitionTime]);
  expect(times).toEqual([
    ["Ready", "True", since],
    ["Scheduled", "False", "2026-03-10T12:00:00Z"],
    ["LastRunSucceeded", "Unknown", "2026-03-10T12:00:00Z"],
  ]);
});
