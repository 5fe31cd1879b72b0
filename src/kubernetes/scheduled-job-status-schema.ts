import { Type } from "typebox";
import { oneOf } from "../domain/schema/fields.ts";

/** `observedGeneration` until the controller has written a status. */
export const NOT_OBSERVED = -1;

const time = (description: string) =>
  Type.Optional(Type.String({ format: "date-time", description }));
const text = (description: string) => Type.Optional(Type.String({ description }));
const count = (description: string) => Type.Optional(Type.Integer({ description }));

const condition = Type.Object({
  type: Type.String({
    description:
      "Ready, Scheduled, LastRunSucceeded, Stalled (present only while True) or DestinationReachable (present only while False).",
    maxLength: 316,
  }),
  status: oneOf(["True", "False", "Unknown"], { description: "Whether the condition holds." }),
  observedGeneration: count("The generation that the condition describes."),
  lastTransitionTime: Type.String({
    format: "date-time",
    description: "When the condition's status last changed.",
  }),
  reason: Type.String({ description: "One word for programs.", maxLength: 1_024 }),
  message: Type.String({ description: "A sentence for people.", maxLength: 32_768 }),
});

/**
 * Written by the leader alone, from PostgreSQL. `type` and `schedule` repeat the spec, each in one field: a printer
 * column is a path, and cannot choose between two fields of the spec.
 */
export const scheduledJobStatus = Type.Object(
  {
    observedGeneration: count("The generation that this status describes."),
    phase: text("Active, Paused, Completed, Failed or Invalid."),
    type: text("webhook or email."),
    schedule: text("The cron expression, or the time of the single run."),
    conditions: Type.Optional(
      Type.Array(condition, {
        description:
          "Ready, Scheduled, LastRunSucceeded, Stalled (present only while True) and DestinationReachable (present only while False).",
        maxItems: 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
      }),
    ),
    lastScheduleTime: time("The latest scheduled time that became a run."),
    lastSuccessTime: time("When the latest successful attempt began."),
    nextScheduleTime: time("The next scheduled time."),
    lastExecution: Type.Optional(
      Type.Object(
        {
          id: text("The execution's identifier in GET /jobs/{id}/executions."),
          status: text("success or failed."),
          httpStatus: count("HTTP status recorded for the attempt."),
          attempt: count("1 for the first attempt of its run."),
          trigger: text("schedule or manual."),
          scheduledTime: time("The scheduled time of its run."),
          executionTime: time("When the attempt began."),
          durationMilliseconds: count("How long the attempt took."),
          errorMessage: text("Why it failed."),
        },
        { description: "The latest attempt." },
      ),
    ),
  },
  {
    description: "Observed state of the job, written by Carillon.",
    // Without it a tool that waits (kstatus) takes a job that the controller has not seen yet for ready.
    default: { observedGeneration: NOT_OBSERVED },
  },
);
