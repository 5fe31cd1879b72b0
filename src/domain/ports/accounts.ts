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
  /** Keys stop at once, queued runs are cancelled; rows are purged after 30 days. */
  delete(id: string): Promise<void>;
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

export interface ApiKeys {
  /** The raw key is returned here and never again; only its SHA-256 is stored. */
  create(account: string, label: string): Promise<{ key: ApiKey; raw: string }>;
  list(account: string): Promise<ApiKey[]>;
  delete(account: string, id: string): Promise<boolean>;
  /** The key and its live account. `lastUsedAt` is written at most once a minute, never on the hot path. */
  authenticate(raw: string): Promise<{ keyId: string; account: string } | undefined>;
}

export interface SmtpSettingsStore {
  get(account: string): Promise<SmtpSettings | undefined>;
  /** Cheap: the revision alone, to know whether an open transport pool is still right. */
  revision(account: string): Promise<string | undefined>;
  set(account: string, settings: Omit<SmtpSettings, "revision">): Promise<void>;
  delete(account: string): Promise<void>;
}

export interface SigningSecrets {
  /** Newest first; all of them sign. Made on first use. Each `whsec_` + base64. */
  current(account: string): Promise<string[]>;
  /** A new one signs at once; the old one goes on signing until `oldValidUntil`. */
  rotate(account: string): Promise<{ secret: string; oldValidUntil: Instant }>;
}

export interface Users {
  create(input: {
    account: string;
    email: string;
    password: string;
    role?: UserRole;
    admin?: boolean;
  }): Promise<User>;
  /** Constant time whether or not the user exists. */
  verify(email: string, password: string): Promise<User | undefined>;
  get(id: string): Promise<User | undefined>;
  list(account: string): Promise<User[]>;
  setPassword(id: string, password: string): Promise<void>;
  /** Undefined: the account has no such user. Throws LastOwner. */
  setRole(account: string, id: string, role: UserRole): Promise<User | undefined>;
  /** False: the account has no such user. Throws LastOwner. */
  delete(account: string, id: string): Promise<boolean>;
}

/** The account would be left without an owner. */
export class LastOwner extends Error {
  override name = "LastOwner";
  constructor() {
    super("the user is the account's last owner");
  }
}

export interface Sessions {
  /** The raw token is for the cookie; its hash is stored. */
  create(user: string): Promise<{ token: string; expiresAt: Instant }>;
  /** `fresh`: the user signed in within the last ten minutes. */
  authenticate(
    token: string,
  ): Promise<{ user: User; sessionId: string; fresh: boolean } | undefined>;
  delete(token: string): Promise<void>;
  deleteAll(user: string): Promise<void>;
}
