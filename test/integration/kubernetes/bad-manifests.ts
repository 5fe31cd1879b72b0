/** Manifests with one mistake each, which `kubectl apply` must refuse, and what it must say. */
export interface BadManifest {
  title: string;
  /** Replaces fields of a good manifest's spec; undefined removes a field. */
  spec: Record<string, unknown>;
  metadata?: Record<string, unknown>;
  message: string;
}

const CRON = { cron: "0 3 * * *" };
const URL = "https://example.com/hook";
const webhook = (change: Record<string, unknown>) => ({ webhook: { url: URL, ...change } });
const cron = (expression: unknown) => ({ schedule: { cron: expression } });
const at = (time: unknown) => ({ schedule: { at: time } });
const email = (change: Record<string, unknown>) => ({
  webhook: undefined,
  email: { to: "ada@example.com", subject: "S", body: "B", ...change },
});
const header = (name: string, value = "x") => webhook({ headers: { [name]: value } });
const secretKeyRef = { name: "token", key: "value" };

const FIVE_FIELDS =
  "must have five fields separated by spaces: minute hour day-of-month month day-of-week";
const CRON_CHARACTERS = "L, W, #, ? and H are not supported";
const TIME =
  "must be an RFC 3339 time with offset that exists, from 1970 on, for example 2030-01-31T09:00:00Z";
const ZONE = "must be the name of an IANA time zone, for example Europe/Paris or UTC";
const ABSOLUTE = "must be an absolute URL that begins with http:// or https://";
const ADDRESS = "must be one plain address such as ada@example.com: no display name, no list";
const RESERVED = "sets a reserved header";
const HEADER_NAME = "a name is not a valid header name";
const HEADER_VALUE = "a value must be printable ASCII without line breaks";

