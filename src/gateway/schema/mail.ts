import { Type, type Static } from "typebox";
import { MAIL_KINDS, MAIL_STATUSES, OTP_MINUTES } from "../../domain/mail.ts";
import * as field from "../../domain/schema/fields.ts";
import { LIMITS } from "../../domain/schema/fields.ts";
import { NO_NUL, paging, timestamp } from "./answers.ts";

/**
 * What cannot be folded into lines: a word that is too long for one (RFC 5322, 2.1.1) with the space that begins a
 * folded line and the brackets that message ids get; and spaces that fill a line, which then looks like the end of the
 * headers (3.2.2).
 */
export const NOT_FOLDABLE = "[!-~]{996}| {70}";

/** The limit for both together cannot be said in a schema. */
const recipients = (description: string, other: "cc" | "bcc") =>
  Type.Optional(
    Type.Array(field.address, {
      maxItems: LIMITS.recipients,
      description: `${description} Together with \`${other}\` at most ${LIMITS.recipients}.`,
      default: [],
    }),
  );

const attachment = Type.Object(
  {
    filename: Type.String({
      minLength: 1,
      maxLength: LIMITS.attachmentName,
      pattern: "^[^\\u0000-\\u001f\\u007f/\\\\]+$",
      "x-rule": "must be a file name without path separators or control characters",
      description: "Name that the recipient sees.",
      examples: ["invoice.pdf"],
    }),
    content: Type.String({
      description: "The file in base64 (RFC 4648, section 4, padded, no line breaks).",
      "x-documented": {
        contentEncoding: "base64",
        maxLength: LIMITS.attachmentsBytes,
        pattern: "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
      },
      examples: ["SGVsbG8="],
    }),
    content_type: Type.Optional(
      Type.String({
        maxLength: 127,
        // A multipart part would have parts instead of content.
        pattern:
          "^(?![Mm][Uu][Ll][Tt][Ii][Pp][Aa][Rr][Tt]/)[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+$",
        "x-rule": "must be a media type such as application/pdf, and not multipart",
        description:
          "Media type; derived from the file name if absent. A `message/…` attachment with content other than 7-bit lines is sent as `application/octet-stream`, because mail would not carry it unchanged.",
        examples: ["application/pdf"],
      }),
    ),
  },
  { additionalProperties: false },
);

const SENDER = "the sender is the From address of the account's SMTP settings";
const TEXT = "the text goes into body; is_html: true says that it is HTML";

export const sendRequest = Type.Object(
  {
    to: field.address,
    subject: field.subject,
    // `mailMessage` counts its bytes: a validator takes too long to count characters in megabytes.
    body: Type.String({
      "x-documented": { minLength: 1, maxLength: LIMITS.sendBodyBytes, ...NO_NUL },
      description: "Plain text or HTML, at most 5 MiB.",
      examples: ["Hello, and welcome."],
    }),
    is_html: Type.Optional(field.isHtml),
    cc: recipients("Further recipients, visible to all.", "bcc"),
    bcc: recipients("Further recipients, hidden from the others.", "cc"),
    reply_to: Type.Optional(field.address),
    headers: Type.Optional(
      Type.Unsafe<Record<string, string>>({
        type: "object",
        additionalProperties: {
          type: "string",
          maxLength: LIMITS.headerValue,
          "x-documented": {
            minLength: 1,
            pattern: `^(?=.*[^${field.SPACES}])(?!.*(${NOT_FOLDABLE}))[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$`,
          },
        },
        maxProperties: LIMITS.headers,
        "x-documented": {
          propertyNames: { pattern: field.HEADER_NAME, maxLength: LIMITS.headerName },
        },
        description:
          "Additional headers of the message. Headers that address, identify, structure or authenticate the message are refused.",
        examples: [{ "X-Campaign": "spring" }],
      }),
    ),
    attachments: Type.Optional(
      Type.Array(attachment, {
        maxItems: LIMITS.attachments,
        description: "At most 10 MiB of base64 in total.",
        default: [],
      }),
    ),
  },
  {
    additionalProperties: false,
    "x-elsewhere": { from: SENDER, sender: SENDER, from_name: SENDER, html: TEXT, text: TEXT },
    examples: [{ to: "ada@example.com", subject: "Welcome", body: "Hello, and welcome." }],
  },
);
export type SendRequest = Static<typeof sendRequest>;

