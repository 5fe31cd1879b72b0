import type { Job, JobType, ScheduleType } from "../api-types.ts";
import { changedMeanwhile } from "../changed-meanwhile.ts";
import { parsePayload } from "./payload-text.ts";

/** A job as the form holds it: what is typed as text is a text here. */
export interface JobDraft {
  name: string;
  type: JobType;
  schedule_type: ScheduleType;
  cron_expression: string;
  timezone: string;
  /** Local date and time in the browser's zone, as the input writes it. */
  run_at: string;
  /**
   * The time as the job has it. The input cannot hold it: it has no milliseconds, and cannot tell the two hours apart
   * when the clocks go back.
   */
  saved_run_at: string | null;
  webhook_url: string;
  webhook_payload: string;
  webhook_headers: { name: string; value: string }[];
  timeout_seconds: number | string;
  email_to: string;
  email_subject: string;
  email_body: string;
  email_is_html: boolean;
  max_retries: number | string;
  min_backoff_seconds: number | string;
  max_backoff_seconds: number | string;
  starting_deadline_seconds: number | string;
  delivery_deadline_seconds: number | string;
  concurrency_policy: "Allow" | "Forbid" | "Replace";
}

export function emptyDraft(timezone: string): JobDraft {
  return {
    name: "",
    type: "webhook",
    schedule_type: "cron",
    cron_expression: "0 3 * * *",
    timezone,
    run_at: "",
    saved_run_at: null,
    webhook_url: "",
    webhook_payload: "{}",
    webhook_headers: [],
    timeout_seconds: 30,
    email_to: "",
    email_subject: "",
    email_body: "",
    email_is_html: false,
    max_retries: 0,
    min_backoff_seconds: 5,
    max_backoff_seconds: 3_600,
    starting_deadline_seconds: "",
    delivery_deadline_seconds: 3_600,
    concurrency_policy: "Allow",
  };
}

/** `zone`: that of the schedule that a one-time job may be given. */
export function draftOf(job: Job, zone = "UTC"): JobDraft {
  const empty = emptyDraft(job.timezone ?? zone);
  return {
    ...empty,
    name: job.name,
    type: job.type,
    schedule_type: job.schedule_type,
    cron_expression: job.cron_expression ?? empty.cron_expression,
    run_at: job.run_at === null ? "" : localInput(job.run_at),
    saved_run_at: job.run_at,
    webhook_url: job.webhook_url ?? "",
    webhook_payload:
      job.webhook_payload === null ? "{}" : JSON.stringify(job.webhook_payload, null, 2),
    webhook_headers: Object.entries(job.webhook_headers ?? {}).map(([name, value]) => ({
      name,
      value,
    })),
    timeout_seconds: job.timeout_seconds ?? 30,
    email_to: job.email_to ?? "",
    email_subject: job.email_subject ?? "",
    email_body: job.email_body ?? "",
    email_is_html: job.email_is_html ?? false,
    max_retries: job.max_retries,
    min_backoff_seconds: job.min_backoff_seconds,
    max_backoff_seconds: job.max_backoff_seconds,
    starting_deadline_seconds: job.starting_deadline_seconds ?? "",
    delivery_deadline_seconds: job.delivery_deadline_seconds,
    concurrency_policy: job.concurrency_policy,
  };
}

/** The most characters of a name. */
const MOST_NAME = 255;
const COPY = " (copy)";

/** The draft of a copy of a job. A long name is cut between characters, counted as the server counts them. */
export function copyOf(job: Job, zone?: string): JobDraft {
  const name = Array.from(job.name)
    .slice(0, MOST_NAME - COPY.length)
    .join("");
  return { ...draftOf(job, zone), name: name + COPY };
}

/** `2026-11-21T12:00:00` in the browser's zone, for `<input type=datetime-local>`. */
function localInput(iso: string): string {
  const date = new Date(iso);
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
}

interface FieldProblem {
  field: string;
  message: string;
}

export type BodyResult =
  | { ok: true; body: Record<string, unknown> }
  /** A field cannot be sent as it was typed, not even to be checked: no time, no JSON, a header without a name. */
  | ({ ok: false; body: Record<string, unknown> } & FieldProblem);

/** The body of POST /jobs for the whole draft. */
export function bodyOf(draft: JobDraft): BodyResult {
  return resultOf(read(draft));
}

function resultOf({ body, problems }: Reading): BodyResult {
  const [problem] = problems;
  return problem ? { ok: false, body, ...problem } : { ok: true, body };
}

interface Reading {
  body: Record<string, unknown>;
  problems: readonly FieldProblem[];
}

function read(draft: JobDraft): Reading {
  const body: Record<string, unknown> = {
    name: draft.name,
    type: draft.type,
    schedule_type: draft.schedule_type,
  };
  const problems: (FieldProblem | null)[] = [];
  if (draft.schedule_type === "cron") {
    body["cron_expression"] = draft.cron_expression;
    body["timezone"] = draft.timezone;
  } else {
    body["run_at"] = runAtOf(draft);
    problems.push(timeProblem(draft.run_at));
  }
  if (draft.type === "email")
    Object.assign(body, {
      email_to: draft.email_to.trim(),
      email_subject: draft.email_subject,
      email_body: draft.email_body,
      email_is_html: draft.email_is_html,
    });
  else problems.push(...addWebhook(body, draft));
  for (const name of POLICY_NUMBERS) body[name] = numberOrNull(draft[name]);
  body["concurrency_policy"] = draft.concurrency_policy;
  return { body, problems: problems.filter((each) => each !== null) };
}

