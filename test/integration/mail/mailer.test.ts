import { getEventListeners } from "node:events";
import { afterEach, describe, expect, test } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { LIMITS } from "../../../src/domain/schema/fields.ts";
import { otpMessage } from "../../../src/mail/otp-message.ts";
import { until } from "../../until.ts";
import { HELLO, mailerFixture } from "./mailer-fixture.ts";
import type { ScriptedServer } from "./scripted-server.ts";

const { catcher, mailer, scriptedServer, close } = mailerFixture();
afterEach(close);

describe("a mail", () => {
  test("arrives as it was meant", async () => {
    const caught = await catcher();
    const content = new Uint8Array([0, 1, 2, 255]);
    const result = await mailer(caught.smtpPort).send("a", {
      ...HELLO,
      subject: "Grüße 😀",
      body: "<p>é\n.\n..\nend</p>",
      isHtml: true,
      cc: ["cc@there.example"],
      bcc: ["bcc@there.example"],
      replyTo: "reply@there.example",
      headers: { "X-Tag": "one" },
      attachments: [{ filename: "rëport.bin", content }],
    });
    const [mail] = caught.messages();
    expect(result).toMatchObject({
      kind: "accepted",
      messageId: expect.stringMatching(/@sender\.example$/),
    });
    expect(mail).toMatchObject({
      from: "me@sender.example",
      to: "you@there.example",
      cc: "cc@there.example",
      replyTo: "reply@there.example",
      subject: "Grüße 😀",
      html: expect.stringContaining("<p>é\n.\n..\nend</p>"),
      envelopeFrom: "me@sender.example",
      attachments: [{ filename: "rëport.bin", bytes: 4 }],
    });
    expect(mail?.envelopeTo.toSorted()).toEqual([
      "bcc@there.example",
      "cc@there.example",
      "you@there.example",
    ]);
    expect(mail?.raw.toString("latin1")).not.toContain("bcc@there.example");
    expect(mail?.headers).toContainEqual({ name: "x-tag", value: "one" });
  });

  test.each([
    "=?utf-8?Q?a=0D=0ABcc:_x@evil.example?=",
    "Hello =?utf-8?B?QWRh?= and 😀 =?utf-8?Q?b?= too",
    `=?utf-8?Q?${"long_".repeat(60)}?=`,
  ])("with the subject %s, which is no code for another one", async (subject) => {
    const caught = await catcher();
    await mailer(caught.smtpPort).send("a", { ...HELLO, subject });
    const [mail] = caught.messages();
    expect(mail?.subject).toBe(subject);
    expect(mail?.raw.toString("latin1")).toMatch(/^(?:[ -~]{0,76}\r\n)+$/);
  });

  test("with headers called key and value, which name no other", async () => {
    const caught = await catcher();
    const headers = { key: "Sender", value: "boss@bank.example" };
    await mailer(caught.smtpPort).send("a", { ...HELLO, headers });
    const [mail] = caught.messages();
    const names = mail?.headers.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(["key", "value"]));
    expect(names).not.toContain("sender");
  });

  test("to an address with further recipients in it reaches none of them", async () => {
    const caught = await catcher();
    await mailer(caught.smtpPort).send("a", { ...HELLO, to: "you@there.example, x@evil.example" });
    await mailer(caught.smtpPort).send("a", {
      ...HELLO,
      to: "you@there.example\r\nRCPT TO:<x@evil.example>",
    });
    expect(caught.messages().flatMap((mail) => mail.envelopeTo)).not.toContain("x@evil.example");
  });

  test("that is through has its signal heard by nobody", async () => {
    const caught = await catcher();
    const { signal } = new AbortController();
    const sent = await mailer(caught.smtpPort).send("a", HELLO, { signal });
    expect(sent).toMatchObject({ kind: "accepted" });
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test("carries a passcode in the body and never in the subject", async () => {
    const message = otpMessage({ to: "you@there.example", code: "012345", minutes: 10 });
    expect(message.subject).not.toContain("012345");
    expect(message.body).toContain("012345");
  });
});

describe("settings", () => {
  test("none: unconfigured; new ones count for the next mail", async () => {
    const [first, second] = [await catcher(), await catcher()];
    const sending = mailer(first.smtpPort);
    await sending.send("a", HELLO);
    const old = sending.state.settings;
    if (old === undefined) throw new Error("settings");
    sending.state.settings = { ...old, port: second.smtpPort, revision: "2" };
    await sending.send("a", HELLO);
    sending.state.settings = undefined;
    expect(await sending.send("a", HELLO)).toEqual({ kind: "unconfigured" });
    expect(await sending.configured("a")).toBe(false);
    expect([first.messages().length, second.messages().length]).toEqual([1, 1]);
  });

  test.each([
    { of: "the open connections", known: "1", asked: 0 },
    { of: "none: there were none", known: undefined, asked: 1 },
    { of: "earlier settings", known: "0", asked: 1 },
    { of: "later settings", known: "2", asked: 1 },
  ])("a revision of $of that the caller has read", async ({ known, asked }) => {
    const caught = await catcher();
    const sending = mailer(caught.smtpPort);
    await sending.send("a", HELLO);
    const { revisions } = sending.state;
    expect(await sending.send("a", HELLO, { smtpRevision: known })).toMatchObject({
      kind: "accepted",
    });
    expect(sending.state.revisions - revisions).toBe(asked);
  });

  test("mails at the same time share the question", async () => {
    const caught = await catcher();
    const sending = mailer(caught.smtpPort);
    await Promise.all(Array.from({ length: 100 }, () => sending.send("a", HELLO)));
    expect(sending.state.revisions).toBeLessThan(10);
    expect(caught.messages()).toHaveLength(100);
  });
});

const quits = ({ seen }: ScriptedServer) => seen.verbs.filter((verb) => verb === "QUIT").length;

describe("a server hears QUIT", () => {
  test("on a connection that has brought its share of mails, and when there are new settings", async () => {
    const [first, second] = [await scriptedServer({}), await scriptedServer({})];
    const sending = mailer(first.port, {}, { poolSize: 1 });
    while (first.seen.connections < 2) await sending.send("a", HELLO);
    await expect.poll(() => first.seen.closed).toBe(1);
    expect(quits(first)).toBe(1);
    const { settings } = sending.state;
    if (settings === undefined) throw new Error("settings");
    sending.state.settings = { ...settings, port: second.port, revision: "2" };
    await sending.send("a", HELLO);
    await expect.poll(() => first.seen.closed).toBe(2);
    expect(quits(first)).toBe(2);
  });

  test("when the mailer is closed, unless it has not answered yet", async () => {
    const idle = await scriptedServer({});
    const busy = await scriptedServer({ RCPT: "hang" });
    const [one, other] = [mailer(idle.port), mailer(busy.port)];
    await one.send("a", HELLO);
    const sent = other.send("a", HELLO);
    await until("it is asked", () => busy.seen.verbs.includes("RCPT"));
    await Promise.all([one.close(), other.close(), sent]);
    await expect.poll(() => [idle.seen.closed, busy.seen.closed]).toEqual([1, 1]);
    expect([quits(idle), quits(busy)]).toEqual([1, 0]);
  });

  test("not where it has said that it closes", async () => {
    const server = await scriptedServer({ MAIL: "421 not now" });
    await mailer(server.port).send("a", HELLO);
    await expect.poll(() => server.seen.closed).toBeGreaterThan(0);
    expect(quits(server)).toBe(0);
  });
});

test("a server that cannot be checked, because the database is away, got no mail", async () => {
  const cut = mailer(
    25,
    {},
    {
      accountRules: () => Promise.reject(new DependencyUnavailable("postgres")),
    },
  );
  await expect(cut.send("account", HELLO)).rejects.toThrow(DependencyUnavailable);
  const { settings } = cut.state;
  if (settings === undefined) throw new Error("settings");
  await expect(cut.test("account", settings, HELLO.to)).rejects.toThrow(DependencyUnavailable);
});

test("a destination that is refused is permanent, names the setting, and is counted", async () => {
  const refused = mailer(25, { host: "10.0.0.1" });
  const result = await refused.send("a", HELLO);
  expect(result).toMatchObject({
    kind: "failed",
    retryable: false,
    error: expect.stringContaining("CARILLON_ALLOW_DESTINATIONS"),
  });
  expect((await refused.metrics.render()).text).toContain(
    'carillon_destinations_refused_total{protocol="smtp"} 1',
  );
});

test("mails are counted by what came of them; the time is of those for which a server was asked", async () => {
  const server = await scriptedServer({
    RCPT: () => (server.seen.mails < 2 ? "250 ok" : "550 no"),
  });
  const sending = mailer(server.port);
  await sending.send("a", HELLO);
  await sending.send("a", { ...HELLO, kind: "job" });
  expect(await sending.send("a", HELLO)).toMatchObject({ kind: "failed" });
  sending.state.settings = undefined;
  await sending.send("a", HELLO);
  const { text } = await sending.metrics.render();
  expect(text.split("\n").filter((line) => /^carillon_email.*(?:total|count)/.test(line))).toEqual([
    'carillon_emails_total{kind="email",outcome="sent"} 1',
    'carillon_emails_total{kind="job",outcome="sent"} 1',
    'carillon_emails_total{kind="email",outcome="failed"} 1',
    'carillon_emails_total{kind="email",outcome="unconfigured"} 1',
    'carillon_email_duration_seconds_count{kind="email"} 2',
    'carillon_email_duration_seconds_count{kind="job"} 1',
  ]);
});

test("a mail that waits when the mailer is closed does not leave", async () => {
  const server = await scriptedServer({});
  const sending = mailer(server.port);
  const sent = [sending.send("a", HELLO), sending.send("a", HELLO)];
  await sending.close();
  const results = await Promise.allSettled(sent);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(server.seen.connections).toBe(0);
});

test("a mail that has just got a connection when the mailer is closed does not leave", async () => {
  const server = await scriptedServer({});
  const sending = mailer(server.port);
  await sending.send("a", HELLO);
  const smtpRevision = sending.state.settings?.revision;
  // Nothing is read for it: its turn comes at once.
  const sent = sending.send("a", HELLO, { smtpRevision });
  await sending.close();
  // The server is not at fault.
  expect(await sent).toEqual({
    kind: "failed",
    error: "Carillon was stopped before the mail was sent",
    retryable: true,
    outcomeUnknown: false,
    serverFault: false,
  });
  expect(server.seen.mails).toBe(1);
});

test("the catcher takes the largest mail that the API does", async () => {
  const caught = await catcher();
  // Enough letters that quoted-printable is chosen, which needs three bytes for each of the other characters.
  const letters = "éaaa";
  const body = letters + "=".repeat(LIMITS.sendBodyBytes - Buffer.byteLength(letters));
  const content = Buffer.alloc((LIMITS.attachmentsBytes / 4) * 3);
  const result = await mailer(caught.smtpPort).send("a", {
    ...HELLO,
    body,
    attachments: [{ filename: "a", content }],
  });
  expect(result).toMatchObject({ kind: "accepted" });
  expect(caught.messages()[0]?.text?.trimEnd()).toBe(body);
});

test("the catcher keeps what it got apart from its own page", async () => {
  const caught = await catcher();
  await mailer(caught.smtpPort).send("a", { ...HELLO, body: "<script>1</script>", isHtml: true });
  const [mail] = caught.messages();
  const page = await fetch(caught.url);
  expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
  const html = await fetch(`${caught.url}api/messages/${mail?.id}/html`);
  expect(html.headers.get("content-security-policy")).toMatch(/^sandbox;/);
  const list: unknown = await (await fetch(`${caught.url}api/messages`)).json();
  expect(list).toMatchObject({ total: 1, messages: [{ subject: "Hello" }] });
});
