import { afterEach, describe, expect, test } from "vitest";
import { until } from "../../until.ts";
import { HELLO, mailerFixture } from "./mailer-fixture.ts";

const { catcher, mailer, scripted, scriptedServer, close } = mailerFixture();
afterEach(close);

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
      does: "refuses the mail for now",
      script: { END: "451 later" },
      retryable: true,
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
    // Short only for the cases that wait for it, and long enough to reach the command.
    const hangs = Object.values(script).includes("hang");
    const limit = { sendTimeoutMs: unknown ? 2_500 : 700 };
    expect(await mailer(port, {}, hangs ? limit : {}).send("a", HELLO)).toEqual({
      kind: "failed",
      error: expect.stringMatching(
        hangs ? /^timed out: the SMTP server did not finish within [13] s$/ : /./,
      ),
      retryable,
      outcomeUnknown: unknown,
      serverFault: fault,
      ...(hangs && !unknown ? { withdrawn: true } : {}),
    });
  });

  test("greylists some of the recipients: no repeat, which would reach the others twice", async () => {
    let asked = 0;
    const port = await scripted({ RCPT: () => ((asked += 1) === 1 ? "250 ok" : "451 later") });
    expect(await mailer(port).send("a", { ...HELLO, cc: ["bob@example.com"] })).toMatchObject({
      kind: "failed",
      retryable: false,
      reachedSome: true,
    });
  });

  test("refuses some of the recipients: they are named, whatever it says", async () => {
    let asked = 0;
    const port = await scripted({ RCPT: () => ((asked += 1) === 2 ? "250 ok" : "550 unknown") });
    const cc = ["bob@example.com", "carol@example.com"];
    expect(await mailer(port).send("a", { ...HELLO, cc })).toMatchObject({
      error: `refused for ${HELLO.to}, carol@example.com: 550 unknown`,
      reachedSome: true,
    });
  });

  // It may come at any time (RFC 5321, 3.8): with it the server is not out of step.
  test("says 421 behind the answer that it was asked for: that is what the mail failed of", async () => {
    const server = await scriptedServer({ MAIL: "250 ok\r\n421 4.3.2 shutting down" });
    expect(await mailer(server.port).send("a", HELLO)).toEqual({
      kind: "failed",
      error: expect.stringContaining("421 4.3.2 shutting down") as string,
      retryable: true,
      outcomeUnknown: false,
      serverFault: true,
    });
    expect(server.seen).toMatchObject({ connections: 1, mails: 0 });
  });

  test("closes after a mail with an attachment: nobody knows whether it has it", async () => {
    const server = await scriptedServer({ END: null });
    const attachments = [{ filename: "a.bin", content: Buffer.alloc(100) }];
    expect(await mailer(server.port).send("a", { ...HELLO, attachments })).toMatchObject({
      kind: "failed",
      retryable: true,
      outcomeUnknown: true,
    });
    expect(server.seen).toMatchObject({ connections: 1, mails: 1 });
  });

  test("closes a new connection in the middle of a mail: it is not asked again", async () => {
    const server = await scriptedServer({ DATA: null });
    expect(await mailer(server.port).send("a", HELLO)).toMatchObject({ kind: "failed" });
    expect(server.seen.connections).toBe(1);
  });

  test("closes all new connections at once: it is asked twice, however many it has closed before", async () => {
    let greets = true;
    const server = await scriptedServer({ GREETING: () => (greets ? "220 hello" : null) });
    const sending = mailer(server.port);
    for (let mail = 1; mail <= 3; mail += 1) {
      expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
      server.drop();
      await until("it is closed", () => server.seen.closed === mail);
    }
    greets = false;
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "failed", retryable: true });
    expect(server.seen).toMatchObject({ connections: 5, mails: 3 });
  });

  // Dovecot closes the connection without an answer when it has read too much.
  test.each([
    { what: "text", large: { body: "x".repeat(1_001) } },
    {
      what: "attachment",
      large: { attachments: [{ filename: "x.bin", content: Buffer.alloc(1_001) }] },
    },
  ])("says how large a mail may be: a larger $what is not brought there", async ({ large }) => {
    const server = await scriptedServer({ EHLO: "250-hi\r\n250 SIZE 1000", END: null });
    const sending = mailer(server.port, {}, { poolSize: 1 });
    expect(await sending.send("a", { ...HELLO, ...large })).toMatchObject({
      error: expect.stringContaining("too large: the SMTP server takes 1000 bytes") as string,
      retryable: false,
      outcomeUnknown: false,
      serverFault: false,
    });
    expect(server.seen).toMatchObject({ mails: 0, closed: 0 });
  });

  // nodemailer would skip them one by one, and block the whole process meanwhile.
  test.each([
    { when: "before it greets", script: { GREETING: "\r\n".repeat(100_000) } },
    { when: "in a conversation", script: { EHLO: "\r\n".repeat(100_000) } },
  ])("floods us with empty lines $when: it is hung up on", async ({ script }) => {
    const server = await scriptedServer(script);
    expect(await mailer(server.port).send("a", HELLO)).toMatchObject({
      kind: "failed",
      error: "Server response exceeds maximum allowed size",
    });
  });

  // nodemailer keeps the answers for all recipients until the last one is refused.
  test("says half a megabyte to a recipient: it is hung up on", async () => {
    const server = await scriptedServer({ RCPT: `550 ${"x".repeat(500_000)}` });
    expect(await mailer(server.port).send("a", { ...HELLO, cc: ["b@there.example"] })).toEqual({
      kind: "failed",
      error: "Server response exceeds maximum allowed size",
      retryable: true,
      outcomeUnknown: false,
      serverFault: true,
    });
    expect(server.seen.verbs.filter((verb) => verb === "RCPT")).toHaveLength(1);
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

  test("is greeted by the name that it is to know us by, for a mail and for a test", async () => {
    const { port, seen } = await scriptedServer({});
    const named = mailer(port, {}, { ehloName: "mail.sender.example" });
    expect(await named.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    expect(seen.greetedBy).toBe("mail.sender.example");
    if (!named.state.settings) throw new Error("there are settings");
    const { transcript } = await named.test("a", named.state.settings, "you@there.example");
    expect(transcript).toContain("C: EHLO mail.sender.example");
    expect(await mailer(port).send("a", HELLO)).toMatchObject({ kind: "accepted" });
    expect(seen.greetedBy).toMatch(/\.|^\[127\.0\.0\.1\]$/);
    expect(seen.greetedBy).not.toBe("mail.sender.example");
  });

  test("says more than anybody would read: the conversation is cut", async () => {
    const port = await scripted({ EHLO: `${"250-more\r\n".repeat(1_000)}250 last` });
    const sending = mailer(port);
    if (!sending.state.settings) throw new Error("there are settings");
    const { result, transcript } = await sending.test(
      "a",
      sending.state.settings,
      "you@there.example",
    );
    expect(result.kind).toBe("accepted");
    expect(transcript).toHaveLength(200);
  });

  test("closes after a test mail: nobody knows whether it has it", async () => {
    const sending = mailer(await scripted({ END: null }));
    if (!sending.state.settings) throw new Error("there are settings");
    const { result } = await sending.test("a", sending.state.settings, "you@there.example");
    expect(result).toMatchObject({ kind: "failed", outcomeUnknown: true });
  });

  describe("offers CRAM-MD5 alone", () => {
    const EHLO = "250-hi\r\n250 AUTH CRAM-MD5";

    test("the example of RFC 2195", async () => {
      const answer = "dGltIGI5MTNhNjAyYzdlZGE3YTQ5NWI0ZTZlNzMzNGQzODkw";
      const server = await scriptedServer({
        EHLO,
        AUTH: "334 PDE4OTYuNjk3MTcwOTUyQHBvc3RvZmZpY2UucmVzdG9uLm1jaS5uZXQ+",
        [answer]: "235 welcome",
      });
      const sending = mailer(server.port, { username: "tim", password: "tanstaaftanstaaf" });
      expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
      expect(server.seen.verbs).toContain(answer);
      expect(server.seen.mails).toBe(1);
    });

    test("and refuses: as wrong credentials", async () => {
      const port = await scripted({ EHLO, AUTH: "535 wrong" });
      expect(await mailer(port, { username: "u", password: "p" }).send("a", HELLO)).toMatchObject({
        kind: "failed",
        error: "Invalid login: 535 wrong",
        retryable: false,
        serverFault: true,
      });
    });

    test("and challenges with half a megabyte of spaces: nobody waits for it", async () => {
      const port = await scripted({ EHLO, AUTH: `334${" ".repeat(500_000)}\r` });
      expect(await mailer(port, { username: "u", password: "p" }).send("a", HELLO)).toMatchObject({
        kind: "failed",
      });
    }, 20_000);
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
      // Only a connection over which one mail has been sent answers so.
      MAIL: () => ((mails += 1) === 2 ? "421 idle for too long" : "250 ok"),
    });
    const sending = mailer(server.port);
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    expect(server.seen).toMatchObject({ connections: 2, mails: 2 });
  });

  test.each([
    { and: "closes it", says: "421 too many messages" },
    // As OpenSMTPD says it.
    { and: "goes on listening", says: "452 4.5.3 Too many recipients: Too many messages sent" },
  ])(
    "takes so many mails of a connection and no more, and $and: the next one goes out over a new one, once",
    async ({ says }) => {
      const warm = 3;
      const atOnce = Promise.withResolvers<void>();
      let begun = 0;
      const server = await scriptedServer({
        // Connections over which one mail has been sent answer so, one after the other.
        MAIL: () => {
          begun += 1;
          return begun > warm && begun <= 2 * warm ? says : "250 ok";
        },
        END: async () => {
          if (server.seen.mails === warm) atOnce.resolve();
          await atOnce.promise;
          return "250 queued";
        },
      });
      const sending = mailer(server.port);
      const accepted = { kind: "accepted" };
      const first = Array.from({ length: warm }, () => sending.send("a", HELLO));
      expect(await Promise.all(first)).toMatchObject(Array.from({ length: warm }, () => accepted));
      expect(await sending.send("a", HELLO)).toMatchObject(accepted);
      expect(server.seen).toMatchObject({ connections: warm + 1, mails: warm + 1 });
    },
  );

  test("takes no more mails for now, of no connection: it is refused, once over a new one, which is kept", async () => {
    let taken = 0;
    const server = await scriptedServer({
      MAIL: () => ((taken += 1) === 1 ? "250 ok" : "450 4.7.1 Error: too much mail"),
    });
    const sending = mailer(server.port, {}, { poolSize: 1 });
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    for (let mail = 1; mail <= 2; mail += 1)
      expect(await sending.send("a", HELLO)).toMatchObject({
        kind: "failed",
        error: expect.stringContaining("too much mail") as string,
        retryable: true,
        outcomeUnknown: false,
        serverFault: false,
      });
    expect(server.seen).toMatchObject({ connections: 2, mails: 1 });
  });
});

