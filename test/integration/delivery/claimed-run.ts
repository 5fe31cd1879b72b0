import type { WebhookTarget } from "../../../src/domain/job.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { spec } from "../postgres/runs-fixture.ts";

export function claimedRun(
  target: Partial<WebhookTarget>,
  change: Partial<ClaimedRun> = {},
): ClaimedRun {
  return {
    id: crypto.randomUUID(),
    claimToken: crypto.randomUUID(),
    account: "account",
    jobUid: "uid",
    jobId: "job-1",
    generation: 1,
    trigger: "schedule",
    scheduledAt: 0,
    notBefore: 0,
    createdAt: 0,
    attempt: 1,
    retryAt: null,
    started: false,
    destination: "account http://127.0.0.1",
    spec: spec({
      target: {
        kind: "webhook",
        url: "http://127.0.0.1/",
        payload: "{}",
        headers: {},
        headersFrom: [],
        timeoutSeconds: 5,
        ...target,
      },
    }),
    ...change,
  };
}
