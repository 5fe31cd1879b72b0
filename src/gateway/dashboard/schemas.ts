import { Type, type Static } from "typebox";
import { MAX_PASSWORD, MAX_RETENTION_DAYS } from "../../domain/account.ts";
import { JOB_STATUSES } from "../../domain/job.ts";
import * as field from "../../domain/schema/fields.ts";
import { LIMITS } from "../../domain/schema/fields.ts";
import { timestamp } from "../schema/answers.ts";
import { emailLogEntry } from "../schema/mail.ts";

/** Bodies, queries and answers of the dashboard's own API. */

const CLOSED = { additionalProperties: false } as const;
const ROLE = ["owner", "member"] as const;
const password = Type.String({ minLength: 1, maxLength: MAX_PASSWORD, description: "Password." });
const ownPassword = Type.String({
  minLength: 1,
  maxLength: MAX_PASSWORD,
  description:
    "The user's own password. A user without one leaves it out and must have signed in within the last ten minutes.",
});
const count = (description: string) => Type.Integer({ minimum: 0, description });
const maybe = (description: string) =>
  Type.Unsafe<string | null>({ type: ["string", "null"], description });

export const signInBody = Type.Object(
  { email: Type.String({ minLength: 1, maxLength: LIMITS.address }), password },
  CLOSED,
);
export type SignIn = Static<typeof signInBody>;

export const signInOptionsAnswer = Type.Object({
  single_sign_on: Type.Unsafe<{ name: string } | null>({
    type: ["object", "null"],
    properties: { name: { type: "string", description: "The provider's name on the button." } },
    required: ["name"],
    description: "Null: users sign in with a password only.",
  }),
});
export const singleSignOnBody = Type.Object(
  {
    invitation: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 100,
        pattern: "^[A-Za-z0-9_-]+$",
        description: "Token of an invitation to accept.",
      }),
    ),
  },
  CLOSED,
);
export type SingleSignOn = Static<typeof singleSignOnBody>;
export const singleSignOnAnswer = Type.Object({
  url: Type.String({ description: "The provider's page that the browser must open." }),
});
/** Not closed: providers may send parameters that we do not know. */
export const callbackQuery = Type.Unsafe<Record<string, string>>({
  type: "object",
  properties: {
    code: { type: "string" },
    state: { type: "string" },
    iss: { type: "string" },
    error: { type: "string" },
  },
});
export type CallbackQuery = Static<typeof callbackQuery>;

export const passwordBody = Type.Object(
  { current_password: Type.Optional(ownPassword), new_password: password },
  CLOSED,
);
export type PasswordChange = Static<typeof passwordBody>;

export const user = Type.Object({
  id: Type.String(),
  email: Type.String(),
  role: field.oneOf(ROLE),
  admin: Type.Boolean({
    description: "Whether the user is an administrator, who may create and bind accounts.",
  }),
  has_password: Type.Boolean({
    description: "False: the user signs in only through the OpenID provider.",
  }),
  created_at: timestamp("When the user was created."),
});

export const account = Type.Object({
  id: Type.String(),
  name: Type.String(),
  namespace: maybe("The Kubernetes namespace that the account is bound to."),
  time_zone: Type.String(),
  retention_days: Type.Unsafe<number | null>({
    type: ["integer", "null"],
    description: "Days that history is kept; null: the installation's maximum.",
  }),
  created_at: timestamp("When the account was created."),
});

export const sessionAnswer = Type.Object({
  user,
  account,
  installation: Type.Object({
    version: Type.String(),
    retention_days: count("Maximum days that history is kept; 0: for ever."),
    kubernetes: Type.Boolean({ description: "Whether jobs are ScheduledJob resources." }),
  }),
});

const label = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
  "x-rule": "must be one line without control characters",
  description: "What the key is for.",
});
const apiKey = Type.Object({
  id: Type.String(),
  label: Type.String(),
  prefix: Type.String({ description: "First characters, to recognise the key by." }),
  created_at: timestamp("When the key was created."),
  last_used_at: maybe("When the key was last used, to the minute. ISO 8601, UTC."),
});
export const apiKeysAnswer = Type.Object({ keys: Type.Array(apiKey) });
export const apiKeyBody = Type.Object({ label }, CLOSED);
export const apiKeyCreated = Type.Object({
  key: apiKey,
  raw: Type.String({ description: "The key itself. It is never shown again." }),
});

