import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer, type TLSSocket } from "node:tls";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { afterEach, describe, expect, test } from "vitest";
import { monotonic, timers } from "../../../cmd/system.ts";
import type { SmtpSettings } from "../../../src/domain/account.ts";
import { createMailer } from "../../../src/mail/mailer.ts";
import { parseDestinationRules } from "../../../src/network/destination-rules.ts";
import { createGuardedDial } from "../../../src/network/guarded-dial.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import {
  createAuthority,
  selfSigned,
  trust,
  type Certificate,
} from "../../network/certificates.ts";
import { startScriptedServer } from "./scripted-server.ts";

const NAME = "mail.example";
const HELLO = { to: "you@there.example", subject: "Hello", body: "Body", isHtml: false };
const authority = createAuthority();
trust(authority);
const log = createLogger({ level: "silent" });

let ends: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const end of ends.toReversed()) await end();
  ends = [];
});

interface Delivered {
  secure: boolean;
  servername: string | undefined;
  user: string | undefined;
}

/** An ordinary server, with the properties of each session that delivered a mail. */
async function server(certificate: Certificate, options: SMTPServerOptions = {}) {
  const mails: Delivered[] = [];
  const logins: boolean[] = [];
  const smtp = new SMTPServer({
    ...certificate,
    logger: false,
    authOptional: true,
    onAuth: (auth, session, done) => {
      logins.push(session.secure);
      done(null, { user: auth.username ?? "" });
    },
    onData: (stream, session, done) => {
      stream.resume();
      stream.on("end", () => {
        const servername = "servername" in session ? String(session.servername) : undefined;
        mails.push({ secure: session.secure, servername, user: session.user });
        done();
      });
    },
    ...options,
  });
  smtp.on("error", () => undefined);
  await new Promise<void>((resolve) => {
    smtp.listen(0, "127.0.0.1", resolve);
  });
  ends.push(
    () =>
      new Promise<void>((resolve) => {
        smtp.close(resolve);
      }),
  );
  return { port: (smtp.server.address() as AddressInfo).port, mails, logins };
}

function mailer(port: number, change: Partial<SmtpSettings>) {
  const settings: SmtpSettings = {
    host: NAME,
    port,
    username: null,
    password: null,
    from: "me@sender.example",
    tls: "starttls",
    revision: "1",
    ...change,
  };
  const started = createMailer({
    timers,
    monotonic,
    settings: {
      get: async () => settings,
      revision: async () => settings.revision,
      set: async () => undefined,
      delete: async () => undefined,
    },
    dial: createGuardedDial({
      rules: parseDestinationRules("127.0.0.0/8"),
      accountRules: async () => parseDestinationRules(""),
      lookup: async () => ({ addresses: ["127.0.0.1"] }),
    }),
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    log,
    sendTimeoutMs: 5_000,
  });
  ends.push(() => started.close());
  return started;
}

