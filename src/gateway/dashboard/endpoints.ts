import type { TSchema } from "typebox";
import { jobCreate, jobPatch } from "../../domain/schema/rest-job.ts";
import { emptyQuery, messageAnswer } from "../schema/answers.ts";
import { IDEMPOTENT, ONE_RUN_A_KEY, type EndpointDefinition } from "../schema/endpoints.ts";
import * as jobs from "../schema/jobs.ts";
import { logsAnswer, logsQuery } from "../schema/mail.ts";
import * as own from "./schemas.ts";

export const API_PATH = "/dashboard/api";

/** Who may call: anybody, any user of the account, its owners, or administrators of the installation. */
export type Access = "open" | "member" | "owner" | "admin";

/** Like an endpoint of the REST API's table, with a path below `API_PATH`. */
export type DashboardEndpoint = Omit<
  EndpointDefinition,
  "tag" | "description" | "authenticated" | "largeBody" | "alternative"
> & { access: Access };

const MEMBER = { access: "member", query: emptyQuery, errors: [] } as const;
const OWNER = { access: "owner", query: emptyQuery, errors: [] } as const;
const ADMIN = { access: "admin", query: emptyQuery, errors: [] } as const;
const OPEN = { access: "open", query: emptyQuery, errors: [] } as const;
const done = { status: 200, description: "Done.", schema: messageAnswer };
const ok = <S extends TSchema>(schema: S) => ({
  status: 200,
  description: "Success.",
  schema,
});
const made = <S extends TSchema>(schema: S) => ({ status: 201, description: "Created.", schema });

