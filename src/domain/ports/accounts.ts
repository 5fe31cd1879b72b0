import type { Account, ApiKey, SmtpSettings, User, UserRole } from "../account.ts";
import type { Instant } from "../instant.ts";

export interface Accounts {
  create(input: { name: string; namespace?: string; namespaceUid?: string }): Promise<Account>;
  list(): Promise<Account[]>;
  byName(name: string): Promise<Account | undefined>;
  get(id: string): Promise<Account | undefined>;
  /** The live account bound to this namespace incarnation. */
  byNamespace(namespace: string, uid: string): Promise<Account | undefined>;
  /** The bindings of those of these accounts that are live and bound, as they are after the call. */
  bindings(ids: readonly string[]): Promise<NamespaceBinding[]>;
  /**
   * Refuses (throws InvalidInput) a namespace that another live account holds. Moves only away from a
   * namespace without jobs: throws NamespaceInUse, or what the look at the cluster throws. From before that look until
   * the move is made or given up, `bindings` says that the account is leaving. So whoever makes a job and then reads
   * that it is not, has made it before the look, which finds it.
   */
  bind(id: string, namespace: string, namespaceUid: string): Promise<Account>;
  update(
    id: string,
    change: { retentionDays?: number | null; timeZone?: string },
  ): Promise<Account>;
  /**
   * Keys stop at once, queued runs are cancelled; rows are purged after 30 days. `by`: the user of the dashboard
   * who asks for it; then it throws AdministratorsOnly and LastAdministrator, as if each of the account's users
   * were deleted.
   */
  delete(id: string, by?: Actor): Promise<void>;
  /** `CIDR[:port]` rules that the operator allows this account besides global addresses. */
  allowedDestinations(id: string): Promise<string[]>;
  allow(id: string, rule: string): Promise<void>;
  disallow(id: string, rule: string): Promise<boolean>;
}

/** The namespace that an account would leave has jobs, which would then belong to nobody. */
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
  /**
   * Revision of the account's SMTP settings; undefined when it has none. Read with the key, to send a mail without
   * asking again.
   */
  smtpRevision: string | undefined;
}

export interface ApiKeys {
  /** The raw key is returned here and never again; only its SHA-256 is stored. */
  create(account: string, label: string): Promise<{ key: ApiKey; raw: string }>;
  list(account: string): Promise<ApiKey[]>;
  delete(account: string, id: string): Promise<boolean>;
  /**
   * The key and its live account. A text that cannot be a key costs no look-up. `lastUsedAt` is written at most once a
   * minute, and the caller does not wait for it.
   */
  authenticate(raw: string): Promise<Caller | undefined>;
}

export interface SmtpSettingsStore {
  get(account: string): Promise<SmtpSettings | undefined>;
  /** Cheap: only the revision, to know whether an open transport pool still fits. */
  revision(account: string): Promise<string | undefined>;
  /** Mails that an open circuit has put off are tried soon: that circuit was of the old settings. */
  set(account: string, settings: Omit<SmtpSettings, "revision">): Promise<void>;
  delete(account: string): Promise<void>;
}

export interface SigningSecret {
  secret: string;
  /** Until when it signs; null: until it is replaced. */
  validUntil: Instant | null;
}

export interface SigningSecrets {
  /** Newest first; all of them sign. Made on first use. Each `whsec_` + base64. A deleted account may have none. */
  current(account: string): Promise<string[]>;
  /** The same, with the ends of those that were replaced. Throws InvalidInput when there are none. */
  list(account: string): Promise<SigningSecret[]>;
  /** A new one signs within a second; the old one goes on signing until `oldValidUntil`. Null: there was none. */
  rotate(account: string): Promise<{ secret: string; oldValidUntil: Instant | null }>;
}

/**
 * Methods that hash a password throw PasswordsBusy when too many wait, in all or of one party: of a client that is not
 * signed in, or of a user.
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
   * Takes the same time whether or not the user exists. `first` runs before anything else, once it is certain that the
   * password will be checked.
   */
  verify(attempt: {
    email: string;
    password: string;
    party: string;
    first?: () => Promise<void>;
  }): Promise<Verified | undefined>;
  /** Whether the user still has that password: it may be replaced while a sign-in with it is under way. */
  stillVerified(verified: Verified): Promise<boolean>;
  /** Ends all sessions of the user. Undefined: the user no longer has that password. Throws InvalidInput. */
  replacePassword(verified: Verified, password: string): Promise<Verified | undefined>;
  byEmail(email: string): Promise<User | undefined>;
  list(account: string): Promise<User[]>;
  /** Ends all sessions of the user. Throws InvalidInput. */
  setPassword(id: string, password: string): Promise<void>;
  /**
   * Undefined: the account has no such user. Throws LastOwner; AdministratorsOnly and LastAdministrator where an
   * administrator would be demoted.
   */
  setRole(account: string, id: string, role: UserRole, by: Actor): Promise<User | undefined>;
  /** False: the account has no such user. Throws LastOwner, AdministratorsOnly and LastAdministrator. */
  delete(account: string, id: string, by: Actor): Promise<boolean>;
}

export interface NamespaceBinding {
  account: string;
  namespace: string;
  /** Null: bound by name alone, and not seen since. */
  namespaceUid: string | null;
  /** `bind` may be about to move it. */
  leaving: boolean;
}

/** A user whose password was right, or who has none. */
export interface Verified {
  user: User;
  /** Which password that was; null: none. Must not get into an answer or a log. */
  passwordHash: string | null;
}

/** Who asks for a change of users: administrators may do more than owners. */
export type Actor = Pick<User, "admin">;

/** More passwords wait in this process, in all or of one party, than it can check soon: this one was not checked. */
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

/** The user is an administrator of the installation, and the one who asks is not. */
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
