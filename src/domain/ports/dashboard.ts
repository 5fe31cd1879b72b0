import type { User, UserRole } from "../account.ts";
import type { Instant } from "../instant.ts";
import type { StatusCursor } from "../job-status.ts";
import type { Execution } from "../run.ts";

/** What happened in one stretch of time. */
export interface ActivityBucket {
  /** Start of the stretch. */
  at: Instant;
  mailSent: number;
  mailFailed: number;
  runsSucceeded: number;
  runsFailed: number;
}

export interface OtpDay {
  /** `YYYY-MM-DD`, UTC. */
  day: string;
  sent: number;
  sendFailed: number;
  verified: number;
  /** Wrong codes. */
  refused: number;
  /** Last wrong tries: each of them ended a code that had too many. */
  burnt: number;
}

/** Counts over time of one account, cheap at any size of the history. */
export interface DashboardStatistics {
  /** Oldest first, without gaps, the last one still running. Hours and days are UTC's. */
  activity(query: {
    account: string;
    unit: "hour" | "day";
    count: number;
  }): Promise<ActivityBucket[]>;
  /** Oldest first, without gaps, the last one today. */
  otps(account: string, days: number): Promise<OtpDay[]>;
  /**
   * By job uid, the cursors of live jobs that change the status of their job: a one-time job has fired, or a job is
   * halted. All other jobs have the status of a job without cursor.
   */
  statusCursors(account: string): Promise<Map<string, StatusCursor>>;
  /**
   * By job uid, how and when each live job that has run ran last; or of these only the jobs whose last run failed, and
   * one-time jobs that missed their time.
   */
  lastRuns(account: string, which: "all" | "failed or missed"): Promise<Map<string, LastRun>>;
}

export type LastRun = Pick<Execution, "status" | "executedAt">;

export interface Invitation {
  id: string;
  account: string;
  email: string;
  role: UserRole;
  createdAt: Instant;
  expiresAt: Instant;
}

/**
 * Invitations to an account. The token is for the link and is shown once; its hash is stored. An invitation is
 * valid for seven days, and only while its maker may still invite: nobody who is removed leaves a way back open.
 */
export interface Invitations {
  /**
   * Replaces an earlier one for the address. Undefined: the account, or the inviting user `by`, is gone. Throws
   * InvalidInput.
   */
  create(input: {
    account: string;
    email: string;
    role: UserRole;
    by: string;
  }): Promise<{ invitation: Invitation; token: string } | undefined>;
  list(account: string): Promise<Invitation[]>;
  find(token: string): Promise<(Invitation & { accountName: string }) | undefined>;
  /** Makes the user; the token is used up. Undefined: it is not valid. Throws InvalidInput, and PasswordsBusy. */
  accept(token: string, password: string, client: string): Promise<User | undefined>;
  delete(account: string, id: string): Promise<boolean>;
}

/**
 * Slows guesses down: each (address, client) may try a few times, then waits longer and longer. Others
 * who know the password, from elsewhere, do not wait.
 */
export interface SignInBrake {
  /** Counts the try before it is made, so that parallel guesses are counted too. */
  take(
    email: string,
    client: string,
  ): Promise<{ kind: "go" } | { kind: "wait"; retryAfterSeconds: number }>;
  /** The try succeeded. */
  forget(email: string, client: string): Promise<void>;
}
