import type { Job } from "../domain/job.ts";
import { JobNotFound, type JobStore } from "../domain/ports/job-store.ts";
import { canBeJobId } from "./job-id.ts";

/** Throws JobNotFound. */
export async function existingJob(
  jobs: Pick<JobStore, "get">,
  account: string,
  id: string,
): Promise<Job> {
  const job = canBeJobId(id) ? await jobs.get(account, id) : undefined;
  if (!job) throw new JobNotFound(id);
  return job;
}