const smtpFields = {
  host: Type.String({ minLength: 1, maxLength: 253, description: "SMTP server." }),
  port: Type.Integer({ minimum: 1, maximum: 65_535 }),
  username: Type.Unsafe<string | null>({ type: ["string", "null"], maxLength: 320 }),
  from: field.address,
  tls: field.oneOf(["starttls", "implicit", "none"]),
};
const smtpPassword = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 1_000,
    description:
      "If absent, the stored password is used, provided that server, port and user name stay the same and encryption is not switched off.",
  }),
);
export const smtpBody = Type.Object({ ...smtpFields, password: smtpPassword }, CLOSED);
export type SmtpBody = Static<typeof smtpBody>;
export const smtpTestBody = Type.Object(
  { ...smtpFields, password: smtpPassword, to: field.address },
  CLOSED,
);
export type SmtpTestBody = Static<typeof smtpTestBody>;
export const smtpAnswer = Type.Object({
  settings: Type.Unsafe<object | null>({
    type: ["object", "null"],
    properties: { ...smtpFields, password_set: Type.Boolean() },
    description: "Null if none are set. The password is never returned.",
  }),
});
export const smtpTestAnswer = Type.Object({
  accepted: Type.Boolean(),
  error: maybe("Why the test mail was not accepted."),
  transcript: Type.Array(Type.String(), {
    description: "The SMTP conversation line by line, without secrets.",
  }),
});

const FAILING =
  "Jobs that nobody has paused and whose newest attempt failed, or that missed their only time and have not run since.";

export const overviewQuery = Type.Object(
  { range: field.oneOf(["24h", "7d", "30d"], { default: "24h" }) },
  CLOSED,
);
export type OverviewQuery = Static<typeof overviewQuery>;
export const overviewAnswer = Type.Object({
  activity: Type.Array(
    Type.Object({
      at: timestamp("Start of the hour or day."),
      mail_sent: count("Mails that the SMTP server accepted."),
      mail_failed: count("Mails that failed."),
      runs_succeeded: count("Attempts of jobs that succeeded."),
      runs_failed: count("Attempts of jobs that failed."),
    }),
  ),
  jobs: Type.Unsafe<Record<string, number>>({
    type: "object",
    additionalProperties: { type: "integer" },
    description: "Number of jobs by status.",
  }),
  next_runs: Type.Array(
    Type.Object({ id: Type.String(), name: Type.String(), at: timestamp("When it runs next.") }),
  ),
  failing: Type.Object({
    total: count(FAILING),
    jobs: Type.Array(
      Type.Object({
        id: Type.String(),
        name: Type.String(),
        missed: Type.Boolean({ description: "A one-time job whose time passed without a run." }),
        error_message: maybe("Why the attempt failed; null for a missed job."),
        at: timestamp("When the attempt began, or the time that was missed."),
      }),
    ),
  }),
  circuits: Type.Array(
    Type.Object({
      destination: Type.String(),
      state: Type.String(),
      since: timestamp("When the circuit entered this state."),
    }),
  ),
  first_steps: Type.Object({
    api_key_used: Type.Boolean(),
    smtp: Type.Boolean(),
    mail_sent: Type.Boolean(),
    job_created: Type.Boolean(),
  }),
});

export const jobsPageQuery = Type.Object(
  {
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 25 }),
    offset: Type.Integer({ minimum: 0, maximum: LIMITS.offset, default: 0 }),
    q: Type.Optional(Type.String({ minLength: 1, maxLength: LIMITS.name })),
    status: Type.Optional(
      field.oneOf([...JOB_STATUSES, "failing"], {
        description: `\`failing\`: ${FAILING}`,
      }),
    ),
    type: Type.Optional(field.jobType),
    sort: field.oneOf(["created", "name", "next_run", "last_run"], { default: "created" }),
  },
  CLOSED,
);
export type JobsPageQuery = Static<typeof jobsPageQuery>;
export const jobsPageAnswer = Type.Object({
  jobs: Type.Array(
    Type.Object({
      id: Type.String(),
      name: Type.String(),
      type: field.jobType,
      schedule_type: field.scheduleType,
      cron_expression: maybe("Null for a one-time job."),
      timezone: maybe("Null for a one-time job."),
      run_at: maybe("Null for a cron job."),
      target: Type.String({ description: "Webhook URL or recipient." }),
      status: Type.String(),
      next_run_at: maybe("ISO 8601, UTC."),
      last_run_at: maybe("ISO 8601, UTC."),
      last_status: maybe("`success` or `failed`."),
      managed_by: maybe("The tool that manages the job, such as Argo CD or Helm; null if none."),
      created_at: timestamp("When the job was created."),
    }),
  ),
  total: count("Jobs that match."),
  counts: Type.Unsafe<Record<string, number>>({
    type: "object",
    additionalProperties: { type: "integer" },
    description: "All jobs by status.",
  }),
});

export const jobCheckQuery = Type.Object(
  { id: Type.Optional(Type.String({ minLength: 1, maxLength: 253 })) },
  CLOSED,
);
export type JobCheckQuery = Static<typeof jobCheckQuery>;
export const jobCheckBody = Type.Unsafe<Record<string, unknown>>({
  type: "object",
  description: "A body for `POST /jobs`, or with `id` a body for `PATCH /jobs/{id}`.",
});
export const jobCheckAnswer = Type.Object({
  findings: Type.Array(Type.Object({ field: Type.String(), message: Type.String() })),
  fire_times: Type.Array(timestamp("One of the next ten fire times.")),
});

