import { setImmediate } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import type { SmtpSettings } from "../../../src/domain/account.ts";
import type { MailMessage } from "../../../src/domain/mail.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-down.ts";
import { startMailCatcher } from "../../../src/mail/mail-catcher.ts";
import { createMailer } from "../../../src/mail/mailer.ts";
import { otpMessage } from "../../../src/mail/otp-message.ts";
import { parseDestinationRules } from "../../../src/network/destination-rules.ts";
import { createGuardedDial } from "../../../src/network/guarded-dial.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { startScriptedServer, type ScriptedServer, type SmtpScript } from "./scripted-server.ts";

let ends: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const end of ends.toReversed()) await end();
  ends = [];
});

const HELLO: MailMessage = {
  to: "you@there.example",
  subject: "Hello",
  body: "Body",
  isHtml: false,
};

async function catcher() {
  const started = await startMailCatcher({ smtpPort: 0, httpPort: 0, host: "127.0.0.1" });
  ends.push(() => started.close());
  return started;
}

function mailer(
  port: number,
  change: Partial<SmtpSettings> = {},
  sendTimeoutMs = 5_000,
  accountRules = async () => parseDestinationRules(""),
) {
  const state: { settings: SmtpSettings | undefined; revisions: number } = {
    settings: {
      host: "127.0.0.1",
      port,
      username: null,
      password: null,
      from: "me@sender.example",
      tls: "none",
      revision: "1",
      ...change,
    },
    revisions: 0,
  };
  const started = createMailer({
    settings: {
      get: async () => state.settings,
      revision: async () => {
        state.revisions += 1;
        return state.settings?.revision;
      },
      set: async () => undefined,
      delete: async () => undefined,
    },
    dial: createGuardedDial({
      rules: parseDestinationRules("127.0.0.0/8"),
      accountRules,
    }),
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    log: createLogger({ level: "silent" }),
    sendTimeoutMs,
  });
  ends.push(() => started.close());
  return { ...started, state };
}

async function scripted(script: SmtpScript): Promise<number> {
  return (await scriptedServer(script)).port;
}

async function scriptedServer(script: SmtpScript): Promise<ScriptedServer> {
  const server = await startScriptedServer(script);
  ends.push(() => {
    server.close();
  });
  return server;
}

test("a server that cannot be checked, because the database is away, got no mail", async () => {
  const cut = mailer(25, {}, 5_000, () => Promise.reject(new DependencyUnavailable("postgres")));
  await expect(cut.send("account", HELLO)).rejects.toThrow(DependencyUnavailable);
});

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

  test("mails at the same time share the question", async () => {
    const caught = await catcher();
    const sending = mailer(caught.smtpPort);
    await Promise.all(Array.from({ length: 100 }, () => sending.send("a", HELLO)));
    expect(sending.state.revisions).toBeLessThan(10);
    expect(caught.messages()).toHaveLength(100);
  });
});

