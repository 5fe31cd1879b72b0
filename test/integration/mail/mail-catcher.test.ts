import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { createTransport, type Transporter } from "nodemailer";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LIMITS } from "../../../src/domain/schema/fields.ts";
import { startMailCatcher, type MailCatcher } from "../../../src/mail/mail-catcher.ts";
import { freePort } from "../../network/free-port.ts";

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

describe("what it keeps", () => {
  let catcher: MailCatcher;
  let transport: Transporter;
  beforeEach(async () => {
    catcher = await startMailCatcher({ host, smtpPort: 0, httpPort: 0 });
    transport = createTransport({
      host,
      port: catcher.smtpPort,
      pool: true,
      maxConnections: 1,
      maxMessages: Infinity,
    });
  });
  afterEach(async () => {
    transport.close();
    await catcher.close();
  });
  const subjects = () => catcher.messages().map(({ subject }) => subject);
  const envelope = { from: "a@example.com", to: "b@example.com" };

  /** A mail of so many MiB, in lines so short that they are not parsed, which takes seconds. */
  async function large(subject: string, mebibytes: number): Promise<void> {
    const line = `${"x".repeat(30)}\r\n`;
    const raw = `Subject: ${subject}\r\n\r\n${line.repeat(mebibytes * 32 * 1_024)}`;
    await transport.sendMail({ envelope, raw });
  }

  test("is the last 500 mails", async () => {
    for (let n = 1; n <= 501; n += 1)
      await transport.sendMail({ ...envelope, subject: `${n}`, text: "Hello." });
    const kept = subjects();
    expect([kept.length, kept[0], kept.at(-1)]).toEqual([500, "501", "2"]);
    const answer = await fetch(`${catcher.url}api/messages`);
    const { messages, total } = (await answer.json()) as {
      messages: { subject: string }[];
      total: number;
    };
    expect([total, messages.map(({ subject }) => subject)]).toEqual([500, kept]);
  });

  test("is 64 MiB, and never half a mail", async () => {
    await large("one", 31);
    await large("two", 31);
    await large("three", 3);
    expect(subjects()).toEqual(["three", "two"]);
    await expect(large("four", 33)).rejects.toMatchObject({ responseCode: 552 });
    expect(subjects()).toEqual(["three", "two"]);
    await large("five", 3);
    expect(subjects()).toEqual(["five", "three", "two"]);
  });

  test("is deleted at once, for an open page too", async () => {
    await large("one", 31);
    await large("two", 31);
    const { etag } = await list(catcher);
    expect(await list(catcher, etag)).toMatchObject({ status: 304 });
    const deleted = await fetch(`${catcher.url}api/messages`, { method: "DELETE" });
    expect(deleted.status).toBe(204);
    expect(subjects()).toEqual([]);
    expect(await list(catcher, etag)).toMatchObject({ status: 200 });
    // What is gone takes no room.
    await large("three", 2);
    await large("four", 2);
    expect(subjects()).toEqual(["four", "three"]);
  });

  test("runs nothing and asks nobody when it is shown, also in a tab of its own", async () => {
    const html = "<script>alert(1)</script><img src=https://example.com/x.png>";
    await transport.sendMail({ ...envelope, subject: "html", html });
    const [mail] = catcher.messages();
    const answer = await fetch(`${catcher.url}api/messages/${mail?.id}/html`);
    expect(await answer.text()).toContain(html);
    const policy = answer.headers.get("content-security-policy")?.split("; ");
    expect(policy).toContain("sandbox");
    expect(policy).toContain("default-src 'none'");
    expect(policy?.filter((rule) => rule.startsWith("script-src"))).toEqual([]);
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
  });
});

test("a start that fails leaves none of its ports taken", async () => {
  const other = await startMailCatcher({ host, smtpPort: 0, httpPort: 0 });
  const smtpPort = await freePort();
  try {
    await expect(
      startMailCatcher({ host, smtpPort, httpPort: other.httpPort }),
    ).rejects.toMatchObject({ code: "EADDRINUSE" });
    const again = await startMailCatcher({ host, smtpPort, httpPort: 0 });
    expect(again.smtpPort).toBe(smtpPort);
    await again.close();
  } finally {
    await other.close();
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
