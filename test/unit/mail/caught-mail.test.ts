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

test("thousands of mails in each other are read within a moment", async () => {
  const before = process.cpuUsage();
  await parse("Content-Type: message/rfc822\r\n\r\n".repeat(6_000));
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(1_000);
});