describe("what a server does", () => {
  test.each([
    {
      does: "greets with 554",
      script: { GREETING: "554 no" },
      retryable: false,
      unknown: false,
      fault: true,
    },
    {
      does: "refuses the sender",
      script: { MAIL: "550 no" },
      retryable: false,
      unknown: false,
      fault: false,
    },
    {
      does: "greylists",
      script: { RCPT: "451 later" },
      retryable: true,
      unknown: false,
      fault: false,
    },
    {
      does: "refuses DATA",
      script: { DATA: "452 full" },
      retryable: true,
      unknown: false,
      fault: false,
    },
    {
      does: "refuses the mail",
      script: { END: "554 spam" },
      retryable: false,
      unknown: false,
      fault: false,
    },
    {
      does: "closes at once",
      script: { GREETING: null },
      retryable: true,
      unknown: false,
      fault: true,
    },
    {
      does: "closes at EHLO",
      script: { EHLO: null },
      retryable: true,
      unknown: false,
      fault: true,
    },
    {
      does: "closes at DATA",
      script: { DATA: null },
      retryable: true,
      unknown: false,
      fault: true,
    },
    {
      does: "closes after the mail",
      script: { END: null },
      retryable: true,
      unknown: true,
      fault: true,
    },
    {
      does: "says 421 to the recipient",
      script: { RCPT: "421 shutting down" },
      retryable: true,
      unknown: false,
      fault: true,
    },
    {
      does: "refuses EHLO for now",
      script: { EHLO: "451 later", HELO: "451 later" },
      retryable: true,
      unknown: false,
      fault: true,
    },
    {
      does: "hangs at the greeting",
      script: { GREETING: "hang" },
      retryable: true,
      unknown: false,
      fault: true,
    },
    {
      does: "hangs at RCPT",
      script: { RCPT: "hang" },
      retryable: true,
      unknown: false,
      fault: true,
    },
    {
      does: "hangs after the mail",
      script: { END: "hang" },
      retryable: true,
      unknown: true,
      fault: true,
    },
    {
      does: "talks HTTP",
      script: { GREETING: "HTTP/1.1 400 Bad" },
      retryable: true,
      unknown: false,
      fault: true,
    },
  ])("$does", async ({ script, retryable, unknown, fault }) => {
    const port = await scripted(script);
    // Short only for who waits for it.
    const patience = Object.values(script).includes("hang") ? 700 : 10_000;
    expect(await mailer(port, {}, patience).send("a", HELLO)).toEqual({
      kind: "failed",
      error: expect.any(String),
      retryable,
      outcomeUnknown: unknown,
      serverFault: fault,
    });
  });

  test("offers no AUTH: the mail is not sent without", async () => {
    const port = await scripted({ AUTH: "502 no" });
    const result = await mailer(port, { username: "u", password: "p" }).send("a", HELLO);
    expect(result).toMatchObject({ kind: "failed" });
  });

  test("offers no STARTTLS: the mail is not sent in the clear", async () => {
    const caught = await catcher();
    expect(await mailer(caught.smtpPort, { tls: "starttls" }).send("a", HELLO)).toMatchObject({
      kind: "failed",
    });
    expect(caught.messages()).toHaveLength(0);
  });

  test("quotes the password: it does not come back", async () => {
    const secret = "hunter2-geheim";
    const plain = Buffer.from(`\0u\0${secret}`).toString("base64");
    const port = await scripted({
      EHLO: "250-hi\r\n250 AUTH PLAIN",
      AUTH: `535 wrong: ${secret} ${plain} ${"x".repeat(5_000)}`,
    });
    const sending = mailer(port, { username: "u", password: secret });
    const result = await sending.send("a", HELLO);
    if (result.kind !== "failed" || !sending.state.settings) throw new Error("must fail");
    expect(result.retryable).toBe(false);
    expect(result.error.length).toBeLessThanOrEqual(1_000);
    expect(result.error).not.toContain(secret);
    expect(result.error).not.toContain(plain);
    const { transcript } = await sending.test("a", sending.state.settings, "you@there.example");
    expect(transcript.join("\n")).toContain("535 wrong");
    expect(transcript.join("\n")).not.toContain(secret);
    expect(transcript.join("\n")).not.toContain(plain);
  });

  test("wrong credentials are the server's fault: another mail would meet the same", async () => {
    const port = await scripted({ EHLO: "250-hi\r\n250 AUTH PLAIN", AUTH: "535 wrong" });
    expect(await mailer(port, { username: "u", password: "p" }).send("a", HELLO)).toMatchObject({
      retryable: false,
      serverFault: true,
    });
  });

  test("dropped an idle connection: the next mail goes out over a new one, once", async () => {
    const server = await scriptedServer({});
    const sending = mailer(server.port);
    for (let mail = 1; mail <= 3; mail += 1) {
      expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
      expect(server.seen).toMatchObject({ connections: mail, mails: mail });
      server.drop();
    }
  });

  test("is tired of an idle connection: the next mail goes out over a new one, once", async () => {
    let mails = 0;
    const server = await scriptedServer({
      // Only the connection that has brought one already says so.
      MAIL: () => ((mails += 1) === 2 ? "421 idle for too long" : "250 ok"),
    });
    const sending = mailer(server.port);
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    expect(server.seen).toMatchObject({ connections: 2, mails: 2 });
  });
});

