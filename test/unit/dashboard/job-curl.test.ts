import { expect, test } from "vitest";
import type { Job as AnsweredJob } from "../../../src/dashboard/src/api-types.ts";
import { curlOf } from "../../../src/dashboard/src/pages/job-curl.ts";
import type { Job, JobSpec } from "../../../src/domain/job.ts";
import { specFromRest } from "../../../src/domain/rest-job.ts";
import { jobCreate } from "../../../src/domain/schema/rest-job.ts";
import { jobDetail } from "../../../src/gateway/job-view.ts";
import { validator } from "../../../src/gateway/validate.ts";

const NOW = Date.UTC(2026, 10, 22, 12);

const WEBHOOK: JobSpec = {
  name: "Nightly report: it's new",
  schedule: { kind: "cron", expression: "0 3 * * *", timeZone: "Europe/Paris" },
  target: {
    kind: "webhook",
    url: "https://example.com/hooks",
    payload: '{"b":1.5,"a":"it\'s"}',
    headers: { "X-Team": "blue" },
    headersFrom: [],
    timeoutSeconds: 20,
  },
  suspend: false,
  startingDeadlineSeconds: 60,
  deliveryDeadlineSeconds: 600,
  concurrencyPolicy: "Forbid",
  retry: { maxRetries: 3, minBackoffSeconds: 10, maxBackoffSeconds: 100 },
};
const EMAIL: JobSpec = {
  ...WEBHOOK,
  schedule: { kind: "once", at: NOW + 3_600_123 },
  target: {
    kind: "email",
    to: "ada@example.com",
    subject: "Hi",
    body: "<p>It's nine",
    isHtml: true,
  },
  startingDeadlineSeconds: null,
};

test.each([
  { what: "a cron webhook", spec: WEBHOOK },
  { what: "an email, once", spec: EMAIL },
])(
  "what the command for $what sends is taken by POST /jobs, and makes the same job",
  ({ spec }) => {
    const sent = bodyOf(curlOf(answered(spec), "http://localhost:8080"));

    const fields = validator(jobCreate)(sent);
    const payloadText = sent["webhook_payload"] && JSON.stringify(sent["webhook_payload"]);
    const made = specFromRest({ fields, payloadText: payloadText as string | undefined, now: NOW });

    expect(made).toEqual({ ok: true, spec });
  },
);

/** A job as the gateway answers it and the dashboard reads it. */
function answered(spec: JobSpec): AnsweredJob {
  const job: Job = {
    uid: "0199c1d2-7f3a-7c55-9f0e-2b6d0c5a1e11",
    account: "0199c1d2-7f3a-7c55-9f0e-2b6d0c5a1e12",
    id: "job-1",
    generation: 1,
    version: "1",
    createdAt: NOW,
    spec,
    owner: null,
    runNow: null,
  };
  const view = { job, cursor: undefined, history: undefined, circuit: "closed", now: NOW } as const;
  return JSON.parse(jobDetail(view).text) as AnsweredJob;
}

/** What a shell makes of the argument of -d in single quotes. */
function bodyOf(command: string): Record<string, unknown> {
  const quoted = command.slice(command.indexOf("-d '") + 4, command.lastIndexOf("'"));
  const parts = quoted.split("'\\''");
  // A quote of its own would end the argument there, and the shell would run what follows.
  expect(parts.filter((part) => part.includes("'"))).toEqual([]);
  return JSON.parse(parts.join("'")) as Record<string, unknown>;
}
