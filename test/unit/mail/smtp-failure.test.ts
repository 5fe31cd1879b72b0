import { describe, expect, test } from "vitest";
import {
  MailTimedOut,
  scrub,
  secretsOf,
  ServerBusy,
  smtpFailure,
} from "../../../src/mail/smtp-failure.ts";
import { DestinationRefused } from "../../../src/network/destination-refused.ts";

/** An error as nodemailer marks it. */
const marked = (message: string, marks: Record<string, string | number>) =>
  Object.assign(new Error(message), marks);

const failed = (is: Partial<ReturnType<typeof smtpFailure>>) => ({
  kind: "failed",
  retryable: true,
  outcomeUnknown: false,
  serverFault: true,
  ...is,
});

describe("what a failed conversation means", () => {
  const timeOut = marked("Timeout", { code: "ETIMEDOUT", command: "DATA" });
  const STOPPED = "the SMTP server stopped answering";
  const aborted = marked("aborted", { code: "EABORT" });
  test.each([
    {
      name: "a destination that may not be called",
      error: new DestinationRefused("smtp", "127.0.0.1", 25),
      is: {
        retryable: false,
        serverFault: false,
        refused: true,
        error: expect.stringContaining("127.0.0.1:25"),
      },
    },
    {
      name: "no connection came free",
      error: new ServerBusy(29_100),
      is: { serverFault: false, error: expect.stringContaining("within 30 s, it was not sent") },
    },
    {
      name: "a recipient is refused for good",
      error: marked("550 no such user", { code: "EENVELOPE", responseCode: 550, command: "RCPT" }),
      is: { retryable: false, serverFault: false, error: "550 no such user" },
    },
    {
      name: "a recipient is refused for now",
      error: marked("450 greylisted", { code: "EENVELOPE", responseCode: 450, command: "RCPT" }),
      is: { serverFault: false, error: "450 greylisted" },
    },
    {
      name: "the message is refused",
      error: marked("554 spam", { code: "EMESSAGE", responseCode: 554, command: "DATA" }),
      bodyEnded: true,
      is: { retryable: false, serverFault: false, error: "554 spam" },
    },
    {
      name: "the server closes in the middle of a mail's command",
      error: marked("421 closing", { code: "EENVELOPE", responseCode: 421, command: "RCPT" }),
      is: { error: "421 closing" },
    },
    {
      name: "wrong credentials",
      error: marked("535 no", { code: "EAUTH", responseCode: 535, command: "AUTH PLAIN" }),
      is: { retryable: false, error: "535 no" },
    },
    {
      name: "no way to sign in",
      error: marked("Missing credentials", { code: "ENOAUTH" }),
      is: { retryable: false, error: "Missing credentials" },
    },
    {
      name: "settings that cannot be used",
      error: marked("bad option", { code: "ECONFIG" }),
      is: { retryable: false, serverFault: false, error: "bad option" },
    },
    {
      name: "the mail could not be read on",
      error: marked("the claim was lost before the mail was sent", { code: "ESTREAM" }),
      is: { serverFault: false, error: "the claim was lost before the mail was sent" },
    },
    {
      name: "silence from the start",
      error: marked("Greeting never received", { code: "ETIMEDOUT", command: "CONN" }),
      is: { error: expect.stringMatching(/^Greeting never received; .* 465, .*implicit/) },
    },
    { name: "silence before the mail's end", error: timeOut, is: { error: STOPPED } },
    {
      name: "silence after it",
      error: timeOut,
      bodyEnded: true,
      is: { outcomeUnknown: true, error: STOPPED },
    },
    {
      name: "ended by us before the mail's end",
      error: aborted,
      is: { withdrawn: true, error: "aborted before the SMTP server answered" },
    },
    {
      name: "ended by us after it",
      error: aborted,
      bodyEnded: true,
      is: { outcomeUnknown: true, error: "aborted before the SMTP server answered" },
    },
    {
      name: "ended by us because its time was over",
      error: Object.assign(new Error("aborted", { cause: new MailTimedOut(60_000) }), {
        code: "EABORT",
      }),
      is: { withdrawn: true, error: "timed out: the SMTP server did not finish within 60 s" },
    },
    {
      name: "nobody listens: without the address, which a name may have been asked for",
      error: marked("connect ECONNREFUSED 10.0.0.7:25", {
        code: "ESOCKET",
        originalCode: "ECONNREFUSED",
        command: "CONN",
      }),
      is: { error: "SMTP server: connection refused" },
    },
    {
      name: "the same, as the system says it",
      error: marked("connect ECONNREFUSED 10.0.0.7:25", { code: "ECONNREFUSED" }),
      is: { error: "SMTP server: connection refused" },
    },
    { name: "what is no error", error: "odd", is: { error: "unexpected SMTP error" } },
  ])("$name", ({ error, bodyEnded = false, is }) => {
    expect(smtpFailure({ error, bodyEnded, secrets: [] })).toEqual(failed(is));
  });
});

const base64 = (text: string) => Buffer.from(text).toString("base64");

describe("a server's words", () => {
  const secrets = secretsOf({ username: "user", password: "pa$$ word" });

  test.each([
    ["the password, each time", "pa$$ word pa$$ word", "[secret] [secret]"],
    ["AUTH LOGIN's", `535 ${base64("pa$$ word")}`, "535 [secret]"],
    ["AUTH PLAIN's", `535 ${base64("\0user\0pa$$ word")}`, "535 [secret]"],
    ["what obeys no terminal", "a\0\u001b[2Jb\r\nc\td", "a [2Jb \nc\td"],
    ["what is no text", "a\ud800b", "a\ufffdb"],
  ])("%s", (_what, said, is) => {
    expect(scrub(said, secrets)).toBe(is);
  });

  test("are cut, and not within a character", () => {
    expect(scrub("x".repeat(2_000), [])).toHaveLength(1_000);
    expect(scrub(`${"x".repeat(999)}😀`, []).at(-1)).toBe("\ufffd");
  });

  test("without a password nothing is a secret", () => {
    for (const password of [null, ""])
      expect(secretsOf({ username: "user", password })).toEqual([]);
    expect(scrub("user", secretsOf({ username: null, password: "p" }))).toBe("user");
  });
});