describe.each([
  { tls: "starttls", secure: false },
  { tls: "implicit", secure: true },
] as const)("$tls", ({ tls, secure }) => {
  test("of a trusted authority: password and mail go over TLS", async () => {
    const { port, mails, logins } = await server(authority.issue([NAME]), { secure });
    const sending = mailer(port, { tls, username: "u", password: "hunter2" });
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    expect(logins).toEqual([true]);
    expect(mails).toMatchObject([{ secure: true, servername: NAME, user: "u" }]);
  });

  test("to an address: the certificate must be for it", async () => {
    const own = await server(authority.issue(["127.0.0.1"]), { secure });
    const others = await server(authority.issue(["localhost"]), { secure });
    const host = "127.0.0.1";
    expect(await mailer(own.port, { tls, host }).send("a", HELLO)).toMatchObject({
      kind: "accepted",
    });
    expect(await mailer(others.port, { tls, host }).send("a", HELLO)).toMatchObject({
      kind: "failed",
      error: "SMTP server: the server's certificate is for another name",
    });
    expect(others.mails).toEqual([]);
  });

  test.each([
    { is: "for another name", certificate: () => authority.issue(["other.example"]) },
    { is: "expired", certificate: () => authority.issue([NAME], { expired: true }) },
    { is: "self-signed", certificate: () => selfSigned([NAME]) },
    { is: "of a stranger", certificate: () => createAuthority().issue([NAME]) },
  ])("with a certificate that is $is: neither password nor mail", async ({ certificate }) => {
    const { port, mails, logins } = await server(certificate(), { secure });
    const sending = mailer(port, { tls, username: "u", password: "hunter2" });
    expect(await sending.send("a", HELLO)).toMatchObject({
      kind: "failed",
      error: expect.stringMatching(/^SMTP server: the server's certificate /),
      retryable: true,
      outcomeUnknown: false,
      serverFault: true,
    });
    expect({ mails, logins }).toEqual({ mails: [], logins: [] });
  });
});

describe("STARTTLS never falls back to plain text", () => {
  test.each([
    { server: "does not offer it", script: { EHLO: "250-hi\r\n250 AUTH PLAIN" } },
    {
      server: "offers and refuses it",
      script: { EHLO: "250-hi\r\n250-STARTTLS\r\n250 AUTH PLAIN", STARTTLS: "454 not now" },
    },
    {
      server: "agrees and goes on in plain text",
      script: { EHLO: "250-hi\r\n250-STARTTLS\r\n250 AUTH PLAIN", STARTTLS: "220 go ahead" },
    },
    {
      // CVE-2011-0411 from the other side: what arrives before the handshake must not count after it.
      server: "slips an answer in before the handshake",
      script: { EHLO: "250-hi\r\n250 STARTTLS", STARTTLS: "220 go\r\n250-hi\r\n250 AUTH PLAIN" },
    },
  ])("when the server $server", async ({ script }) => {
    const scripted = await startScriptedServer(script);
    ends.push(() => {
      scripted.close();
    });
    const sending = mailer(scripted.port, { username: "u", password: "hunter2" });
    expect(await sending.send("a", HELLO)).toMatchObject({
      kind: "failed",
      error: expect.stringMatching(/^SMTP server: .*TLS/),
      serverFault: true,
    });
    expect(scripted.seen.mails).toBe(0);
    for (const verb of ["AUTH", "MAIL", "RCPT", "DATA"])
      expect(scripted.seen.verbs).not.toContain(verb);
  });
});

test("implicit TLS to a server of plain text sends it nothing but a handshake", async () => {
  const scripted = await startScriptedServer({});
  ends.push(() => {
    scripted.close();
  });
  const sending = mailer(scripted.port, { tls: "implicit", username: "u", password: "hunter2" });
  expect(await sending.send("a", HELLO)).toMatchObject({
    kind: "failed",
    error:
      'SMTP server: it does not speak TLS at once; if tls is "implicit", which most have on port 465 only, try "starttls"',
  });
  expect(scripted.seen.mails).toBe(0);
  expect(scripted.seen.verbs).not.toContain("AUTH");
});

test("a message and its end are one record", async () => {
  const scripted = await startScriptedServer({}, authority.issue([NAME]));
  ends.push(() => {
    scripted.close();
  });
  const sending = mailer(scripted.port, { tls: "implicit" });
  for (const body of ["once", "and again"]) {
    expect(await sending.send("a", { ...HELLO, body })).toMatchObject({ kind: "accepted" });
    expect(scripted.seen.pieces).toEqual([expect.stringMatching(`\r\n${body}\r\n\\.\r\n$`)]);
  }
  expect(scripted.seen).toMatchObject({ connections: 1, mails: 2 });
});

test("TLS below 1.2 is refused", async () => {
  const handshakes: TLSSocket[] = [];
  const old = createServer(
    {
      ...authority.issue([NAME]),
      minVersion: "TLSv1",
      maxVersion: "TLSv1.1",
      ciphers: "ALL:@SECLEVEL=0",
    },
    (socket) => handshakes.push(socket),
  );
  old.on("tlsClientError", () => undefined);
  old.listen(0, "127.0.0.1");
  await once(old, "listening");
  ends.push(() => {
    old.close();
  });
  const { port } = old.address() as AddressInfo;
  expect(await mailer(port, { tls: "implicit" }).send("a", HELLO)).toMatchObject({
    kind: "failed",
  });
  expect(handshakes).toEqual([]);
});
