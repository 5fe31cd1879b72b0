import type { Job, JobView } from "../api-types.ts";

/** What can be done to a job's schedule here: nothing that another tool would undo. */
export function scheduleActionOf(
  view: Pick<JobView, "managed_by" | "suspended"> & { job: Pick<Job, "status"> },
): "pause" | "resume" | undefined {
  const { job, managed_by: owner, suspended } = view;
  if (job.status === "active") return owner ? undefined : "pause";
  // The halt of a 410 is not in the resource, so no tool restores it.
  if (job.status === "paused") return owner && suspended ? undefined : "resume";
  return undefined;
}