describe("a claim that is lost on the way", () => {
  test.each([
    { when: "before the first byte", asked: 1 },
    { when: "before the end of the message", asked: 2 },
  ])("$when: the mail does not leave", async ({ asked }) => {
    const server = await scriptedServer({});
    const sending = mailer(server.port);
    // Over an open connection too, which is where a second try would come from.
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    let times = 0;
    const result = await sending.send("a", HELLO, undefined, () => (times += 1) < asked);
    expect(result).toMatchObject({ kind: "failed", outcomeUnknown: false });
    expect(times).toBe(asked);
    await expect.poll(() => server.seen.closed).toBe(1);
    expect(server.seen).toMatchObject({ connections: 1, mails: 1 });
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    expect(server.seen).toMatchObject({ connections: 2, mails: 2 });
  });
});

describe("a mail that the server does not read on", () => {
  /** More than the buffers of both ends hold. */
  const LARGE = { ...HELLO, body: `${"x".repeat(75)}\n`.repeat(400_000) };

  /** A mail of which the server has taken the beginning and reads no more. */
  async function stuck(options: { maySend?: () => boolean; signal?: AbortSignal }) {
    const stopped = Promise.withResolvers<void>();
    const server: ScriptedServer = await scriptedServer({
      DATA: () => {
        server.stopReading();
        stopped.resolve();
        return "354 go on";
      },
    });
    let times = 0;
    const sent = mailer(server.port).send("a", LARGE, options.signal, () => {
      times += 1;
      return options.maySend?.() ?? true;
    });
    await stopped.promise;
    await expect.poll(() => times).toBeGreaterThan(0);
    // Whoever does not wait for the connection would have gone on by now.
    for (let turn = 0; turn < 100; turn += 1) await setImmediate();
    expect(times).toBe(1);
    return { server, sent };
  }

  test("does not leave when its claim is lost meanwhile", async () => {
    let claimed = true;
    const { server, sent } = await stuck({ maySend: () => claimed });
    claimed = false;
    server.readOn();
    expect(await sent).toMatchObject({ kind: "failed", outcomeUnknown: false });
    await expect.poll(() => server.seen.closed).toBe(1);
    expect(server.seen.mails).toBe(0);
  });

  test("is taken when it reads on", async () => {
    const { server, sent } = await stuck({});
    server.readOn();
    expect(await sent).toMatchObject({ kind: "accepted" });
    expect(server.seen.mails).toBe(1);
  });

  test("has not been taken when the server goes away", async () => {
    const { server, sent } = await stuck({});
    server.drop();
    expect(await sent).toMatchObject({ kind: "failed", outcomeUnknown: false, retryable: true });
  });

  test("has not been taken when the signal ends it", async () => {
    const controller = new AbortController();
    const { sent } = await stuck({ signal: controller.signal });
    controller.abort();
    expect(await sent).toMatchObject({ kind: "failed", outcomeUnknown: false });
  });
});

test("a signal that has come before: nobody is connected", async () => {
  const server = await scriptedServer({});
  const sent = mailer(server.port).send("a", HELLO, AbortSignal.abort());
  expect(await sent).toMatchObject({ kind: "failed", outcomeUnknown: false });
  expect(server.seen.connections).toBe(0);
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

test("the signal ends a mail on its way", async () => {
  const port = await scripted({ RCPT: "hang" });
  const controller = new AbortController();
  const sent = mailer(port).send("a", HELLO, controller.signal);
  setTimeout(() => controller.abort(), 100);
  expect(await sent).toMatchObject({ kind: "failed", outcomeUnknown: false });
});

test("a destination that is refused is permanent and names the setting", async () => {
  const result = await mailer(25, { host: "10.0.0.1" }).send("a", HELLO);
  expect(result).toMatchObject({
    kind: "failed",
    retryable: false,
    error: expect.stringContaining("CARILLON_ALLOW_DESTINATIONS"),
  });
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
