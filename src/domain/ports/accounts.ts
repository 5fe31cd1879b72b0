import type { Account, ApiKey, SmtpSettings, User, UserRole } from "../account.ts";
import type { Instant } from "../instant.ts";

export interface Accounts {
  create(input: { name: string; namespace?: string; namespaceUid?: string }): Promise<Account>;
  list(): Promise<Account[]>;
  byName(name: string): Promise<Account | undefined>;
  get(id: string): Promise<Account | undefined>;
  /** The live account bound to this namespace incarnation. */
  byNamespace(namespace: string, uid: string): Promise<Account | undefined>;
  /**
   * Refuses (throws InvalidInput) a namespace that another live account holds. Moves only away from a
   * namespace without jobs: throws NamespaceInUse, or what the look at the cluster throws.
   */
  bind(id: string, namespace: string, namespaceUid: string): Promise<Account>;
  update(
    id: string,
    change: { retentionDays?: number | null; timeZone?: string },
  ): Promise<Account>;
  /**
   * Keys stop at once, queued runs are cancelled; rows are purged after 30 days. With `by`, who asks for it in
   * the dashboard: throws AdministratorsOnly and LastAdministrator, as for each of the account's users.
   */
  delete(id: string, by?: Asker): Promise<void>;
  /** `CIDR[:port]` rules that the operator allows this account besides global addresses. */
  allowedDestinations(id: string): Promise<string[]>;
  allow(id: string, rule: string): Promise<void>;
  disallow(id: string, rule: string): Promise<boolean>;
}

/** The namespace that an account should leave has jobs, which would belong to nobody. */
export class NamespaceInUse extends Error {
  override name = "NamespaceInUse";
  constructor(namespace: string) {
    super(
      `the account is bound to the namespace ${namespace}, which has ScheduledJobs: delete or move them first (kubectl get scheduledjobs -n ${namespace}), then bind the account again`,
    );
  }
}

/** An account was deleted, and jobs that REST made for it could not be. */
export class JobsLeft extends Error {
  override name = "JobsLeft";
  constructor(namespace: string, options?: ErrorOptions) {
    super(
      `the account is deleted, but jobs that REST made for it may be left in the namespace ${namespace}: delete them before another account is bound to it, for which they would run (kubectl delete scheduledjobs -n ${namespace} -l app.kubernetes.io/managed-by=carillon)`,
      options,
    );
  }
}

/** Who sent a request, as of the look-up of its key. */
export interface Caller {
  keyId: string;
  account: string;
  /** Of the account's SMTP settings; undefined when it has none. Read along, for those who send a mail next. */
  smtpRevision: string | undefined;
}

export interface ApiKeys {
  /** The raw key is returned here and never again; only its SHA-256 is stored. */
  create(account: string, label: string): Promise<{ key: ApiKey; raw: string }>;
  list(account: string): Promise<ApiKey[]>;
  delete(account: string, id: string): Promise<boolean>;
  /**
   * The key and its live account. What cannot be a key costs no look-up. `lastUsedAt` is written at most once a minute,
   * never on the hot path.
   */
  authenticate(raw: string): Promise<Caller | undefined>;
}

export interface SmtpSettingsStore {
  get(account: string): Promise<SmtpSettings | undefined>;
  /** Cheap: the revision alone, to know whether an open transport pool is still right. */
  revision(account: string): Promise<string | undefined>;
  /** Mails that a circuit has put off go out soon: it was that of the settings before. */
  set(account: string, settings: Omit<SmtpSettings, "revision">): Promise<void>;
  delete(account: string): Promise<void>;
}

export interface SigningSecrets {
  /** Newest first; all of them sign. Made on first use. Each `whsec_` + base64. */
  current(account: string): Promise<string[]>;
  /** A new one signs within a second; the old one goes on signing until `oldValidUntil`. */
  rotate(account: string): Promise<{ secret: string; oldValidUntil: Instant }>;
}

/**
 * What hashes a password throws PasswordsBusy instead when too many are being worked on, or too many of one party: of
 * a client that nobody knows yet, of a user.
 */
export interface Users {
  create(input: {
    account: string;
    email: string;
    password: string;
    role?: UserRole;
    admin?: boolean;
  }): Promise<User>;
  /**
   * Constant time whether or not the user exists. `first` runs before all else, when it is sure that the password
   * is going to be looked at.
   */
  verify(attempt: {
    email: string;
    password: string;
    party: string;
    first?: () => Promise<void>;
  }): Promise<Verified | undefined>;
  /** Whether that is the user's password still: it may be replaced while a sign-in with it is under way. */
  stillVerified(verified: Verified): Promise<boolean>;
  /** Sessions stay. Undefined: that is the user's password no longer. Throws InvalidInput. */
  replacePassword(verified: Verified, password: string): Promise<Verified | undefined>;
  byEmail(email: string): Promise<User | undefined>;
  list(account: string): Promise<User[]>;
  /** Sessions stay. Throws InvalidInput. */
  setPassword(id: string, password: string): Promise<void>;
  /**
   * Undefined: the account has no such user. Throws LastOwner; AdministratorsOnly and LastAdministrator where an
   * administrator would be demoted.
   */
  setRole(account: string, id: string, role: UserRole, by: Asker): Promise<User | undefined>;
  /** False: the account has no such user. Throws LastOwner, AdministratorsOnly and LastAdministrator. */
  delete(account: string, id: string, by: Asker): Promise<boolean>;
}

/** A user whose password was right, or who has none. */
export interface Verified {
  user: User;
  /** Which password that was; null: none. For no answer and no log. */
  passwordHash: string | null;
}

/** Who asks for a change of users: what an administrator may do is not for every owner. */
export type Asker = Pick<User, "admin">;

/** More passwords wait in this process, or of one party in it, than it will work on soon: nothing was looked at. */
export class PasswordsBusy extends Error {
  override name = "PasswordsBusy";
  constructor() {
    super("too many people are signing in at this moment");
  }
}

/** The account would be left without an owner. */
export class LastOwner extends Error {
  override name = "LastOwner";
  constructor() {
    super("the user is the account's last owner");
  }
}

/** The user is an administrator of the installation, and whoever asks is none. */
export class AdministratorsOnly extends Error {
  override name = "AdministratorsOnly";
  constructor() {
    super("only administrators of the installation may remove or demote an administrator");
  }
}

/** Nobody would be left to administer the installation. */
export class LastAdministrator extends Error {
  override name = "LastAdministrator";
  constructor() {
    super("nobody would be left to administer the installation");
  }
}

export interface Sessions {
  /** The raw token is for the cookie; its hash is stored. Undefined: the user has been removed. */
  create(user: string): Promise<{ token: string } | undefined>;
  /** `fresh`: the user signed in within the last ten minutes. */
  authenticate(token: string): Promise<{ user: User; fresh: boolean } | undefined>;
  delete(token: string): Promise<void>;
  deleteAll(user: string): Promise<void>;
}