const POLICY_NUMBERS = [
  "max_retries",
  "min_backoff_seconds",
  "max_backoff_seconds",
  "starting_deadline_seconds",
  "delivery_deadline_seconds",
] as const;

/** Adds to `body` what can be sent of the webhook; returns why the rest cannot. */
function addWebhook(body: Record<string, unknown>, draft: JobDraft): (FieldProblem | null)[] {
  const headers = draft.webhook_headers
    .map(({ name, value }) => ({ name: name.trim(), value }))
    .filter(({ name, value }) => name !== "" || value !== "");
  Object.assign(body, {
    webhook_url: draft.webhook_url.trim(),
    timeout_seconds: numberOrNull(draft.timeout_seconds),
    webhook_headers: Object.fromEntries(headers.map(({ name, value }) => [name, value])),
  });
  const payload = parsePayload(draft.webhook_payload);
  if (payload.ok) body["webhook_payload"] = payload.value;
  return [
    payload.ok ? null : { field: "webhook_payload", message: payload.message },
    headerProblem(headers.map(({ name }) => name)),
  ];
}

/**
 * The body of PATCH /jobs/{id}: the fields in which the draft differs from what it began as. All others stay, byte for
 * byte, also if somebody else has saved them meanwhile. A new `type` or `schedule_type` brings all fields of its kind.
 */
export function changesOf(draft: JobDraft, start: JobDraft): BodyResult {
  const after = read(draft);
  const before = read(start).body;
  const body = Object.fromEntries(
    Object.entries(after.body).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
    ),
  );
  // A payload that kubectl set may not be valid here; as long as it is not edited, it stays and is no problem.
  const kept = draft.webhook_payload === start.webhook_payload;
  const problems = after.problems.filter(({ field }) => !kept || field !== "webhook_payload");
  return resultOf({ body, problems });
}

export const SCHEDULE_FIELDS = ["schedule_type", "cron_expression", "timezone", "run_at"];

/** The body of POST /jobs/check?id=: the changes, and the schedule whose fire times the form shows. */
export function changesToCheck(draft: JobDraft, start: JobDraft): Record<string, unknown> {
  const whole = bodyOf(draft).body;
  const schedule = Object.entries(whole).filter(([name]) => SCHEDULE_FIELDS.includes(name));
  return { ...Object.fromEntries(schedule), ...changesOf(draft, start).body };
}

/**
 * The fields that the draft changes, and that somebody else has changed since `start`; `now` is what is saved at present.
 * If it is of another kind by now, which has no such fields, `type` or `schedule_type` stands for them: once the kind
 * is among what the user has seen, the draft's own is a change, too.
 */
export function changedByOthers(draft: JobDraft, start: JobDraft, now: JobDraft): string[] {
  const mine = changesOf(draft, start).body;
  const [seen, saved] = [savedFields(start), savedFields(now)];
  const kinds = (["type", "schedule_type"] as const).filter(
    (kind) => now[kind] !== start[kind] && now[kind] !== draft[kind],
  );
  const missing = (kind: (typeof kinds)[number]) =>
    Object.keys(mine).filter(
      (field) =>
        !(field in saved) && SCHEDULE_FIELDS.includes(field) === (kind === "schedule_type"),
    );
  const covered = kinds.flatMap(missing);
  return [
    ...kinds.filter((kind) => missing(kind).length > 0),
    ...changedMeanwhile(mine, seen, saved).filter((each) => !covered.includes(each)),
  ];
}

/** What is saved of a draft that nobody has edited: a payload that cannot be sent as it is stands there as its text. */
function savedFields(draft: JobDraft): Record<string, unknown> {
  const { webhook_payload } = draft;
  return { ...(draft.type === "webhook" ? { webhook_payload } : {}), ...bodyOf(draft).body };
}

/** Null if the input holds no time, or none that can be sent. */
function runAtOf({ run_at: input, saved_run_at: saved }: JobDraft): string | null {
  if (timeProblem(input) !== null) return null;
  const entered = new Date(input).getTime();
  return saved !== null && entered === new Date(localInput(saved)).getTime()
    ? saved
    : new Date(entered).toISOString();
}

/** The input gives an empty text while a part of the time is missing, and accepts years of up to six digits. */
function timeProblem(input: string): FieldProblem | null {
  const year = /^\d+/.exec(input)?.[0];
  if (year === undefined) return { field: "run_at", message: "enter a date and a time" };
  return year.length === 4
    ? null
    : { field: "run_at", message: "must be in a year of four digits" };
}

/**
 * A header that the object of headers could not hold, and would lose without notice: one without a name, or one that is
 * given twice. The latter is told in the server's words.
 */
function headerProblem(names: readonly string[]): FieldProblem | null {
  const field = "webhook_headers";
  if (names.includes(""))
    return { field, message: "have a value without a name: enter one, or remove the header" };
  const lower = names.map((name) => name.toLowerCase());
  const twice = names.find((_, index) => lower.indexOf(lower[index] ?? "") < index);
  return twice === undefined ? null : { field: `${field}.${twice}`, message: "is given twice" };
}

function numberOrNull(value: number | string): number | null {
  return value === "" || Number.isNaN(Number(value)) ? null : Number(value);
}
