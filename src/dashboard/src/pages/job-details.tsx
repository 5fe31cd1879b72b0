import { Box, Card, Stack, Tabs, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { ask } from "../api.ts";
import type { Job, JobCheck, JobView } from "../api-types.ts";
import { Code } from "../components/copy.tsx";
import { Moment } from "../components/moment.tsx";
import { ShowButton } from "../components/show-button.tsx";
import { formatTime, MY_ZONE } from "../time.ts";
import { bodyOf, draftOf } from "./job-draft.ts";
import { FireTimes } from "./fire-times.tsx";
import { curlOf } from "./job-curl.ts";

const OVERLAP = {
  Allow: "runs all the same",
  Forbid: "is skipped",
  Replace: "stops the older one",
};

/** What a job is: its target, policies and coming runs, and the same as YAML and as a command. */
export function JobDetails({ view }: { view: JobView }) {
  const { job } = view;
  const [shown, setShown] = useState(false);
  const seen = shown ? job : masked(job);
  return (
    <Stack>
      <Card withBorder className="panel">
        <Stack gap="sm">
          <Title order={2} size="h5">
            Schedule
          </Title>
          <Fact name="Next run">
            {/* An active job without a next run is one-time: its run is queued, in flight, or waits for a retry. */}
            <Moment
              at={job.next_run_at}
              none={job.status === "active" ? "none: its run is not over yet" : "none"}
            />
            {job.next_run_at !== null && (
              <Text size="xs" c="dimmed">
                {formatTime(job.next_run_at)}
              </Text>
            )}
          </Fact>
          {job.schedule_type === "cron" ? (
            <>
              <Fact name="Cron expression">
                <span className="mono">{job.cron_expression}</span> in {job.timezone}
              </Fact>
              {job.status === "active" && <Coming job={job} />}
            </>
          ) : (
            <Fact name="Once at">{job.run_at === null ? "" : formatTime(job.run_at)}</Fact>
          )}
        </Stack>
      </Card>
      <Card withBorder className="panel">
        <Stack gap="sm">
          <Title order={2} size="h5">
            {job.type === "webhook" ? "Webhook" : "Email"}
          </Title>
          {job.type === "webhook" ? (
            <Webhook
              job={seen}
              fromSecrets={view.secret_headers ?? []}
              shown={shown}
              show={setShown}
            />
          ) : (
            <Email job={job} />
          )}
          <Fact name="Retries">
            {job.max_retries === 0
              ? "none: at most one delivery"
              : `up to ${job.max_retries}, ${job.min_backoff_seconds} to ${job.max_backoff_seconds} s apart`}
          </Fact>
          <Fact name="While an older run is unfinished, a new one">
            {OVERLAP[job.concurrency_policy]}
          </Fact>
          <Fact name="May start late">
            {job.starting_deadline_seconds === null
              ? "without limit"
              : `by ${job.starting_deadline_seconds} s`}
          </Fact>
          <Fact name="May wait for a failing destination">
            up to {job.delivery_deadline_seconds} s
          </Fact>
          <Fact name="Owner">
            {view.managed_by
              ? `${view.managed_by.tool} (${view.managed_by.name})`
              : view.made_by === "rest"
                ? "made with the REST API or here"
                : "made with kubectl"}
          </Fact>
          <Fact name="Created">
            <Moment at={job.created_at} />
          </Fact>
        </Stack>
      </Card>
      <Card withBorder className="panel">
        <Tabs defaultValue="yaml" keepMounted={false}>
          <Tabs.List mb="sm">
            <Tabs.Tab value="yaml">ScheduledJob YAML</Tabs.Tab>
            <Tabs.Tab value="curl">curl</Tabs.Tab>
          </Tabs.List>
          <Tabs.Panel value="yaml">
            <Code
              text={shown ? view.manifest : (view.manifest_masked ?? view.manifest)}
              copied={view.manifest}
              label="ScheduledJob YAML"
              copyLabel="Copy the YAML"
            />
          </Tabs.Panel>
          <Tabs.Panel value="curl">
            <Code
              text={curlOf(seen, location.origin)}
              copied={curlOf(job, location.origin)}
              label="curl"
              copyLabel="Copy the command"
            />
          </Tabs.Panel>
        </Tabs>
      </Card>
    </Stack>
  );
}

function Coming({ job }: { job: Job }) {
  const check = useQuery({
    // Asked again when a run has passed, and when the schedule changes although its next run stays the same.
    queryKey: ["coming", job.id, job.next_run_at, job.cron_expression, job.timezone],
    queryFn: () => ask<JobCheck>("/jobs/check", bodyOf(draftOf(job)).body),
    staleTime: 60_000,
  });
  return (
    <FireTimes
      expression={job.cron_expression}
      zone={job.timezone ?? MY_ZONE}
      times={check.data?.fire_times ?? []}
      none={null}
    />
  );
}

/** The job without the values of its headers, which are often secrets. */
function masked(job: Job): Job {
  const names = Object.keys(job.webhook_headers ?? {});
  return { ...job, webhook_headers: Object.fromEntries(names.map((name) => [name, "••••"])) };
}

function Webhook(props: {
  job: Job;
  /** Names of headers. */
  fromSecrets: readonly string[];
  shown: boolean;
  show: (shown: boolean) => void;
}) {
  const { job, fromSecrets, shown, show } = props;
  const headers = Object.entries(job.webhook_headers ?? {});
  return (
    <>
      <Fact name="POST to">
        <span className="break">{job.webhook_url}</span>
      </Fact>
      <Fact name="Time limit of a call">{job.timeout_seconds} s</Fact>
      {headers.length > 0 && (
        <Fact name="Headers">
          {headers.map(([name, value]) => (
            <div key={name} className="mono break">
              {name}: {value}
            </div>
          ))}
          <Box mt={6}>
            <ShowButton of="the values of the headers" shown={shown} show={show} />
          </Box>
        </Fact>
      )}
      {fromSecrets.length > 0 && (
        <Fact name="Headers from Secrets">
          {fromSecrets.map((name) => (
            <div key={name} className="mono break">
              {name}
            </div>
          ))}
        </Fact>
      )}
      <Fact name="Payload">
        <pre className="code" tabIndex={0} role="region" aria-label="Payload">
          {JSON.stringify(job.webhook_payload, null, 2)}
        </pre>
      </Fact>
    </>
  );
}

function Email({ job }: { job: Job }) {
  return (
    <>
      <Fact name="To">
        <span className="break">{job.email_to}</span>
      </Fact>
      <Fact name="Subject">
        <bdi className="break">{job.email_subject}</bdi>
      </Fact>
      <Fact name={job.email_is_html === true ? "Body (HTML)" : "Body"}>
        <pre className="code wrap" tabIndex={0} role="region" aria-label="Body">
          {job.email_body}
        </pre>
      </Fact>
    </>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <Text size="xs" c="dimmed">
        {name}
      </Text>
      <Text size="sm" component="div" className="break">
        {children}
      </Text>
    </div>
  );
}