export const BAD_MANIFESTS: readonly BadManifest[] = [
  // Schedule
  { title: "no schedule", spec: { schedule: undefined }, message: "spec.schedule: Required value" },
  { title: "an empty schedule", spec: { schedule: {} }, message: "set exactly one of cron" },
  {
    title: "cron and at",
    spec: { schedule: { ...CRON, at: "2035-01-01T00:00:00Z" } },
    message: "set exactly one of cron (a recurring job) and at (a single run)",
  },
  { title: "an empty cron", spec: cron(""), message: "should be at least 1 chars long" },
  {
    title: "a cron of 257 characters",
    spec: cron(`${"0,".repeat(124)}0 * * * *`),
    message: "Too long",
  },
  { title: "cron of four fields", spec: cron("0 3 * *"), message: FIVE_FIELDS },
  { title: "cron with seconds", spec: cron("0 0 3 * * *"), message: FIVE_FIELDS },
  { title: "cron with a tab", spec: cron("0\t3 * * *"), message: FIVE_FIELDS },
  { title: "cron with a line break", spec: cron("0 3 * * *\n"), message: CRON_CHARACTERS },
  { title: "cron with a space in front", spec: cron(" 0 3 * * *"), message: FIVE_FIELDS },
  { title: "cron with CRON_TZ", spec: cron("CRON_TZ=UTC 0 3 * * *"), message: FIVE_FIELDS },
  { title: "cron with L", spec: cron("0 3 L * *"), message: CRON_CHARACTERS },
  { title: "cron with W", spec: cron("0 3 15W * *"), message: CRON_CHARACTERS },
  { title: "cron with #", spec: cron("0 3 * * MON#1"), message: CRON_CHARACTERS },
  { title: "cron with ?", spec: cron("0 3 ? * *"), message: CRON_CHARACTERS },
  { title: "cron with H", spec: cron("H 3 * * *"), message: CRON_CHARACTERS },
  {
    title: "an unknown macro",
    spec: cron("@reboot"),
    message: "the macros are @yearly, @annually",
  },
  { title: "a cron that is a number", spec: cron(5), message: "must be of type string" },
  {
    title: "a zone with at",
    spec: { schedule: { at: "2035-01-01T00:00:00Z", timeZone: "UTC" } },
    message: "at carries its own offset, so remove timeZone",
  },
  { title: "the zone Local", spec: { schedule: { ...CRON, timeZone: "Local" } }, message: ZONE },
  { title: "a zone as offset", spec: { schedule: { ...CRON, timeZone: "+02:00" } }, message: ZONE },
  { title: "at in words", spec: at("tomorrow"), message: TIME },
  { title: "at without offset", spec: at("2035-01-01T00:00:00"), message: TIME },
  { title: "at without time", spec: at("2035-01-01"), message: TIME },
  { title: "at on 30 February", spec: at("2035-02-30T00:00:00Z"), message: TIME },
  { title: "at 25 o'clock", spec: at("2035-01-01T25:00:00Z"), message: TIME },
  { title: "at an offset of a day", spec: at("2035-01-01T00:00:00+24:00"), message: TIME },
  { title: "at in the year 0", spec: at("0000-01-01T00:00:00Z"), message: TIME },

  // What a run does
  {
    title: "neither webhook nor email",
    spec: { webhook: undefined },
    message: "set exactly one of webhook and email: it says what a run does",
  },
  {
    title: "webhook and email",
    spec: { email: { to: "ada@example.com", subject: "S", body: "B" } },
    message: "set exactly one of webhook and email: it says what a run does",
  },
  { title: "a webhook without URL", spec: { webhook: {} }, message: "spec.webhook.url: Required" },
  { title: "a relative URL", spec: { webhook: { url: "/hook" } }, message: ABSOLUTE },
  { title: "ftp", spec: { webhook: { url: "ftp://example.com/" } }, message: ABSOLUTE },
  { title: "a URL without host", spec: { webhook: { url: "https:///a" } }, message: ABSOLUTE },
  {
    title: "user info",
    spec: { webhook: { url: "https://ada:secret@example.com/" } },
    message: "must not contain user info; put credentials into headersFrom or headers",
  },
  {
    title: "a URL with a space",
    spec: { webhook: { url: "https://example.com/a b" } },
    message: "must not contain spaces or control characters; percent-encode them",
  },
  {
    title: "a URL with a space that is none in ASCII",
    spec: { webhook: { url: "https://example.com/a\u00a0b" } },
    message: "must not contain spaces or control characters; percent-encode them",
  },
  {
    title: "a URL of 2,049 characters",
    spec: { webhook: { url: `https://example.com/${"a".repeat(2_029)}` } },
    message: "Too long: may not be more than 2048",
  },
  {
    title: "a payload that is a list",
    spec: webhook({ payload: [1] }),
    message: "must be of type object",
  },
  { title: "a reserved header", spec: header("Host"), message: RESERVED },
  { title: "a reserved header, shouted", spec: header("CONTENT-TYPE"), message: RESERVED },
  { title: "a header of ours", spec: header("Carillon-Attempt"), message: RESERVED },
  { title: "a signature", spec: header("webhook-signature"), message: RESERVED },
  { title: "a header with a space", spec: header("X Team"), message: HEADER_NAME },
  {
    title: "a value with a line break",
    spec: header("X-Team", "a\r\nHost: b"),
    message: HEADER_VALUE,
  },
  { title: "a value with an umlaut", spec: header("X-Team", "ü"), message: HEADER_VALUE },
  {
    title: "33 headers",
    spec: webhook({
      headers: Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`x-${i}`, "a"])),
    }),
    message: "must have at most 32 items",
  },
  {
    title: "a header given twice",
    spec: webhook({
      headers: { Authorization: "a" },
      headersFrom: [{ header: "Authorization", secretKeyRef }],
    }),
    message: "a header is in both headers and headersFrom; keep one of them",
  },
  {
    title: "a header in two spellings",
    spec: webhook({ headers: { Authorization: "a", authorization: "b" } }),
    message: "a header is given twice, in two spellings; keep one of them",
  },
  {
    title: "a header given twice, in two spellings",
    spec: webhook({
      headers: { Authorization: "a" },
      headersFrom: [{ header: "authorization", secretKeyRef }],
    }),
    message: "a header is in both headers and headersFrom; keep one of them",
  },
  {
    title: "a header from two Secrets, in two spellings",
    spec: webhook({
      headersFrom: [
        { header: "Authorization", secretKeyRef },
        { header: "AUTHORIZATION", secretKeyRef },
      ],
    }),
    message: "a header is given twice, in two spellings; keep one of them",
  },
  {
    title: "a header from two Secrets",
    spec: webhook({
      headersFrom: [
        { header: "Authorization", secretKeyRef },
        { header: "Authorization", secretKeyRef },
      ],
    }),
    message: "Duplicate value",
  },
  {
    title: "a reserved header from a Secret",
    spec: webhook({ headersFrom: [{ header: "User-Agent", secretKeyRef }] }),
    message: RESERVED,
  },
  {
    title: "a Secret without key",
    spec: webhook({ headersFrom: [{ header: "Authorization", secretKeyRef: { name: "a" } }] }),
    message: "secretKeyRef.key: Required value",
  },
  {
    title: "NUL in a Secret's name",
    spec: webhook({
      headersFrom: [{ header: "Authorization", secretKeyRef: { name: "a\0b", key: "c" } }],
    }),
    message: "must be the name of a Secret",
  },
  {
    title: "NUL in a Secret's key",
    spec: webhook({
      headersFrom: [{ header: "Authorization", secretKeyRef: { name: "a", key: "b\0c" } }],
    }),
    message: "must be a key that a Secret can have",
  },
  {
    title: "no time at all",
    spec: webhook({ timeoutSeconds: 0 }),
    message: "should be greater than or equal to 1",
  },
  {
    title: "too much time",
    spec: webhook({ timeoutSeconds: 301 }),
    message: "should be less than or equal to 300",
  },
  {
    title: "an address with a name",
    spec: email({ to: "Ada <ada@example.com>" }),
    message: ADDRESS,
  },
  {
    title: "two addresses",
    spec: email({ to: "ada@example.com,bob@example.com" }),
    message: ADDRESS,
  },
  { title: "NUL in an address", spec: email({ to: "ada\0@example.com" }), message: ADDRESS },
  { title: "no address", spec: email({ to: undefined }), message: "spec.email.to: Required value" },
  {
    title: "an empty subject",
    spec: email({ subject: "" }),
    message: "should be at least 1 chars long",
  },
  {
    title: "a subject of two lines",
    spec: email({ subject: "a\nBcc: eve@example.com" }),
    message: "must be one line without control characters",
  },
  {
    title: "a subject of 999 characters",
    spec: email({ subject: "a".repeat(999) }),
    message: "Too long",
  },
  {
    title: "NUL in the body",
    spec: email({ body: "a\0b" }),
    message: "must not contain NUL",
  },
  {
    title: "no body",
    spec: email({ body: undefined }),
    message: "spec.email.body: Required value",
  },

  // The rest
  {
    title: "a name of 256 characters",
    spec: { displayName: "a".repeat(256) },
    message: "Too long",
  },
  {
    title: "a name of spaces",
    spec: { displayName: " \u3000" },
    message: "and more than spaces",
  },
  {
    title: "a name with a control character",
    spec: { displayName: "a\u0007b" },
    message: "one line without control characters",
  },
  {
    title: "a name of two lines",
    spec: { displayName: "a\nb" },
    message: "must be one line without control characters",
  },
  {
    title: "an unknown policy",
    spec: { concurrencyPolicy: "Queue" },
    message: 'supported values: "Allow", "Forbid", "Replace"',
  },
  { title: "suspend in words", spec: { suspend: "yes" }, message: "must be of type boolean" },
  {
    title: "11 retries",
    spec: { retry: { maxRetries: 11 } },
    message: "should be less than or equal to 10",
  },
  {
    title: "backoff upside down",
    spec: { retry: { minBackoffSeconds: 60, maxBackoffSeconds: 30 } },
    message:
      "minBackoffSeconds must not exceed maxBackoffSeconds; lower the one or raise the other",
  },
  {
    title: "a first backoff above the default bound",
    spec: { retry: { minBackoffSeconds: 3_601 } },
    message: "minBackoffSeconds must not exceed maxBackoffSeconds",
  },
  {
    title: "a deadline of nothing",
    spec: { startingDeadlineSeconds: 0 },
    message: "should be greater than or equal to 1",
  },
  {
    title: "a deadline with a fraction",
    spec: { deliveryDeadlineSeconds: 1.5 },
    message: "must be of type integer",
  },
  {
    title: "a misspelt field",
    spec: { concurencyPolicy: "Allow" },
    message: 'unknown field "spec.concurencyPolicy"',
  },
  {
    title: "a field of the REST API",
    spec: { cron_expression: "0 3 * * *" },
    message: 'unknown field "spec.cron_expression"',
  },
  {
    title: "a name that no resource can have",
    spec: {},
    metadata: { name: "Nightly_Report" },
    message: "a lowercase RFC 1123 subdomain must consist of",
  },
];
