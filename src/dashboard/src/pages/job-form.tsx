import {
  Accordion,
  Card,
  Checkbox,
  Grid,
  NumberInput,
  SegmentedControl,
  Select,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { keepPreviousData, useMutation } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ApiError, ask } from "../api.ts";
import type { JobCheck } from "../api-types.ts";
import { refusal } from "../changed-meanwhile.ts";
import { GrowingTextarea } from "../components/growing-textarea.tsx";
import { Problem } from "../components/problem.tsx";
import { Submit } from "../components/submit.tsx";
import { TimeZoneSelect } from "../components/time-zone-select.tsx";
import { TypedBefore } from "../components/typed-before.tsx";
import { useLoaded } from "../loaded.ts";
import { useSession } from "../session.ts";
import { useNavigateFromHere, useStillHere } from "../still-here.ts";
import { MY_ZONE } from "../time.ts";
import { useUnsaved } from "../unsaved.ts";
import {
  bodyOf,
  changedByOthers,
  changesOf,
  changesToCheck,
  SCHEDULE_FIELDS,
  type JobDraft,
} from "./job-draft.ts";
import { FireTimes } from "./fire-times.tsx";
import { JobHeaders } from "./job-headers.tsx";

/** What the fields are called in this form. */
const LABELS = {
  name: "Name",
  type: "What it does",
  schedule_type: "When",
  webhook_url: "URL",
  webhook_payload: "Payload",
  webhook_headers: "Headers",
  email_to: "To",
  email_subject: "Subject",
  email_body: "Body",
  max_retries: "Retries",
  concurrency_policy: "While an older run is unfinished",
  min_backoff_seconds: "Seconds before a retry at least",
  max_backoff_seconds: "Seconds between retries at most",
  timeout_seconds: "Seconds that a call may take",
  starting_deadline_seconds: "Seconds that a run may start late",
  delivery_deadline_seconds: "Seconds to wait for a receiver that is down",
  cron_expression: "Cron expression",
  timezone: "Time zone",
  run_at: "Time",
};

/** What may be kept of a draft: its headers contain secrets. */
const withoutHeaders = (draft: JobDraft): JobDraft => ({ ...draft, webhook_headers: [] });

const isEmpty = (draft: JobDraft, field: string) => draft[field as keyof JobDraft] === "";

