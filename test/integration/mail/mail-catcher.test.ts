import { createTransport } from "nodemailer";
import { expect, test } from "vitest";
import { startMailCatcher, type MailCatcher } from "../../../src/mail/mail-catcher.ts";

const host = "127.0.0.1";

async function mail({ smtpPort }: MailCatcher, subject: string): Promise<void> {
  const transport = createTransport({ host, port: smtpPort });
  await transport.sendMail({ from: "a@example.com", to: "b@example.com", subject, text: "Hello." });
}

async function list({ url }: MailCatcher, etag?: string | null) {
  const answer = await fetch(`${url}api/messages`, {
    ...(etag && { headers: { "If-None-Match": etag } }),
  });
  return { status: answer.status, etag: answer.headers.get("ETag") };
}

test("a page from before a restart is shown what came since", async () => {
  const before = await startMailCatcher({ host, smtpPort: 0, httpPort: 0 });
  await mail(before, "before");
  const { etag } = await list(before);
  expect(await list(before, etag)).toMatchObject({ status: 304 });
  await before.close();
  const after = await startMailCatcher({ host, smtpPort: 0, httpPort: 0 });
  try {
    await mail(after, "after");
    expect(await list(after, etag)).toMatchObject({ status: 200 });
  } finally {
    await after.close();
  }
});