export const bulkBody = Type.Object(
  {
    action: field.oneOf(["pause", "resume"]),
    ids: Type.Array(Type.String({ minLength: 1, maxLength: 253 }), { minItems: 1, maxItems: 200 }),
  },
  CLOSED,
);
export type BulkBody = Static<typeof bulkBody>;
export const bulkAnswer = Type.Object({
  changed: count("Jobs that were changed."),
  failures: Type.Array(Type.Object({ id: Type.String(), error: Type.String() })),
});

export const otpQuery = Type.Object(
  { days: Type.Integer({ minimum: 1, maximum: 90, default: 30 }) },
  CLOSED,
);
export type OtpQuery = Static<typeof otpQuery>;
export const otpAnswer = Type.Object({
  days: Type.Array(
    Type.Object({
      day: Type.String(),
      sent: count("Codes mailed."),
      send_failed: count("Codes whose mail failed."),
      verified: count("Codes verified."),
      refused: count("Wrong codes."),
      burnt: count("Codes invalidated by wrong tries."),
    }),
  ),
  recent: Type.Array(emailLogEntry, { description: "The newest passcode mails, without codes." }),
});

export const signingSecretAnswer = Type.Object({
  secrets: Type.Array(
    Type.Object({
      secret: Type.String(),
      valid_until: maybe("Until when it signs; null: until it is replaced. ISO 8601, UTC."),
    }),
    { description: "Newest first; all of them sign." },
  ),
});
export const rotateAnswer = Type.Object({
  secret: Type.String(),
  old_valid_until: maybe(
    "Until when the old secret signs too; null: there was none. ISO 8601, UTC.",
  ),
});

export const accountPatch = Type.Object(
  {
    time_zone: Type.Optional(field.timeZone),
    retention_days: Type.Optional(
      Type.Unsafe<number | null>({
        type: ["integer", "null"],
        minimum: 1,
        maximum: MAX_RETENTION_DAYS,
      }),
    ),
  },
  { ...CLOSED, minProperties: 1 },
);
export type AccountPatch = Static<typeof accountPatch>;
export const accountDeleteBody = Type.Object(
  {
    password: Type.Optional(ownPassword),
    name: Type.String({ maxLength: 64, description: "The account's name, as a confirmation." }),
  },
  CLOSED,
);
export type AccountDelete = Static<typeof accountDeleteBody>;

const invitation = Type.Object({
  id: Type.String(),
  email: Type.String(),
  role: field.oneOf(ROLE),
  created_at: timestamp("When the invitation was created."),
  expires_at: timestamp("Until when the invitation can be accepted."),
});
export const usersAnswer = Type.Object({
  users: Type.Array(user),
  invitations: Type.Array(invitation),
});
export const userPatch = Type.Object({ role: field.oneOf(ROLE) }, CLOSED);
export type UserPatch = Static<typeof userPatch>;
export const inviteBody = Type.Object(
  {
    email: field.address,
    role: field.oneOf(ROLE),
    send: Type.Optional(
      Type.Boolean({ description: "Also mail the link through the account's SMTP server." }),
    ),
  },
  CLOSED,
);
export type InviteBody = Static<typeof inviteBody>;
export const inviteAnswer = Type.Object({
  invitation,
  link: Type.String({ description: "Link for the invited person. It is never shown again." }),
  mail: Type.Unsafe<string | null>({
    type: ["string", "null"],
    description: "`sent`, or why the mail could not be sent; null if no mail was requested.",
  }),
});
export const invitationToken = Type.Object(
  { token: Type.String({ minLength: 1, maxLength: 100 }) },
  CLOSED,
);
export type InvitationToken = Static<typeof invitationToken>;
export const invitationAccept = Type.Object(
  { token: Type.String({ minLength: 1, maxLength: 100 }), password },
  CLOSED,
);
export type InvitationAccept = Static<typeof invitationAccept>;
export const invitationFound = Type.Object({
  email: Type.String(),
  role: field.oneOf(ROLE),
  account: Type.String(),
});

export const accountsAnswer = Type.Object({ accounts: Type.Array(account) });
export const accountCreateBody = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 64 }),
    namespace: Type.Optional(Type.String({ minLength: 1, maxLength: 63 })),
    owner_email: field.address,
  },
  CLOSED,
);
export type AccountCreate = Static<typeof accountCreateBody>;
export const accountBindBody = Type.Object(
  { namespace: Type.String({ minLength: 1, maxLength: 63 }) },
  CLOSED,
);
export type AccountBind = Static<typeof accountBindBody>;
export const accountCreated = Type.Object({
  account,
  invitation,
  link: Type.String({ description: "Invitation link for the owner. It is never shown again." }),
});
