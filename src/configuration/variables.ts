import { MAX_RETENTION_DAYS } from "../domain/account.ts";
import {
  domain,
  integer,
  list,
  namespace,
  namespaces,
  objectName,
  oneOf,
  postgresUrl,
  secureUrl,
  text,
  yesOrNo,
} from "./variable.ts";

const PORT = { least: 0, most: 65_535 };

/**
 * Every environment variable that Carillon reads. Operators' scripts rely on the names; a new one is
 * added here and nowhere else, and docs/configuration.md is generated from this table.
 */
export const VARIABLES = {
  port: integer({
    name: "PORT",
    meaning: "TCP port of the REST API; 0 lets the system choose.",
    default: "8080",
    ...PORT,
  }),
  host: text({
    name: "CARILLON_HOST",
    meaning:
      "Address that the REST API and the metrics port listen on. Without it, gateway and controller listen on all IPv4 and IPv6 addresses.",
    default: { standalone: "127.0.0.1" },
  }),
  metricsPort: integer({
    name: "CARILLON_METRICS_PORT",
    meaning:
      "TCP port of `/metrics`, `/healthz` and `/readyz` of this process; 0 lets the system choose.",
    default: "9090",
    ...PORT,
  }),
  databaseUrl: postgresUrl({
    name: "DATABASE_URL",
    meaning:
      "URL of the PostgreSQL (18 or newer) to use. Without it, standalone runs its own PostgreSQL in the data directory. `?sslmode=verify-full` (`prefer`, `require` and `verify-ca` mean the same) checks the server's certificate against the authorities that Node.js knows (`NODE_EXTRA_CA_CERTS` adds more) or those in `&sslrootcert=FILE`; `no-verify` encrypts without checking. `&sslcert=FILE&sslkey=FILE` is the certificate that Carillon shows. All files are PEM.",
    requiredBy: ["gateway", "controller", "migrate"],
  }),
  databaseConnections: integer({
    name: "CARILLON_DATABASE_CONNECTIONS",
    meaning:
      "Maximum number of PostgreSQL connections in this process's pool. Runs, leases and notifications take at most 9 more.",
    default: "10",
    least: 2,
    most: 500,
  }),
  dataDir: text({
    name: "CARILLON_DATA_DIR",
    meaning: "Directory in which standalone keeps its state.",
    default: { standalone: ".carillon", admin: ".carillon" },
  }),
  encryptionKeys: text({
    name: "CARILLON_ENCRYPTION_KEYS",
    meaning:
      "Key ring for secrets at rest: comma-separated `id:base64`, each key 32 bytes. The first key encrypts, all keys decrypt. Without it, standalone creates one in the data directory (mode 0600).",
    requiredBy: ["gateway", "controller"],
    secret: true,
  }),
  allowDestinations: list({
    name: "CARILLON_ALLOW_DESTINATIONS",
    meaning:
      "Comma-separated `CIDR[:port]` rules for what webhooks and SMTP may reach besides globally routable addresses; a rule without a port allows every port. A value replaces standalone's default: include `127.0.0.0/8,::1/128`, or the mail catcher becomes unreachable.",
    default: { standalone: "127.0.0.0/8,::1/128", gateway: "", controller: "" },
  }),
  jobStore: oneOf({
    name: "CARILLON_JOB_STORE",
    meaning:
      "Where jobs live: `kubernetes` (ScheduledJob resources) or `postgres` (a table). All processes of an installation must use the same store; standalone supports only `postgres`.",
    default: { standalone: "postgres", gateway: "kubernetes", controller: "kubernetes" },
    values: ["kubernetes", "postgres"],
  }),
  podName: text({
    name: "POD_NAME",
    meaning:
      "Name of this process in the leader election, in its claims of runs and in Kubernetes Events.",
    without: "the host name",
  }),
  podNamespace: namespace({
    name: "POD_NAMESPACE",
    meaning: "Namespace of the leader election's Lease.",
    default: { controller: "default" },
  }),
  leaseName: objectName({
    name: "CARILLON_LEASE_NAME",
    meaning:
      "Name of the leader election's Lease. All controllers of an installation share it; each installation in a namespace needs its own.",
    default: { controller: "carillon-controller" },
  }),
  watchNamespaces: namespaces({
    name: "CARILLON_WATCH_NAMESPACES",
    meaning:
      "Comma-separated namespaces whose ScheduledJobs are served. Empty: all namespaces, which needs cluster-wide rights.",
    default: "",
  }),
  headerSecretNamespaces: namespaces({
    name: "CARILLON_HEADER_SECRET_NAMESPACES",
    meaning:
      "Comma-separated namespaces in which `headersFrom` may read Secrets that carry the label `carillon.dev/webhook-headers=true`.",
    default: "",
  }),
  allowOwnNamespaceServices: yesOrNo({
    name: "CARILLON_ALLOW_OWN_NAMESPACE_SERVICES",
    meaning:
      "`true` or `false`: whether an account's webhooks and SMTP may reach the Services of the account's own namespace, by the name `SERVICE.NAMESPACE.svc`.",
    default: "true",
  }),
  clusterDomain: domain({
    name: "CARILLON_CLUSTER_DOMAIN",
    meaning: "DNS domain of the cluster's Services.",
    default: "cluster.local",
  }),
  ehloName: domain({
    name: "CARILLON_EHLO_NAME",
    meaning:
      "Host name that Carillon gives to mail servers in `EHLO`, for example `mail.example.com`.",
    without:
      "the machine's host name if it has a domain, otherwise `[127.0.0.1]`, which some relays refuse",
  }),
  databaseWaitSeconds: integer({
    name: "CARILLON_DATABASE_WAIT_SECONDS",
    meaning:
      "Seconds that `migrate` waits for PostgreSQL to answer, and for the API server when it binds the first account.",
    default: { migrate: "0" },
    least: 0,
    most: 3_600,
  }),
  bootstrapAccount: text({
    name: "CARILLON_BOOTSTRAP_ACCOUNT",
    meaning: "Name of the first account, which `migrate` creates once per database.",
  }),
  bootstrapNamespace: namespace({
    name: "CARILLON_BOOTSTRAP_NAMESPACE",
    meaning: "Kubernetes namespace to bind the first account to.",
  }),
  bootstrapEmail: text({
    name: "CARILLON_BOOTSTRAP_EMAIL",
    meaning: "Email address of the first account's dashboard user, who is an administrator.",
    without: "no user",
  }),
  bootstrapPassword: text({
    name: "CARILLON_BOOTSTRAP_PASSWORD",
    meaning: "Password of the first account's dashboard user.",
    secret: true,
  }),
  logLevel: oneOf({
    name: "CARILLON_LOG_LEVEL",
    meaning: "Lowest level to log: `debug`, `info`, `warn`, `error` or `silent`.",
    default: { standalone: "warn", gateway: "info", controller: "info" },
    values: ["debug", "info", "warn", "error", "silent"],
  }),
  logFormat: oneOf({
    name: "CARILLON_LOG_FORMAT",
    meaning:
      "Format of the log: `json`, `pretty`, or `auto` (pretty in a terminal, otherwise JSON).",
    default: "auto",
    values: ["auto", "json", "pretty"],
  }),
  publicUrl: secureUrl({
    name: "CARILLON_PUBLIC_URL",
    meaning:
      "Address at which browsers reach the gateway: `https://HOST[:PORT]`. Single sign-on requires it and redirects browsers to it.",
    path: "none",
  }),
  oidcIssuer: secureUrl({
    name: "CARILLON_OIDC_ISSUER",
    meaning: "Issuer URL of the OpenID provider through which users may sign in to the dashboard.",
    without: "sign-in with a password only",
    path: "any",
  }),
  oidcClientId: text({
    name: "CARILLON_OIDC_CLIENT_ID",
    meaning: "Client ID at the OpenID provider.",
  }),
  oidcClientSecret: text({
    name: "CARILLON_OIDC_CLIENT_SECRET",
    meaning: "Client secret at the OpenID provider.",
    without: "none (public client)",
    secret: true,
  }),
  oidcName: text({
    name: "CARILLON_OIDC_NAME",
    meaning: "Name of the OpenID provider on the sign-in button: Sign in with NAME.",
    default: "single sign-on",
  }),
  trustedProxies: list({
    name: "CARILLON_TRUSTED_PROXIES",
    meaning:
      "Comma-separated CIDRs of the proxies in front of the gateway, whose `X-Forwarded-For` headers are trusted to name the client that signs in.",
    default: "",
  }),
  rateLimit: integer({
    name: "CARILLON_RATE_LIMIT",
    meaning: "Sustained requests per second for one API key, per gateway process.",
    default: "1000",
    least: 1,
    most: 1_000_000,
  }),
  rateLimitBurst: integer({
    name: "CARILLON_RATE_LIMIT_BURST",
    meaning: "Requests that one API key may make in a burst, per gateway process.",
    default: "2000",
    least: 1,
    most: 10_000_000,
  }),
  retentionDays: integer({
    name: "CARILLON_RETENTION_DAYS",
    meaning:
      "Days that executions and email logs are kept; 0 keeps them for ever. An account may choose fewer days.",
    default: "90",
    least: 0,
    most: MAX_RETENTION_DAYS,
  }),
  finishedJobsDays: integer({
    name: "CARILLON_FINISHED_JOBS_DAYS",
    meaning:
      "Days after which a finished one-time job that was created through REST is deleted; 0 keeps such jobs for ever.",
    without: "the value of `CARILLON_RETENTION_DAYS`",
    least: 0,
    most: MAX_RETENTION_DAYS,
  }),
  deliveryConcurrency: integer({
    name: "CARILLON_DELIVERY_CONCURRENCY",
    meaning:
      "Maximum number of deliveries that one controller process has in flight: half of them for one account, and no more than 160 to one destination.",
    default: "512",
    least: 1,
    most: 10_000,
  }),
} as const;
