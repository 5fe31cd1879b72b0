import type { Instant } from "./instant.ts";

/** A hundred years: more days of history than that are no limit. */
export const MAX_RETENTION_DAYS = 36_500;
/** From sign-in; use does not prolong a session. */
export const SESSION_DAYS = 7;
export const INVITATION_DAYS = 7;
/** Characters. */
export const MAX_PASSWORD = 256;

/** A tenant. On Kubernetes bound to one namespace, by name and uid. */
export interface Account {
  id: string;
  name: string;
  namespace: string | null;
  namespaceUid: string | null;
  /** Days that executions and logs are kept; null: the installation's maximum. */
  retentionDays: number | null;
  timeZone: string;
  createdAt: Instant;
  deletedAt: Instant | null;
}

export interface ApiKey {
  id: string;
  label: string;
  /** The first characters of the raw key, enough to recognise it. */
  prefix: string;
  createdAt: Instant;
  lastUsedAt: Instant | null;
}

export type TlsMode = "starttls" | "implicit" | "none";

export interface SmtpSettings {
  host: string;
  port: number;
  username: string | null;
  password: string | null;
  from: string;
  tls: TlsMode;
  /** Changes with every write: a transport pool built from an older revision is closed. */
  revision: string;
}

const HOST_NAME = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/i;
const IPV6 = /^(?:[0-9a-f:.]+|\[[0-9a-f:.]+\])$/i;

/** Null for a host name or an address literal; what it leads to is checked when it is dialled. */
export function smtpHostProblem(text: string): string | null {
  if (HOST_NAME.test(text)) return null;
  if (IPV6.test(text) && URL.canParse(`http://[${text.replaceAll(/[[\]]/g, "")}]`)) return null;
  return "must be the server's name or address alone, such as smtp.example.com: no scheme, no port";
}

export type UserRole = "owner" | "member";

export interface User {
  id: string;
  account: string;
  email: string;
  role: UserRole;
  /** May create accounts and bind namespaces. */
  admin: boolean;
  /** False: signs in through the OpenID provider only. */
  hasPassword: boolean;
  createdAt: Instant;
}
