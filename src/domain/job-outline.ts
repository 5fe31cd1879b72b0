import type { EmailTarget, Job, JobSpec, WebhookTarget } from "./job.ts";
import { createSharedValues } from "./shared-values.ts";

/**
 * What scheduling needs of a job: all but what its runs send, which may be large, and what only they need. A whole job
 * is one, too.
 */
export interface JobOutline extends Pick<
  Job,
  "uid" | "account" | "id" | "generation" | "createdAt" | "runNow"
> {
  spec: Pick<
    JobSpec,
    "schedule" | "suspend" | "startingDeadlineSeconds" | "concurrencyPolicy" | "refusal"
  > & { target: Addressee };
}

/** Whom a job calls. Jobs may share one. */
export type Addressee =
  Readonly<Pick<WebhookTarget, "kind" | "url">> | Readonly<Pick<EmailTarget, "kind">>;

/** A copy that keeps nothing else of the job in memory. */
export function outlineOf(job: JobOutline): JobOutline {
  const { uid, account, id, generation, createdAt, runNow, spec } = job;
  const { schedule, suspend, startingDeadlineSeconds, concurrencyPolicy, refusal } = spec;
  return {
    uid,
    account,
    id,
    generation,
    createdAt,
    runNow,
    spec: {
      schedule,
      suspend,
      startingDeadlineSeconds,
      concurrencyPolicy,
      target: addresseeOf(spec.target),
      ...(refusal && { refusal }),
    },
  };
}

function addresseeOf(target: Addressee): Addressee {
  if (target.kind === "email") return EMAIL;
  const { kind, url } = target;
  return sharedAddressees(url, () => Object.freeze({ kind, url }));
}

const EMAIL: Addressee = Object.freeze({ kind: "email" });

/** Most installations have a few thousand URLs. */
const sharedAddressees = createSharedValues<Addressee>(16_384);
