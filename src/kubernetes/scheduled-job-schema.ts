import { Type } from "typebox";
import { CRON_MACROS } from "../domain/cron/grammar.ts";
import { SPEC_DEFAULTS } from "../domain/job.ts";
import * as field from "../domain/schema/fields.ts";
import {
  RESERVED_WEBHOOK_HEADERS,
  RESERVED_WEBHOOK_HEADER_PREFIXES,
  WEBHOOK_HEADER_VALUE_RULE,
} from "../domain/webhook-headers.ts";
import { celString, type Validation } from "./structural-schema.ts";

/**
 * The ScheduledJob's schema. Fields, limits and words are the REST API's (src/domain/schema). What a schema cannot
 * say is a CEL rule, so that the API server refuses it at `kubectl apply`, and not only a status says so later.
 */

const { LIMITS } = field;

function rules(...validations: readonly [rule: string, message: string][]) {
  return {
    "x-kubernetes-validations": validations.map(([rule, message]): Validation => ({
      rule,
      message,
    })),
  };
}

const matches = (pattern: string, subject = "self") => `${subject}.matches(${celString(pattern)})`;

/** The description of a schema: TypeBox's types do not show the options that it was made with. */
function words(schema: object): string {
  if ("description" in schema && typeof schema.description === "string") return schema.description;
  throw new Error("a field of the REST API has lost its description");
}

const NAMES = [
  "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec",
  "sun|mon|tue|wed|thu|fri|sat",
].join("|");

const cron = Type.String({
  minLength: 1,
  maxLength: LIMITS.cron,
  description: words(field.cronExpression),
  ...rules(
    [
      `!self.startsWith('@') || self in [${CRON_MACROS.map(celString).join(", ")}]`,
      `the macros are ${CRON_MACROS.join(", ")}; write any other schedule as five fields`,
    ],
    [
      `self.startsWith('@') || ${matches("^[^ ]+( +[^ ]+){4}$")}`,
      "must have five fields separated by spaces: minute hour day-of-month month day-of-week, for example 0 3 * * *; seconds and time zones do not belong in it (use timeZone)",
    ],
    [
      `self.startsWith('@') || !${matches("^[^ ]+( +[^ ]+){4}$")} || ${matches(`(?i)^([0-9*,/ -]|${NAMES})+$`)}`,
      "may hold numbers, month and day names, and * , - / only: L, W, #, ? and H are not supported",
    ],
  ),
});

const at = Type.String({
  minLength: 1,
  maxLength: LIMITS.runAt,
  description: "RFC 3339 time with offset at which the job runs once.",
  ...rules([
    `${matches("^(19[7-9][0-9]|[2-9][0-9]{3})-[0-9]{2}-[0-9]{2}[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$")} && !format.datetime().validate(self).hasValue()`,
    "must be an RFC 3339 time with offset that exists, from 1970 on, for example 2030-01-31T09:00:00Z",
  ]),
});

const timeZone = Type.String({
  minLength: 1,
  maxLength: LIMITS.timeZone,
  description: `${words(field.timeZone)} Default: ${SPEC_DEFAULTS.timeZone}.`,
  ...rules([
    `self != 'Local' && ${matches("(?i)^[a-z][a-z0-9_+-]*(/[a-z0-9_+-]+){0,2}$")}`,
    "must be the name of an IANA time zone, for example Europe/Paris or UTC",
  ]),
});

const schedule = Type.Object(
  { cron: Type.Optional(cron), timeZone: Type.Optional(timeZone), at: Type.Optional(at) },
  {
    description: "When the job runs: cron for a recurring job, or at for a single run.",
    ...rules(
      [
        "has(self.cron) != has(self.at)",
        "set exactly one of cron (a recurring job) and at (a single run)",
      ],
      [
        "!has(self.timeZone) || has(self.cron)",
        "timeZone goes with cron; at carries its own offset, so remove timeZone",
      ],
    ),
  },
);

/** CEL: the header name in variable `name`, in any case, is not reserved. */
function notReserved(name: string): string {
  const listed = [...RESERVED_WEBHOOK_HEADERS].map(celString).join(", ");
  const prefixes = RESERVED_WEBHOOK_HEADER_PREFIXES.join("|");
  return `!(${name}.lowerAscii() in [${listed}]) && !${matches(`(?i)^(${prefixes})`, name)}`;
}
const sameHeader = (one: string, other: string) => `${one}.lowerAscii() == ${other}.lowerAscii()`;
const RESERVED_MESSAGE =
  "sets a reserved header: those that frame, identify or sign the call (Host, Content-Type, User-Agent, webhook-*, Carillon-*, Proxy-*, Sec-*, …) are ours; remove it";
const HEADER_NAME = `^${field.HEADER_NAME_CHARACTER}{1,${LIMITS.headerName}}$`;

const headers = Type.Unsafe<Record<string, string>>({
  ...field.webhookHeaders,
  ...rules(
    [
      `self.all(name, ${matches(HEADER_NAME, "name")})`,
      "a name is not a valid header name: use letters, digits and hyphens, at most 128",
    ],
    [`self.all(name, ${notReserved("name")})`, RESERVED_MESSAGE],
    [
      `self.all(name, self.exists_one(other, ${sameHeader("other", "name")}))`,
      "a header is given twice, in two spellings; keep one of them",
    ],
    [
      `self.all(name, ${matches(field.HEADER_VALUE, "self[name]")})`,
      `a value ${WEBHOOK_HEADER_VALUE_RULE}`,
    ],
  ),
});