/** Creates or changes a job. While one types, the server says what is wrong and when the job fires. */
export function JobForm(props: {
  start: JobDraft;
  /** Id of the job to change; only the changes are saved then. Absent: a job is created. */
  id?: string;
  /** Reads that job as it is saved at present. */
  now?: () => Promise<JobDraft>;
  action: string;
  /** Resolves with the job's id. */
  save: (body: Record<string, unknown>) => Promise<string>;
}) {
  const { found, hold, drop, leave } = useUnsaved<{ start: JobDraft; draft: JobDraft }>(
    useSession().user.id,
  );
  // The job may be loaded again while the form is open: `start` is what the user saw, and changes are relative to it.
  const { webhook_headers } = props.start;
  const [start, setStart] = useState(found ? { ...found.start, webhook_headers } : props.start);
  const [draft, setDraft] = useState(found ? { ...found.draft, webhook_headers } : start);
  const changesSince = (since: JobDraft) => ({
    start: withoutHeaders(since),
    draft: withoutHeaders(draft),
  });
  useEffect(() => {
    if (draft !== start) hold(changesSince(start));
  }, [draft, start]);
  const [touched, setTouched] = useState<ReadonlySet<string>>(new Set());
  /** Problems of all fields are shown, not only of touched ones. */
  const [showAll, setShowAll] = useState(false);
  const creating = props.id === undefined;
  const bodyToSave = (of: JobDraft) => (creating ? bodyOf(of) : changesOf(of, start));
  const toSave = bodyToSave(draft);
  /** Throws once for a change by somebody else: `start` contains it from then on, since the user has seen it. */
  const refuseChangedMeanwhile = async (saving: JobDraft) => {
    if (!props.now) return;
    const now = await props.now();
    const fields = changedByOthers(saving, start, now);
    if (fields.length === 0) return;
    setStart({
      ...start,
      ...Object.fromEntries(fields.map((field) => [field, now[field as keyof JobDraft]])),
      saved_run_at: fields.includes("run_at") ? now.saved_run_at : start.saved_run_at,
    });
    throw refusal(fields, bodyOf(now).body);
  };
  const stillHere = useStillHere();
  const navigate = useNavigateFromHere();
  const save = useMutation({
    mutationFn: async (saved: JobDraft) => {
      const result = bodyToSave(saved);
      if (!result.ok)
        throw new ApiError(400, {
          error: "",
          details: [
            { field: result.field, message: result.message },
            // With what else the server has found.
            ...(check.data?.asked === saved ? check.data.findings : []),
          ],
        });
      if (Object.keys(result.body).length > 0) await refuseChangedMeanwhile(saved);
      return props.save(result.body);
    },
    onSuccess: async (id, saved) => {
      if (saved === draft) {
        drop();
        // Back does not lead to a form that would make the job a second time.
        await navigate(`/jobs/${id}`, { replace: creating });
        return;
      }
      // What was typed meanwhile is a change of what has been saved. That of a new job goes on in the form of that job:
      // here it would make a second one.
      const edit = `/jobs/${id}/edit`;
      leave(edit, changesSince(saved));
      if (creating) await navigate(edit);
      else setStart(saved);
    },
    onError: (error, { name }) => {
      // A user who has gone to another page is told there.
      if (!stillHere())
        notifications.show({
          color: "red.9",
          autoClose: false,
          message: `“${name}” was not saved: ${error.message}`,
        });
    },
  });
  const set = <K extends keyof JobDraft>(field: K, value: JobDraft[K]) => {
    // The reason why the last attempt was refused may no longer hold; the check goes on.
    if (save.isError) save.reset();
    setDraft((before) => ({ ...before, [field]: value }));
    setTouched((before) => new Set(before).add(field));
  };
  const startAfresh = () => {
    drop();
    setStart(props.start);
    setDraft(props.start);
    setTouched(new Set());
    setShowAll(false);
    save.reset();
  };
  const [settled] = useDebouncedValue(draft, 250);
  const toCheck = creating ? bodyOf(settled).body : changesToCheck(settled, start);
  const check = useLoaded({
    queryKey: ["job-check", props.id ?? null, toCheck],
    // The answer contains the draft that was checked: until the next answer comes, this one is shown, and must not be
    // taken for an answer about a newer draft.
    queryFn: async () => ({
      asked: settled,
      ...(await ask<JobCheck>(
        `/jobs/check${props.id === undefined ? "" : `?id=${encodeURIComponent(props.id)}`}`,
        toCheck,
      )),
    }),
    placeholderData: keepPreviousData,
    staleTime: 10_000,
    gcTime: 30_000,
  });
  const asked = check.data?.asked ?? draft;
  const cron = asked.schedule_type === "cron";
  const checked = draft === settled && check.data !== undefined && !check.isPlaceholderData;
  const findings = [
    ...(toSave.ok ? [] : [{ field: toSave.field, message: toSave.message }]),
    // Not when the draft has been edited since that attempt.
    ...(save.error instanceof ApiError && save.variables === draft ? save.error.details : []),
    // A finding about an empty field is no longer true once it has its first letter.
    ...(check.data?.findings ?? []).filter(
      ({ field }) => !(isEmpty(asked, field) && !isEmpty(draft, field)),
    ),
  ];
  const wrongSchedule = findings.some(({ field }) => SCHEDULE_FIELDS.includes(field));
  const problem = (field: string) => {
    if (!showAll && !touched.has(field)) return undefined;
    const inside = `${field}.`;
    const found = findings.find((each) => each.field === field || each.field.startsWith(inside));
    // For headers, begins with the name of the one that it is about.
    return found && [found.field.slice(inside.length), found.message].join(" ").trimStart();
  };
  const text = (
    field: "name" | "webhook_url" | "email_to" | "email_subject" | "cron_expression",
  ) => ({
    value: draft[field],
    error: problem(field),
    onChange: (event: React.ChangeEvent<HTMLInputElement>) => {
      set(field, event.currentTarget.value);
    },
  });
  const seconds = (
    field:
      | "timeout_seconds"
      | "max_retries"
      | "min_backoff_seconds"
      | "max_backoff_seconds"
      | "starting_deadline_seconds"
      | "delivery_deadline_seconds",
  ) => ({
    value: draft[field],
    error: problem(field),
    min: 0,
    onChange: (value: number | string) => {
      set(field, value);
    },
  });

  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        setShowAll(true);
        save.mutate(draft);
      }}
    >
      {found && <TypedBefore but="changes to headers: they are" startAfresh={startAfresh} />}
      <Grid>
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Stack>
            <Card withBorder className="panel">
              <Stack>
                <TextInput
                  label={LABELS.name}
                  placeholder="Nightly report"
                  required
                  {...text("name")}
                />
                <div>
                  <Text size="sm" fw={600} mb={4} id="job-type">
                    What it does
                  </Text>
                  <SegmentedControl
                    fullWidth
                    aria-labelledby="job-type"
                    data={[
                      { value: "webhook", label: "Call a webhook" },
                      { value: "email", label: "Send an email" },
                    ]}
                    value={draft.type}
                    onChange={(value) => {
                      set("type", value);
                    }}
                  />
                </div>
                {draft.type === "webhook" ? (
                  <>
                    <TextInput
                      label={LABELS.webhook_url}
                      description="Called with POST. Answers 2xx are a success; redirects are not followed."
                      placeholder="https://example.com/hooks/report"
                      required
                      {...text("webhook_url")}
                    />
                    <GrowingTextarea
                      label={LABELS.webhook_payload}
                      description="A JSON object, sent as the body."
                      minRows={3}
                      mono
                      spellCheck={false}
                      value={draft.webhook_payload}
                      error={problem("webhook_payload")}
                      onChange={(event) => {
                        set("webhook_payload", event.currentTarget.value);
                      }}
                    />
                    <JobHeaders
                      headers={draft.webhook_headers}
                      saved={start.webhook_headers}
                      error={problem("webhook_headers")}
                      change={(headers) => {
                        set("webhook_headers", headers);
                      }}
                    />
                  </>
                ) : (
                  <>
                    <TextInput
                      label={LABELS.email_to}
                      placeholder="ada@example.com"
                      required
                      {...text("email_to")}
                    />
                    <TextInput label={LABELS.email_subject} required {...text("email_subject")} />
                    <GrowingTextarea
                      label={LABELS.email_body}
                      required
                      minRows={4}
                      value={draft.email_body}
                      error={problem("email_body")}
                      onChange={(event) => {
                        set("email_body", event.currentTarget.value);
                      }}
                    />
                    <Checkbox
                      label="The body is HTML"
                      checked={draft.email_is_html}
                      onChange={(event) => {
                        set("email_is_html", event.currentTarget.checked);
                      }}
                    />
                  </>
                )}
              </Stack>
            </Card>
            <Accordion variant="contained" className="panel">
              <Accordion.Item value="policies">
                <Accordion.Control>Retries, overlaps and deadlines</Accordion.Control>
                <Accordion.Panel>
                  <Stack>
                    <SimpleGrid cols={{ base: 1, sm: 2 }}>
                      <NumberInput
                        label={LABELS.max_retries}
                        description="0: at most one delivery. More: at least one, so the receiver may see a run twice."
                        max={10}
                        {...seconds("max_retries")}
                      />
                      <Select
                        label={LABELS.concurrency_policy}
                        description="Also when it waits for a retry."
                        allowDeselect={false}
                        data={[
                          { value: "Allow", label: "Run all the same" },
                          { value: "Forbid", label: "Skip the new run" },
                          { value: "Replace", label: "Stop the older run" },
                        ]}
                        value={draft.concurrency_policy}
                        onChange={(value) => {
                          set("concurrency_policy", (value ?? "Allow") as "Allow");
                        }}
                      />
                      <NumberInput
                        label={LABELS.min_backoff_seconds}
                        {...seconds("min_backoff_seconds")}
                      />
                      <NumberInput
                        label={LABELS.max_backoff_seconds}
                        {...seconds("max_backoff_seconds")}
                      />
                      {draft.type === "webhook" && (
                        <NumberInput
                          label={LABELS.timeout_seconds}
                          {...seconds("timeout_seconds")}
                        />
                      )}
                      <NumberInput
                        label={LABELS.starting_deadline_seconds}
                        description="Empty: no limit."
                        {...seconds("starting_deadline_seconds")}
                      />
                      <NumberInput
                        label={LABELS.delivery_deadline_seconds}
                        {...seconds("delivery_deadline_seconds")}
                      />
                    </SimpleGrid>
                  </Stack>
                </Accordion.Panel>
              </Accordion.Item>
            </Accordion>
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 5 }}>
          <Card withBorder className="panel">
            <Stack>
              <Title order={2} size="h5" id="job-when">
                When
              </Title>
              <SegmentedControl
                fullWidth
                aria-labelledby="job-when"
                data={[
                  { value: "cron", label: "On a schedule" },
                  { value: "one_time", label: "Once" },
                ]}
                value={draft.schedule_type}
                onChange={(value) => {
                  set("schedule_type", value);
                }}
              />
              {draft.schedule_type === "cron" ? (
                <>
                  <TextInput
                    label={LABELS.cron_expression}
                    description="minute hour day-of-month month day-of-week"
                    required
                    spellCheck={false}
                    classNames={{ input: "mono" }}
                    {...text("cron_expression")}
                  />
                  <TimeZoneSelect
                    value={draft.timezone}
                    error={problem("timezone")}
                    change={(zone) => {
                      set("timezone", zone);
                    }}
                  />
                </>
              ) : (
                <TextInput
                  label={LABELS.run_at}
                  description={`In your time zone, ${MY_ZONE}.`}
                  type="datetime-local"
                  step={1}
                  required
                  value={draft.run_at}
                  error={problem("run_at")}
                  onChange={(event) => {
                    set("run_at", event.currentTarget.value);
                  }}
                />
              )}
              <FireTimes
                expression={cron ? asked.cron_expression : null}
                zone={cron ? asked.timezone : MY_ZONE}
                times={check.data?.fire_times ?? []}
                none={
                  !checked
                    ? null
                    : cron || wrongSchedule
                      ? "Fire times appear here as soon as the schedule is valid."
                      : "This time has passed: choose another one to run the job again."
                }
              />
              {check.error && <Problem error={check.error} retry={() => check.refetch()} />}
            </Stack>
          </Card>
        </Grid.Col>
      </Grid>
      <Stack mt="md">
        <Submit by={save} labels={LABELS}>
          {props.action}
        </Submit>
      </Stack>
    </form>
  );
}