export const DASHBOARD_ENDPOINTS = {
  signIn: {
    ...OPEN,
    method: "POST",
    path: "/session",
    summary: "Sign in: sets the session cookie and ends the previous session",
    body: own.signInBody,
    success: ok(own.sessionAnswer),
    errors: ["sign_in_failed", "sign_in_delayed"],
  },
  signInOptions: {
    ...OPEN,
    method: "GET",
    path: "/sign-in",
    summary: "How users can sign in",
    success: ok(own.signInOptionsAnswer),
  },
  beginSingleSignOn: {
    ...OPEN,
    method: "POST",
    path: "/single-sign-on",
    summary: "Begin a sign-in through the OpenID provider; returns the page to open",
    body: own.singleSignOnBody,
    success: ok(own.singleSignOnAnswer),
    errors: ["not_found", "sign_in_delayed"],
  },
  finishSingleSignOn: {
    ...OPEN,
    method: "GET",
    path: "/single-sign-on/callback",
    summary: "Target of the OpenID provider's redirect",
    query: own.callbackQuery,
    success: {
      status: 303,
      description:
        "Redirects to the dashboard, signed in or with `#sign-in=REASON` (`expired`, `refused`, `unavailable`, `unverified`, `unknown`, `taken`, `invitation`, `other_address`, `failed`).",
      schema: messageAnswer,
    },
    errors: ["not_found"],
  },
  getSession: {
    ...MEMBER,
    method: "GET",
    path: "/session",
    summary: "Who is signed in",
    success: ok(own.sessionAnswer),
  },
  signOut: {
    ...OPEN,
    method: "DELETE",
    path: "/session",
    summary: "Sign out of this session",
    success: done,
  },
  signOutEverywhere: {
    ...MEMBER,
    method: "DELETE",
    path: "/sessions",
    summary: "Sign out of all of the user's sessions",
    success: done,
  },
  changePassword: {
    ...MEMBER,
    method: "POST",
    path: "/password",
    summary: "Change one's own password, and end every other session",
    body: own.passwordBody,
    success: done,
    errors: ["sign_in_delayed"],
  },
  findInvitation: {
    ...OPEN,
    method: "POST",
    path: "/invitation",
    summary: "Show the invitation that a token belongs to",
    body: own.invitationToken,
    success: ok(own.invitationFound),
    errors: ["not_found"],
  },
  acceptInvitation: {
    ...OPEN,
    method: "POST",
    path: "/invitation/accept",
    summary: "Accept an invitation: creates the user and signs in",
    body: own.invitationAccept,
    success: made(own.sessionAnswer),
    errors: ["not_found", "sign_in_delayed"],
  },
  overview: {
    ...MEMBER,
    method: "GET",
    path: "/overview",
    summary: "Activity, next runs, failing jobs, open circuits, first steps",
    query: own.overviewQuery,
    success: ok(own.overviewAnswer),
  },
  listApiKeys: {
    ...MEMBER,
    method: "GET",
    path: "/api-keys",
    summary: "List the account's API keys",
    success: ok(own.apiKeysAnswer),
  },
  createApiKey: {
    ...OWNER,
    method: "POST",
    path: "/api-keys",
    summary: "Create an API key, which is shown only in this response",
    body: own.apiKeyBody,
    success: made(own.apiKeyCreated),
  },
  deleteApiKey: {
    ...OWNER,
    method: "DELETE",
    path: "/api-keys/{id}",
    summary: "Delete an API key; it stops working at once",
    success: done,
    errors: ["not_found"],
  },
  getSmtp: {
    ...OWNER,
    method: "GET",
    path: "/smtp",
    summary: "The SMTP settings, without the password",
    success: ok(own.smtpAnswer),
  },
  setSmtp: {
    ...OWNER,
    method: "POST",
    path: "/smtp",
    summary: "Set the SMTP settings",
    body: own.smtpBody,
    success: ok(own.smtpAnswer),
  },
  deleteSmtp: {
    ...OWNER,
    method: "DELETE",
    path: "/smtp",
    summary: "Remove the SMTP settings",
    success: done,
  },
  testSmtp: {
    ...OWNER,
    method: "POST",
    path: "/smtp/test",
    summary: "Send a test mail with settings that need not be saved",
    body: own.smtpTestBody,
    success: ok(own.smtpTestAnswer),
  },
  pageJobs: {
    ...MEMBER,
    method: "GET",
    path: "/jobs",
    summary: "One page of the account's jobs, with next and last run",
    query: own.jobsPageQuery,
    success: ok(own.jobsPageAnswer),
  },
  checkJob: {
    ...MEMBER,
    method: "POST",
    path: "/jobs/check",
    summary: "Validate a job and list its next fire times; changes nothing",
    query: own.jobCheckQuery,
    body: own.jobCheckBody,
    success: ok(own.jobCheckAnswer),
    errors: ["not_found"],
  },
  bulkJobs: {
    ...MEMBER,
    method: "POST",
    path: "/jobs/bulk",
    summary: "Pause or resume several jobs",
    body: own.bulkBody,
    success: ok(own.bulkAnswer),
  },
  createJob: {
    ...MEMBER,
    method: "POST",
    path: "/jobs",
    summary: "Create a job, as POST /jobs does",
    body: jobCreate,
    ...IDEMPOTENT,
    success: made(jobs.jobCreated),
    errors: ["conflict"],
  },
  viewJob: {
    ...MEMBER,
    method: "GET",
    path: "/jobs/{id}",
    summary: "The whole job, who owns it, and its ScheduledJob manifest",
    success: ok(
      jobs.anyObject, // { job, managed_by, suspended, made_by, secret_headers, manifest, manifest_masked }
    ),
    errors: ["not_found"],
  },
  updateJob: {
    ...MEMBER,
    method: "PATCH",
    path: "/jobs/{id}",
    summary: "Change a job, as PATCH /jobs/{id} does",
    body: jobPatch,
    success: ok(jobs.job),
    errors: ["not_found", "conflict", "job_owned"],
  },
  deleteJob: {
    ...MEMBER,
    method: "DELETE",
    path: "/jobs/{id}",
    summary: "Delete a job",
    success: done,
    errors: ["not_found", "job_owned"],
  },
  pauseJob: {
    ...MEMBER,
    method: "POST",
    path: "/jobs/{id}/pause",
    summary: "Pause a job",
    success: ok(jobs.job),
    errors: ["not_found", "conflict", "job_owned"],
  },
  resumeJob: {
    ...MEMBER,
    method: "POST",
    path: "/jobs/{id}/resume",
    summary: "Resume a job",
    success: ok(jobs.job),
    errors: ["not_found", "conflict", "job_owned"],
  },
  runJob: {
    ...MEMBER,
    method: "POST",
    path: "/jobs/{id}/run",
    summary: "Run a job now",
    ...ONE_RUN_A_KEY,
    success: { status: 202, description: "The run was queued.", schema: jobs.runAccepted },
    errors: ["not_found"],
  },
  listExecutions: {
    ...MEMBER,
    method: "GET",
    path: "/jobs/{id}/executions",
    summary: "Executions and missed fire times of a job",
    query: jobs.executionsQuery,
    success: ok(jobs.executionsAnswer),
    errors: ["not_found"],
  },
  listLogs: {
    ...MEMBER,
    method: "GET",
    path: "/logs",
    summary: "The email log",
    query: logsQuery,
    success: ok(logsAnswer),
  },
  otpOutcomes: {
    ...MEMBER,
    method: "GET",
    path: "/otp",
    summary: "Passcodes by day and outcome, never the codes",
    query: own.otpQuery,
    success: ok(own.otpAnswer),
  },
  getSigningSecret: {
    ...OWNER,
    method: "GET",
    path: "/signing-secret",
    summary: "The webhook signing secrets",
    success: ok(own.signingSecretAnswer),
  },
  rotateSigningSecret: {
    ...OWNER,
    method: "POST",
    path: "/signing-secret/rotate",
    summary: "Create a new webhook signing secret",
    success: ok(own.rotateAnswer),
  },
  updateAccount: {
    ...OWNER,
    method: "PATCH",
    path: "/account",
    summary: "Change the account's time zone and retention",
    body: own.accountPatch,
    success: ok(own.account),
  },
  deleteAccount: {
    ...OWNER,
    method: "POST",
    path: "/account/delete",
    summary: "Delete the account with everything in it",
    body: own.accountDeleteBody,
    success: done,
    errors: ["sign_in_delayed", "last_administrator"],
  },
  listUsers: {
    ...MEMBER,
    method: "GET",
    path: "/users",
    summary: "Users of the account, and open invitations",
    success: ok(own.usersAnswer),
  },
  updateUser: {
    ...OWNER,
    method: "PATCH",
    path: "/users/{id}",
    summary: "Make a user owner or member, with immediate effect in open sessions too",
    body: own.userPatch,
    success: ok(own.user),
    errors: ["not_found", "last_owner", "last_administrator"],
  },
  deleteUser: {
    ...OWNER,
    method: "DELETE",
    path: "/users/{id}",
    summary: "Remove a user of the account",
    success: done,
    errors: ["not_found", "last_owner", "last_administrator"],
  },
  invite: {
    ...OWNER,
    method: "POST",
    path: "/invitations",
    summary: "Invite somebody to the account",
    body: own.inviteBody,
    success: made(own.inviteAnswer),
  },
  deleteInvitation: {
    ...OWNER,
    method: "DELETE",
    path: "/invitations/{id}",
    summary: "Withdraw an invitation",
    success: done,
    errors: ["not_found"],
  },
  listAccounts: {
    ...ADMIN,
    method: "GET",
    path: "/accounts",
    summary: "All accounts of the installation",
    success: ok(own.accountsAnswer),
  },
  createAccount: {
    ...ADMIN,
    method: "POST",
    path: "/accounts",
    summary: "Create an account and invite its owner",
    body: own.accountCreateBody,
    success: made(own.accountCreated),
  },
  bindAccount: {
    ...ADMIN,
    method: "POST",
    path: "/accounts/{id}/namespace",
    summary: "Bind an account to a namespace, or move it to another one",
    body: own.accountBindBody,
    success: ok(own.account),
    errors: ["not_found", "namespace_in_use"],
  },
} as const satisfies Record<string, DashboardEndpoint>;

export type DashboardOperation = keyof typeof DASHBOARD_ENDPOINTS;
