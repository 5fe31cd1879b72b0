import type { Job, JobSpec, Target } from "./job.ts";

/** What lists of jobs show, search and sort by: a job without what is sent, which may be large. */
export interface ListedJob extends Pick<
  Job,
  "uid" | "account" | "id" | "generation" | "createdAt" | "owner"
> {
  spec: Pick<JobSpec, "name" | "schedule" | "suspend" | "refusal">;
  kind: Target["kind"];
  /** The webhook's URL or the email's recipient. */
  address: string;
}

export function listedJob(job: Job): ListedJob {
  const { uid, account, id, generation, createdAt, owner, spec } = job;
  const { name, schedule, suspend, target, refusal } = spec;
  return {
    uid,
    account,
    id,
    generation,
    createdAt,
    owner,
    spec: { name, schedule, suspend, ...(refusal && { refusal }) },
    kind: target.kind,
    address: target.kind === "webhook" ? target.url : target.to,
  };
}
