import MailComposer from "nodemailer/lib/mail-composer";
import PostalMime from "postal-mime";
import { describe, expect, test } from "vitest";
import type { MailMessage } from "../../../src/domain/mail.ts";
import { mailOptions } from "../../../src/mail/smtp-options.ts";

/** What arrives of a message, and its lines as sent. */
async function arriving(message: Partial<MailMessage>) {
  const whole = { to: "b@example.com", subject: "Hello", body: "Hi", isHtml: false, ...message };
  const bytes = await new MailComposer(mailOptions(whole, "a@example.com")).compile().build();
  return { mail: await PostalMime.parse(bytes), lines: bytes.toString("latin1").split("\r\n") };
}

/** With two attached messages: one is a message by its file name, the other by its type. */
function withMessage(content: string) {
  const bytes = Buffer.from(content);
  const attachments = [
    { filename: "a.eml", content: bytes },
    { filename: "b", contentType: "Message/rfc822", content: bytes },
  ];
  return arriving({ attachments });
}

describe("the subject that arrives is the one that was sent, on lines that RFC 5322 allows", () => {
  const SUBJECTS: Record<string, string> = {
    "words that look encoded": "=?utf-8?q?abc?=",
    "one word as long as a subject may be": "x".repeat(998),
    "one word that a folded line just takes": "x".repeat(997),
    "the same of letters that are not ASCII": "😀".repeat(499),
    "spaces at both ends": "  two  spaces  ",
    "a long word and a space": `${"x".repeat(90)} `,
    "spaces that fill lines": `a${" ".repeat(996)}b`,
    "spaces that no line is filled with": `a${" ".repeat(69)}b`,
    "many words": "word ".repeat(199).trim(),
  };

  test.each(Object.entries(SUBJECTS))("%s", async (_name, subject) => {
    const { mail, lines } = await arriving({ subject });
    expect(mail.subject).toBe(subject);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(998);
    const headers = lines.slice(0, lines.indexOf(""));
    expect(headers.filter((line) => line.trim() === "")).toEqual([]);
  });
});

test.each([
  "",
  "b@example.com,x@evil.example",
  "b@example.com;x@evil.example",
  "b@example.com x@evil.example",
  "b@example.com\r\nRCPT TO:<x@evil.example>",
  "B <b@example.com>",
  "b@example.com (x@evil.example)",
  '"b"@example.com',
  "b\\@example.com",
])("%j is not one address: no mail is made of it, whoever lets it through", (address) => {
  const message = { to: "b@example.com", subject: "Hello", body: "Hi", isHtml: false };
  const refused = expect.objectContaining({ code: "EENVELOPE" });
  expect(() => mailOptions(message, address)).toThrow(refused);
  for (const to of [{ to: address }, { cc: [address] }, { bcc: [address] }, { replyTo: address }])
    expect(() => mailOptions({ ...message, ...to }, "a@example.com")).toThrow(refused);
});

test("spaces around a header's value do not make a line of spaces", async () => {
  const { lines } = await arriving({ headers: { "X-A": `${"x".repeat(90)} ` } });
  expect(lines.filter((line) => line.trim() === "" && line !== "")).toEqual([]);
});

describe("an attached message arrives as it was", () => {
  const plain = "Subject: inner\r\n\r\nHello\r\n";
  test("plain lines: as a message", async () => {
    const { mail, lines } = await withMessage(plain);
    const types = mail.attachments.map((each) => each.mimeType);
    expect(types).toEqual(["message/rfc822", "message/rfc822"]);
    expect(lines.join("\r\n").split(plain)).toHaveLength(3);
  });

  test("a line as long as one may be: as a message", async () => {
    const { mail } = await withMessage(`${plain}${"x".repeat(998)}\n${"y".repeat(998)}`);
    expect(mail.attachments.map((each) => each.mimeType)).toEqual([
      "message/rfc822",
      "message/rfc822",
    ]);
  });

  const OTHERWISE: Record<string, string> = {
    "letters that are not ASCII": `${plain}Grüße\r\n`,
    "a line that is too long": `${plain}${"x".repeat(999)}\r\n`,
    "a carriage return alone": `${plain}a\rb\r\n`,
    "a carriage return at the end": `${plain}a\r`,
    NUL: `${plain}a\0b\r\n`,
  };

  test.each(Object.entries(OTHERWISE))("%s: as a file", async (_name, content) => {
    const { mail, lines } = await withMessage(content);
    expect(lines.filter((line) => !/^[\t -~]{0,998}$/.test(line))).toEqual([]);
    const files = mail.attachments.map((each) => [
      each.mimeType,
      Buffer.from(each.content as ArrayBuffer).toString(),
    ]);
    const file = ["application/octet-stream", content];
    expect(files).toEqual([file, file]);
  });
});
