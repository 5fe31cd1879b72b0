/** Answers of the dashboard's API (its schemas: /openapi.json, tag Dashboard). */

export interface User {
  id: string;
  email: string;
  role: "owner" | "member";
  admin: boolean;
  /** False: signs in through the OpenID provider only. */
  has_password: boolean;
  created_at: string;
}

export interface Account {
  id: string;
  name: string;
  namespace: string | null;
  time_zone: string;
  retention_days: number | null;
  created_at: string;
}

export interface Session {
  user: User;
  account: Account;
  installation: { version: string; retention_days: number; kubernetes: boolean };
}

export interface ApiKey {
  id: string;
  label: string;
  prefix: string;
  created_at: string;
  last_used_at: string | null;
}

export type TlsMode = "starttls" | "implicit" | "none";

export interface SmtpSettings {
  host: string;
  port: number;
  username: string | null;
  from: string;
  tls: TlsMode;
  password_set: boolean;
}

export interface SmtpTest {
  accepted: boolean;
  error: string | null;
  transcript: string[];
}

export interface Activity {
  at: string;
  mail_sent: number;
  mail_failed: number;
  runs_succeeded: number;
  runs_failed: number;
}

export interface Overview {
  activity: Activity[];
  jobs: Record<string, number>;
  next_runs: { id: string; name: string; at: string }[];
  failing: {
    total: number;
    jobs: {
      id: string;
      name: string;
      missed: boolean;
      error_message: string | null;
      at: string;
    }[];
  };
  circuits: { destination: string; state: string; since: string }[];
  first_steps: {
    smtp: boolean;
    api_key_used: boolean;
    mail_sent: boolean;
    job_created: boolean;
  };
}

export type JobStatus = "active" | "paused" | "completed" | "failed" | "invalid";
export type JobType = "webhook" | "email";
export type ScheduleType = "cron" | "one_time";

/** The fields that a job has both in a list and on its own page. */
interface AnyJob {
  id: string;
  name: string;
  type: JobType;
  schedule_type: ScheduleType;
  cron_expression: string | null;
  timezone: string | null;
  run_at: string | null;
  status: JobStatus;
  next_run_at: string | null;
  last_run_at: string | null;
  last_status: "success" | "failed" | null;
  created_at: string;
}

export interface JobRow extends AnyJob {
  target: string;
  managed_by: string | null;
}

export interface JobsPage {
  jobs: JobRow[];
  total: number;
  counts: Partial<Record<JobStatus, number>>;
}

export interface Job extends AnyJob {
  webhook_url: string | null;
  webhook_payload: unknown;
  webhook_headers: Record<string, string> | null;
  timeout_seconds: number | null;
  email_to: string | null;
  email_subject: string | null;
  email_body: string | null;
  email_is_html: boolean | null;
  max_retries: number;
  min_backoff_seconds: number;
  max_backoff_seconds: number;
  starting_deadline_seconds: number | null;
  delivery_deadline_seconds: number;
  concurrency_policy: "Allow" | "Forbid" | "Replace";
  circuit: "closed" | "open" | "half_open";
  halted: boolean;
}

export interface JobView {
  job: Job;
  managed_by: { tool: string; name: string } | null;
  /** By its spec. A job that a 410 halted is paused without it. */
  suspended: boolean;
  made_by: "rest" | "kubectl";
  /**
   * Names of headers whose values come from Secrets: no field of the job, and only kubectl sets them. Missing from a
   * gateway that is still of an earlier release.
   */
  secret_headers?: string[];
  manifest: string;
  /** Without the values of its headers; null if it has none. */
  manifest_masked: string | null;
}

export interface SigningSecret {
  secret: string;
  /** Until when it signs; null: until it is replaced. */
  valid_until: string | null;
}

export interface Execution {
  kind: "execution";
  id: string;
  status: "success" | "failed";
  http_status: number;
  duration_ms: number;
  error_message: string | null;
  executed_at: string;
  attempt: number;
  trigger: "schedule" | "manual";
  scheduled_at: string;
}

export interface Missed {
  kind: "missed";
  id: string;
  reason: string;
  count: number;
  first_scheduled_at: string;
  last_scheduled_at: string;
}

export interface JobCheck {
  findings: { field: string; message: string }[];
  fire_times: string[];
}

export type MailKind = "email" | "otp" | "job";

export interface LogEntry {
  id: string;
  kind: MailKind;
  to: string;
  subject: string;
  status: "sent" | "failed";
  error_message: string | null;
  sent_at: string;
}

export interface LogsPage {
  logs: LogEntry[];
  total: number;
}

export interface OtpDay {
  day: string;
  sent: number;
  send_failed: number;
  verified: number;
  refused: number;
  burnt: number;
}

export interface Invitation {
  id: string;
  email: string;
  role: "owner" | "member";
  created_at: string;
  expires_at: string;
}
