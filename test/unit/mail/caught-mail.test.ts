import { expect, test } from "vitest";
import { parseCaughtMail } from "../../../src/mail/caught-mail.ts";

const parse = (text: string) =>
  parseCaughtMail({
    id: "1",
    at: new Date(0),
    from: "a@sender.example",
    to: ["b@there.example"],
    raw: Buffer.from(text),
  });

test("a mail in a mail is an attachment", async () => {
  const mail = await parse(
    "Subject: outer\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\nHello\r\n",
  );
  expect(mail).toMatchObject({
    subject: "outer",
    attachments: [{ contentType: "message/rfc822" }],
  });
});

const HEAD = "From: Ada <ada@sender.example>\r\nSubject: lines\r\n";

test.each([
  { what: "short lines by the hundred thousand", body: "\r\n".repeat(150_000), taken: false },
  { what: "as many as are taken", body: "a\r\n".repeat(90_000), taken: true },
])("$what", async ({ body, taken }) => {
  const mail = await parse(`${HEAD}\r\n${body}`);
  expect(mail).toMatchObject({ from: "Ada <ada@sender.example>", subject: "lines" });
  const lines = body.split("\n").length - 1 + 3;
  expect(mail.text === `(${lines} lines: see the source)`).toBe(!taken);
  expect(mail.raw.toString()).toContain(body);
});

test("a large attachment is taken apart", async () => {
  const content = Buffer.alloc(9_000_000, 1);
  const lines = content.toString("base64").replaceAll(/.{76}/g, "$&\r\n");
  const type = "Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n";
  const mail = await parse(`${HEAD}${type}\r\n${lines}`);
  expect(mail.attachments).toMatchObject([{ bytes: content.length }]);
});

test("thousands of mails in each other are read within a moment", async () => {
  const before = process.cpuUsage();
  await parse("Content-Type: message/rfc822\r\n\r\n".repeat(6_000));
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(1_000);
});