const secretKeyRef = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: 253,
      description: "Name of a Secret in the job's namespace.",
      ...rules([
        matches("^[a-z0-9.-]+$"),
        "must be the name of a Secret: lowercase letters, digits, - and .",
      ]),
    }),
    key: Type.String({
      minLength: 1,
      maxLength: 253,
      description: "Key in the Secret's data.",
      ...rules([
        matches("^[A-Za-z0-9._-]+$"),
        "must be a key that a Secret can have: letters, digits, -, _ and .",
      ]),
    }),
  },
  {
    description:
      "Where the value is. The Secret must have the label carillon.dev/webhook-headers=true.",
  },
);

const headersFrom = Type.Array(
  Type.Object({
    header: Type.String({
      minLength: 1,
      maxLength: LIMITS.headerName,
      description: "Name of the request header.",
      ...rules(
        [
          matches(HEADER_NAME),
          "must be a valid header name: letters, digits and hyphens, at most 128",
        ],
        [notReserved("self"), RESERVED_MESSAGE],
      ),
    }),
    secretKeyRef,
  }),
  {
    maxItems: LIMITS.headers,
    ...rules([
      `self.all(from, self.exists_one(other, ${sameHeader("other.header", "from.header")}))`,
      "a header is given twice, in two spellings; keep one of them",
    ]),
    description:
      "Request headers whose values are read from Secrets at each attempt. Each Secret must have the label carillon.dev/webhook-headers=true, and the installation must be allowed to read Secrets in this namespace.",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["header"],
  },
);

const webhook = Type.Object(
  {
    url: Type.String({
      minLength: 1,
      maxLength: LIMITS.url,
      description: words(field.webhookUrl),
      ...rules(
        [
          matches("(?i)^https?://[^/?#]"),
          "must be an absolute URL that begins with http:// or https://",
        ],
        [
          `!${matches("^[^:]*://[^/?#]*@")}`,
          "must not contain user info; put credentials into headersFrom or headers",
        ],
        [
          `!${matches("[\\x{00}-\\x{20}\\x{7f}-\\x{a0}]")}`,
          "must not contain spaces or control characters; percent-encode them",
        ],
      ),
    }),
    payload: Type.Optional(
      Type.Unsafe<Record<string, unknown>>({
        type: "object",
        description: words(field.webhookPayload),
        "x-kubernetes-preserve-unknown-fields": true,
        // Replaced as a whole, as by REST: an apply never mixes it with what somebody else wrote.
        "x-kubernetes-map-type": "atomic",
      }),
    ),
    headers: Type.Optional(headers),
    headersFrom: Type.Optional(headersFrom),
    timeoutSeconds: Type.Optional(field.timeoutSeconds),
  },
  {
    description: "Calls a URL with POST. Set exactly one of webhook and email.",
    ...rules([
      `!has(self.headers) || !has(self.headersFrom) || self.headersFrom.all(from, !self.headers.exists(name, ${sameHeader("name", "from.header")}))`,
      "a header is in both headers and headersFrom; keep one of them",
    ]),
  },
);

const email = Type.Object(
  {
    to: Type.String({
      ...field.address,
      ...rules([
        matches('^[^\\s\\x{00}@<>(),;:"\\\\\\[\\]]+@[^\\s\\x{00}@<>(),;:"\\\\\\[\\]]+$'),
        "must be one plain address such as ada@example.com: no display name, no list",
      ]),
    }),
    subject: field.subject,
    body: field.emailBody,
    isHtml: Type.Optional(field.isHtml),
  },
  {
    description:
      "Sends an email through the account's SMTP server. Set exactly one of webhook and email.",
  },
);

const retry = Type.Object(
  {
    maxRetries: Type.Optional(field.maxRetries),
    minBackoffSeconds: Type.Optional(field.minBackoffSeconds),
    maxBackoffSeconds: Type.Optional(field.maxBackoffSeconds),
  },
  {
    description: "Whether and when a failed attempt is retried.",
    default: {},
    ...rules([
      "!has(self.minBackoffSeconds) || !has(self.maxBackoffSeconds) || self.minBackoffSeconds <= self.maxBackoffSeconds",
      "minBackoffSeconds must not exceed maxBackoffSeconds; lower the one or raise the other",
    ]),
  },
);

export const scheduledJobSpec = Type.Object(
  {
    displayName: Type.Optional(
      Type.String({
        ...field.jobName,
        description: "Friendly name, the REST API's `name`. Default: the resource's name.",
      }),
    ),
    schedule,
    webhook: Type.Optional(webhook),
    email: Type.Optional(email),
    suspend: Type.Optional(
      Type.Boolean({
        description:
          "While true, no scheduled run is created or started. An attempt already in progress continues but is not retried.",
        default: false,
      }),
    ),
    startingDeadlineSeconds: Type.Optional(field.startingDeadlineSeconds),
    deliveryDeadlineSeconds: Type.Optional(field.deliveryDeadlineSeconds),
    concurrencyPolicy: Type.Optional(field.concurrencyPolicy),
    retry: Type.Optional(retry),
  },
  {
    description:
      "Desired state of the job. The REST API may write it too; the controller never does.",
    ...rules([
      "has(self.webhook) != has(self.email)",
      "set exactly one of webhook and email: it says what a run does",
    ]),
  },
);