export const sendAnswer = Type.Object(
  {
    id: Type.String({ description: "Identifier of the log entry." }),
    to: Type.String(),
    subject: Type.String(),
    status: field.oneOf(["sent"]),
    sent_at: timestamp("When the SMTP server accepted the message."),
  },
  {
    examples: [
      {
        id: "0199c1d2-7f3a-7c55-9f0e-2b6d0c5a1e11",
        to: "ada@example.com",
        subject: "Welcome",
        status: "sent",
        sent_at: "2026-11-21T12:00:00.000Z",
      },
    ],
  },
);

export const otpSendRequest = Type.Object(
  { to: field.address },
  { additionalProperties: false, examples: [{ to: "ada@example.com" }] },
);
export type OtpSendRequest = Static<typeof otpSendRequest>;

export const otpSendAnswer = Type.Object(
  {
    message: Type.String(),
    expires_at: timestamp(`${OTP_MINUTES} minutes after issue.`),
  },
  { examples: [{ message: "OTP sent", expires_at: "2026-11-21T12:10:00.000Z" }] },
);

export const otpVerifyRequest = Type.Object(
  {
    email: field.address,
    code: Type.String({
      minLength: 1,
      "x-documented": NO_NUL,
      description: "The 6-digit code. Any other text gets the same response as a wrong code.",
      examples: ["123456"],
    }),
  },
  { additionalProperties: false, examples: [{ email: "ada@example.com", code: "123456" }] },
);
export type OtpVerifyRequest = Static<typeof otpVerifyRequest>;

export const otpVerifyAnswer = Type.Object(
  { verified: Type.Boolean(), message: Type.String() },
  { examples: [{ verified: true, message: "OTP verified" }] },
);

export const logsQuery = Type.Object(
  {
    ...paging({ default: 10, description: "Results per page." }),
    status: Type.Optional(field.oneOf(MAIL_STATUSES, { description: "Filter by outcome." })),
    kind: Type.Optional(field.oneOf(MAIL_KINDS, { description: "Filter by what sent the mail." })),
    to: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: LIMITS.address,
        description: "Filter by recipient address.",
        "x-documented": NO_NUL,
      }),
    ),
  },
  { additionalProperties: false },
);
export type LogsQuery = Static<typeof logsQuery>;

export const emailLogEntry = Type.Object({
  id: Type.String(),
  to: Type.String({ description: "Recipient address." }),
  subject: Type.String(),
  status: field.oneOf(MAIL_STATUSES),
  error_message: Type.Unsafe<string | null>({
    type: ["string", "null"],
    description: "SMTP error text when `status` is `failed`; null otherwise.",
  }),
  sent_at: timestamp("When the send was attempted."),
  kind: field.oneOf(MAIL_KINDS, { description: "What sent the mail." }),
});

export const logsAnswer = Type.Object(
  {
    logs: Type.Array(emailLogEntry, { description: "Newest first." }),
    total: Type.Integer({ minimum: 0, description: "Entries that match the filters." }),
    limit: Type.Integer(),
    offset: Type.Integer(),
  },
  {
    examples: [
      {
        logs: [
          {
            id: "0199c1d2-7f3a-7c55-9f0e-2b6d0c5a1e11",
            to: "ada@example.com",
            subject: "Welcome",
            status: "sent",
            error_message: null,
            sent_at: "2026-11-21T12:00:00.000Z",
            kind: "email",
          },
        ],
        total: 1,
        limit: 10,
        offset: 0,
      },
    ],
  },
);
