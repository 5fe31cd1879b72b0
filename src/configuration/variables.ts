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
      "Address that the REST API and the metrics port listen on. Unset, gateway and controller listen on all, of IPv6 and IPv4.",
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
      "PostgreSQL (18 or newer) to use. Standalone without it runs a PostgreSQL of its own in the data directory. With `?sslmode=require` or `verify-full` the server's certificate is checked, against Node.js' own authorities (`NODE_EXTRA_CA_CERTS` adds some) or `&sslrootcert=FILE`; `no-verify` encrypts without checking.",
    requiredBy: ["gateway", "controller", "migrate"],
  }),
  databaseConnections: integer({
    name: "CARILLON_DATABASE_CONNECTIONS",
    meaning: "Most PostgreSQL connections in the pool of this process.",
    default: "10",
    least: 2,
    most: 500,
  }),
  dataDir: text({
    name: "CARILLON_DATA_DIR",
    meaning: "Directory of standalone's state.",
    default: { standalone: ".carillon", admin: ".carillon" },
  }),
  encryptionKeys: text({
    name: "CARILLON_ENCRYPTION_KEYS",
    meaning:
      "Key ring for secrets at rest: `id:base64,…`, each key 32 bytes. The first encrypts, all decrypt. Standalone makes one in the data directory (mode 0600).",
    requiredBy: ["gateway", "controller"],
    secret: true,
  }),
  allowDestinations: list({
    name: "CARILLON_ALLOW_DESTINATIONS",
    meaning:
      "Comma-separated `CIDR[:port]` that webhooks and SMTP may reach besides globally routable addresses, on that port or on any. What is set replaces standalone's default: name `127.0.0.0/8,::1/128` too, or the mail catcher is out of reach.",
    default: { standalone: "127.0.0.0/8,::1/128", gateway: "", controller: "" },
  }),
  jobStore: oneOf({
    name: "CARILLON_JOB_STORE",
    meaning:
      "Where jobs live: `kubernetes` (ScheduledJob resources) or `postgres` (a table). All processes of an installation must agree; standalone has only `postgres`.",
    default: { standalone: "postgres", gateway: "kubernetes", controller: "kubernetes" },
    values: ["kubernetes", "postgres"],
  }),
  podName: text({
    name: "POD_NAME",
    meaning: "Identity in the leader election and as a worker.",
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
      "Name of the leader election's Lease: the same for all controllers of an installation, another for each installation in a namespace.",
    default: { controller: "carillon-controller" },
  }),
  watchNamespaces: namespaces({
    name: "CARILLON_WATCH_NAMESPACES",
    meaning:
      "Comma-separated namespaces whose ScheduledJobs are served. Empty: all, which needs cluster-wide rights.",
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
      "`true` or `false`: whether an account's webhooks and SMTP may reach the Services of the namespace that it is bound to, by the name `SERVICE.NAMESPACE.svc`.",
    default: "true",
  }),
  clusterDomain: domain({
    name: "CARILLON_CLUSTER_DOMAIN",
    meaning: "Domain of the cluster's Service names.",
    default: "cluster.local",
  }),
  ehloName: domain({
    name: "CARILLON_EHLO_NAME",
    meaning: "Host name by which mail servers are greeted (`EHLO`), as `mail.example.com`.",
    without:
      "the machine's name if it has a domain, otherwise `[127.0.0.1]`, which some relays refuse",
  }),
  databaseWaitSeconds: integer({
    name: "CARILLON_DATABASE_WAIT_SECONDS",
    meaning:
      "Seconds that `migrate` waits for a PostgreSQL (and, to bind the first account, an API server) that does not answer yet.",
    default: { migrate: "0" },
    least: 0,
    most: 3_600,
  }),
  bootstrapAccount: text({
    name: "CARILLON_BOOTSTRAP_ACCOUNT",
    meaning: "Name of a first account, which `migrate` creates once per database.",
  }),
  bootstrapNamespace: namespace({
    name: "CARILLON_BOOTSTRAP_NAMESPACE",
    meaning: "Kubernetes namespace that the first account is bound to.",
  }),
  bootstrapEmail: text({
    name: "CARILLON_BOOTSTRAP_EMAIL",
    meaning: "Email address of the first account's dashboard user, an administrator.",
    without: "no user",
  }),
  bootstrapPassword: text({
    name: "CARILLON_BOOTSTRAP_PASSWORD",
    meaning: "That user's password.",
    secret: true,
  }),
  logLevel: oneOf({
    name: "CARILLON_LOG_LEVEL",
    meaning: "Least severe level that is logged: `debug`, `info`, `warn`, `error` or `silent`.",
    default: { standalone: "warn", gateway: "info", controller: "info" },
    values: ["debug", "info", "warn", "error", "silent"],
  }),
  logFormat: oneOf({
    name: "CARILLON_LOG_FORMAT",
    meaning: "`json`, `pretty`, or `auto`: pretty in a terminal, otherwise JSON.",
    default: "auto",
    values: ["auto", "json", "pretty"],
  }),
  publicUrl: secureUrl({
    name: "CARILLON_PUBLIC_URL",
    meaning:
      "Where people's browsers reach the gateway: `https://HOST[:PORT]`. Single sign-on sends them back there.",
    path: "none",
  }),
  oidcIssuer: secureUrl({
    name: "CARILLON_OIDC_ISSUER",
    meaning: "Issuer of an OpenID provider that people may sign in to the dashboard through.",
    without: "password only",
    path: "any",
  }),
  oidcClientId: text({
    name: "CARILLON_OIDC_CLIENT_ID",
    meaning: "Client id at that provider.",
  }),
  oidcClientSecret: text({
    name: "CARILLON_OIDC_CLIENT_SECRET",
    meaning: "Client secret at that provider.",
    without: "a public client",
    secret: true,
  }),
  oidcName: text({
    name: "CARILLON_OIDC_NAME",
    meaning: "The provider's name on the button: Sign in with NAME.",
    default: "single sign-on",
  }),
  trustedProxies: list({
    name: "CARILLON_TRUSTED_PROXIES",
    meaning:
      "Comma-separated CIDRs of proxies in front of the gateway: their `X-Forwarded-For` says where a sign-in comes from.",
    default: "",
  }),
  rateLimit: integer({
    name: "CARILLON_RATE_LIMIT",
    meaning: "Requests a second that one API key may make for long, per gateway process.",
    default: "1000",
    least: 1,
    most: 1_000_000,
  }),
  rateLimitBurst: integer({
    name: "CARILLON_RATE_LIMIT_BURST",
    meaning: "Requests that one API key may make at once, per gateway process.",
    default: "2000",
    least: 1,
    most: 10_000_000,
  }),
  retentionDays: integer({
    name: "CARILLON_RETENTION_DAYS",
    meaning:
      "Days that executions and email logs are kept; 0 keeps them for ever. An account may choose less.",
    default: "90",
    least: 0,
    most: 36_500,
  }),
  finishedJobsDays: integer({
    name: "CARILLON_FINISHED_JOBS_DAYS",
    meaning:
      "Days after which a one-time job that REST made and that is over is deleted; 0 keeps it for ever.",
    without: "that of `CARILLON_RETENTION_DAYS`",
    least: 0,
    most: 36_500,
  }),
  deliveryConcurrency: integer({
    name: "CARILLON_DELIVERY_CONCURRENCY",
    meaning: "Most deliveries that one controller process has in flight.",
    default: "512",
    least: 1,
    most: 10_000,
  }),
} as const;
