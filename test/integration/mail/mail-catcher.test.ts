import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { createTransport } from "nodemailer";
import { expect, test } from "vitest";
import { LIMITS } from "../../../src/domain/schema/fields.ts";
import { startMailCatcher, type MailCatcher } from "../../../src/mail/mail-catcher.ts";

const host = "127.0.0.1";

async function mail({ smtpPort }: MailCatcher, subject: string, to = "b@example.com") {
  const transport = createTransport({ host, port: smtpPort });
  await transport.sendMail({ from: "a@example.com", to, subject, text: "Hello." });
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

test("an address as long as the API takes them is caught", async () => {
  const domain = `${"b".repeat(63)}.${"c".repeat(63)}.${"d".repeat(57)}.com`;
  const longest = `${"a".repeat(LIMITS.address - domain.length - 1)}@${domain}`;
  const catcher = await startMailCatcher({ host, smtpPort: 0, httpPort: 0 });
  try {
    await mail(catcher, "long", longest);
    expect(catcher.messages()).toMatchObject([{ to: longest }]);
  } finally {
    await catcher.close();
  }
});

// A page of any website could read the mails under a name of its own that it lets resolve to the loopback.
test.each([
  { name: "127.0.0.1", status: 200 },
  { name: "localhost", status: 200 },
  { name: "[::1]", status: 200 },
  { name: "evil.example", status: 421 },
  { name: "127.0.0.1.evil.example", status: 421 },
])("asked by the name $name it answers $status", async ({ name, status }) => {
  const caught = await startMailCatcher({ host, smtpPort: 0, httpPort: 0 });
  try {
    const port = caught.httpPort;
    const asked = get({ host, port, path: "/api/messages", headers: { Host: name } });
    const [answer] = (await once(asked, "response")) as [IncomingMessage];
    answer.resume();
    expect(answer.statusCode).toBe(status);
  } finally {
    await caught.close();
  }
});