describe("a server that is out of step", () => {
  const OUT_OF_STEP = "the SMTP server says something else than what it is asked";

  test("answers a mail twice: it is accepted, and the next one goes out over a new connection", async () => {
    const server = await scriptedServer({ END: "250 queued\r\n250 queued" });
    const sending = mailer(server.port, {}, { poolSize: 1 });
    const sent = Array.from({ length: 3 }, () => sending.send("a", HELLO));
    for (const result of await Promise.all(sent))
      expect(result).toMatchObject({ kind: "accepted" });
    expect(server.seen).toMatchObject({ connections: 3, mails: 3 });
  });

  test("says so a moment later, when the next mail has begun: that goes out over a new one, once", async () => {
    let asked = 0;
    const server = await scriptedServer({
      // To MAIL, RCPT and DATA of the second mail it gives the answer before.
      DATA: () => ((asked += 1) === 2 ? "250 ok" : "354 go on"),
    });
    const sending = mailer(server.port);
    for (let mail = 1; mail <= 2; mail += 1)
      expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    expect(server.seen).toMatchObject({ connections: 2, mails: 2 });
  });

  test.each([
    { does: "greets twice", script: { GREETING: "220 hello\r\n220 hello" } },
    { does: "takes the sender twice", script: { MAIL: "250 ok\r\n250 ok" } },
    { does: "takes the mail before it is there", script: { DATA: "354 go on\r\n250 queued" } },
    { does: "takes the mail, and asks for nothing", script: { DATA: "250 queued" } },
  ])("$does: no mail is brought there", async ({ script }) => {
    const server = await scriptedServer(script);
    expect(await mailer(server.port).send("a", HELLO)).toEqual({
      kind: "failed",
      error: OUT_OF_STEP,
      retryable: true,
      outcomeUnknown: false,
      serverFault: true,
    });
    expect(server.seen.mails).toBe(0);
  });

  const UNKNOWN = {
    kind: "failed",
    error: OUT_OF_STEP,
    retryable: true,
    outcomeUnknown: true,
    serverFault: true,
  };

  test("takes half a mail: nobody knows what it has", async () => {
    const server = await scriptedServer({});
    const content = Buffer.alloc(40_000_000, "x");
    const attachments = [{ filename: "a.bin", content }];
    const sent = mailer(server.port).send("a", { ...HELLO, attachments });
    await until("it comes", () => server.seen.pieces.length > 0);
    server.stopReading();
    server.say("250 queued");
    expect(await sent).toEqual(UNKNOWN);
    server.readOn();
    await until("it is hung up on", () => server.seen.closed === 1);
    expect(server.seen.mails).toBe(0);
    // It would become part of the mail.
    expect(server.seen.pieces.join("")).not.toContain("QUIT");
  });

  test.each([
    { reply: "552 too big", retryable: false },
    { reply: "451 not now", retryable: true },
  ])(
    "refuses half a mail with $reply: it gets no more of it, and the next one goes out at once",
    async ({ reply, retryable }) => {
      const server = await scriptedServer({});
      const content = Buffer.alloc(40_000_000, "x");
      const sending = mailer(server.port, {}, { poolSize: 1 });
      const attachments = [{ filename: "a.bin", content }];
      const sent = sending.send("a", { ...HELLO, attachments });
      await until("it comes", () => server.seen.pieces.length > 0);
      server.stopReading();
      server.say(reply);
      expect(await sent).toMatchObject({ kind: "failed", retryable, outcomeUnknown: false });
      server.readOn();
      expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
      expect(server.seen).toMatchObject({ connections: 2, mails: 1 });
    },
  );

  test("asks for the mail again when it has it: nobody knows whether that is all", async () => {
    const server = await scriptedServer({ END: "354 go on" });
    expect(await mailer(server.port).send("a", HELLO)).toEqual(UNKNOWN);
    expect(server.seen).toMatchObject({ connections: 1, mails: 1 });
  });

  test("refuses the mail twice: it is refused, and the next one goes out over a new connection", async () => {
    let ends = 0;
    const server = await scriptedServer({
      END: () => ((ends += 1) === 1 ? "554 spam\r\n554 spam" : "250 queued"),
    });
    const sending = mailer(server.port, {}, { poolSize: 1 });
    expect(await sending.send("a", HELLO)).toMatchObject({
      kind: "failed",
      retryable: false,
      outcomeUnknown: false,
    });
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    expect(server.seen).toMatchObject({ connections: 2, mails: 2 });
  });
});
