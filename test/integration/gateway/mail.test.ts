import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startScriptedServer } from "../mail/scripted-server.ts";
import { startHarness, type Harness } from "./harness.ts";

let h: Harness;
beforeAll(async () => {
  h = await startHarness();
});
afterAll(() => h.close());

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const send = (json: object, more: { key?: string; headers?: Record<string, string> } = {}) =>
  h.request({ method: "POST", path: "/send", json, ...more });
const mail = { to: "ada@example.com", subject: "Hello", body: "Hello, Ada." };
const sixDigits = (): string => /\b\d{6}\b/.exec(h.catcher.messages()[0]?.text ?? "")?.[0] ?? "";

describe("POST /send", () => {
  test("goes by the SMTP settings that were read with the key", async () => {
    const known: unknown[] = [];
    const harness = await startHarness({
      mailer: (mailer) => ({
        ...mailer,
        configured: () => Promise.reject(new Error("asked although it is known")),
        send: (account, message, options) => {
          known.push(options?.smtpRevision);
          return mailer.send(account, message, options);
        },
      }),
    });
    try {
      for (const path of ["/send", "/send/otp"])
        expect(
          await harness.request({
            method: "POST",
            path,
            json: path === "/send" ? mail : { to: mail.to },
          }),
        ).toMatchObject({
          status: 200,
        });
      const revision = await harness.settings.revision(harness.first.account);
      expect(known).toEqual([revision, revision]);
    } finally {
      await harness.close();
    }
  });

  test("200: id, to, subject, status sent, sent_at; the mail arrives", async () => {
    const reply = await send(mail);
    expect(reply.status).toBe(200);
    expect(reply.json).toEqual({
      id: expect.any(String),
      to: mail.to,
      subject: mail.subject,
      status: "sent",
      sent_at: expect.stringMatching(ISO),
    });
    const [arrived] = h.catcher.messages();
    expect(arrived).toMatchObject({
      envelopeFrom: "noreply@example.com",
      envelopeTo: [mail.to],
      subject: mail.subject,
      html: null,
    });
    expect(arrived?.text?.trim()).toBe(mail.body);
  });

  test("is_html: the body is sent as HTML", async () => {
    expect((await send({ ...mail, body: "<b>Hi</b>", is_html: true })).status).toBe(200);
    expect(h.catcher.messages()[0]?.html).toContain("<b>Hi</b>");
  });

  test("cc, bcc, reply_to, headers and attachments", async () => {
    const content = Buffer.from([0, 1, 2, 253, 254, 255]);
    const reply = await send({
      ...mail,
      cc: ["bob@example.com"],
      bcc: ["eve@example.com"],
      reply_to: "help@example.com",
      headers: { "X-Campaign": "spring" },
      attachments: [
        { filename: "a.bin", content: content.toString("base64"), content_type: "application/x-a" },
      ],
    });
    expect(reply.status).toBe(200);
    const [arrived] = h.catcher.messages();
    expect(arrived?.envelopeTo).toEqual([mail.to, "bob@example.com", "eve@example.com"]);
    expect(arrived?.raw.toString()).not.toContain("eve@example.com");
    expect(arrived?.replyTo).toContain("help@example.com");
    expect(arrived?.headers).toContainEqual({ name: "x-campaign", value: "spring" });
    expect(arrived?.attachments).toEqual([
      { filename: "a.bin", contentType: "application/x-a", bytes: content.length },
    ]);
  });

  const refused = [
    { name: "to missing", json: { subject: "s", body: "b" }, field: "to" },
    { name: "subject missing", json: { to: mail.to, body: "b" }, field: "subject" },
    { name: "body missing", json: { to: mail.to, subject: "s" }, field: "body" },
    { name: "to empty", json: { ...mail, to: "" }, field: "to" },
    { name: "to null", json: { ...mail, to: null }, field: "to" },
    { name: "subject empty", json: { ...mail, subject: "" }, field: "subject" },
    { name: "body empty", json: { ...mail, body: "" }, field: "body" },
    { name: "body a number", json: { ...mail, body: 1 }, field: "body" },
    { name: "is_html a string", json: { ...mail, is_html: "true" }, field: "is_html" },
    { name: "an unknown field", json: { ...mail, form: "x" }, field: "form" },
    { name: "a list of recipients", json: { ...mail, to: "a@x.io,b@x.io" }, field: "to" },
    { name: "a display name", json: { ...mail, to: "Ada <ada@x.io>" }, field: "to" },
    { name: "CR LF in to", json: { ...mail, to: "a@x.io\r\nBcc: b@x.io" }, field: "to" },
    { name: "CR LF in subject", json: { ...mail, subject: "a\r\nBcc: b@x.io" }, field: "subject" },
    { name: "a subject too long", json: { ...mail, subject: "s".repeat(999) }, field: "subject" },
    { name: "a bad cc", json: { ...mail, cc: ["a@x.io", "nobody"] }, field: "cc.1" },
    { name: "a bad bcc", json: { ...mail, bcc: ["a@x.io", "nobody"] }, field: "bcc.1" },
    { name: "a bad reply_to", json: { ...mail, reply_to: "nobody" }, field: "reply_to" },
    { name: "cc not a list", json: { ...mail, cc: "a@x.io" }, field: "cc" },
    { name: "51 in bcc", json: { ...mail, bcc: Array(51).fill("a@x.io") }, field: "bcc" },
    {
      name: "51 in cc and bcc",
      json: { ...mail, cc: Array(26).fill("a@x.io"), bcc: Array(25).fill("a@x.io") },
      field: "cc",
    },
    { name: "a reserved header", json: { ...mail, headers: { FROM: "x" } }, field: "headers.FROM" },
    {
      name: "a header with CR LF",
      json: { ...mail, headers: { "X-A": "a\r\nBcc: b@x.io" } },
      field: "headers.X-A",
    },
    {
      name: "a header without a value, which would not arrive",
      json: { ...mail, headers: { "X-A": " " } },
      field: "headers.X-A",
    },
    {
      name: "a header with a word that no line of a mail takes",
      json: { ...mail, headers: { "X-A": `a ${"x".repeat(996)}` } },
      field: "headers.X-A",
    },
    {
      name: "a header with spaces that fill a line",
      json: { ...mail, headers: { "X-A": `a${" ".repeat(70)}b` } },
      field: "headers.X-A",
    },
    {
      name: "a header of message ids that is not ASCII",
      json: { ...mail, headers: { "in-reply-to": "<é@x.io>" } },
      field: "headers.in-reply-to",
    },
    {
      name: "a header given twice",
      json: { ...mail, headers: { "X-A": "a", "x-a": "b" } },
      field: "headers.x-a",
    },
    {
      name: "a header given twice, the second time in capitals",
      json: { ...mail, headers: { "x-a": "a", "X-A": "b" } },
      field: "headers.X-A",
    },
    {
      name: "a header name with a colon",
      json: { ...mail, headers: { "X:A": "a" } },
      field: "headers.X:A",
    },
    {
      name: "an attachment by path",
      json: { ...mail, attachments: [{ filename: "p", path: "/etc/passwd" }] },
      field: "attachments.0.content",
    },
    {
      name: "an attachment that is no base64",
      json: { ...mail, attachments: [{ filename: "p", content: "a-b_" }] },
      field: "attachments.0.content",
    },
    {
      name: "an attachment with base64 behind its end",
      json: { ...mail, attachments: [{ filename: "p", content: "QQ==QQ==" }] },
      field: "attachments.0.content",
    },
    {
      name: "an attachment with a letter that only looks like base64 to a decoder",
      json: { ...mail, attachments: [{ filename: "p", content: "QQQ\u0141" }] },
      field: "attachments.0.content",
    },
    {
      name: "a multipart attachment",
      json: {
        ...mail,
        attachments: [{ filename: "p", content: "QQ==", content_type: "Multipart/mixed" }],
      },
      field: "attachments.0.content_type",
    },
    {
      name: "an attachment's name with a slash",
      json: { ...mail, attachments: [{ filename: "../p", content: "" }] },
      field: "attachments.0.filename",
    },
    { name: "a body over 5 MiB", json: { ...mail, body: "é".repeat(2_621_441) }, field: "body" },
    {
      name: "attachments over 10 MiB",
      json: {
        ...mail,
        attachments: [1, 2].map((n) => ({ filename: `${n}`, content: "AAAA".repeat(1_400_000) })),
      },
      field: "attachments",
    },
  ];
  test.each(refused)("400: $name", async ({ json, field }) => {
    const before = h.catcher.messages().length;
    const reply = await send(json);
    expect(reply.status).toBe(400);
    expect(reply.json).toMatchObject({ error: expect.any(String), code: "invalid_request" });
    expect(reply.json["details"]).toContainEqual({ field, message: expect.any(String) });
    expect(h.catcher.messages()).toHaveLength(before);
  });
  test.each([
    "From Sender To Cc Bcc Reply-To Subject Date Message-ID MIME-Version Return-Path Received Delivered-To",
    "DKIM-Signature DomainKey-Signature Authentication-Results Received-SPF ARC-Seal",
    "Content-Type content-transfer-encoding Resent-To Resent-Bcc Apparently-To",
  ])("400: headers that address, identify, structure or vouch for a message: %s", async (names) => {
    const headers = names.split(" ");
    const reply = await send({
      ...mail,
      headers: Object.fromEntries(headers.map((name) => [name, "x@x.io"])),
    });
    const message = "is reserved and cannot be set";
    expect(reply.json["details"]).toEqual(
      headers.map((name) => ({ field: `headers.${name}`, message })),
    );
  });
  // Other services' APIs have these.
  test.each([
    { field: "from", says: "the sender is the From address of the account's SMTP settings" },
    { field: "html", says: "the text goes into body; is_html: true says that it is HTML" },
    { field: "text", says: "the text goes into body" },
  ])("400: $field is not a field, and what has it is said", async ({ field, says }) => {
    const reply = await send({ ...mail, [field]: "x" });
    const message = expect.stringContaining(`is not a known field; ${says}`);
    expect(reply.json["details"]).toEqual([{ field, message }]);
  });

  test("a body of 5 MiB and attachments of 10 MiB go through", async () => {
    const reply = await send({
      ...mail,
      body: "x".repeat(5 * 1024 * 1024),
      attachments: [{ filename: "big.bin", content: "AAAA".repeat(2.5 * 1024 * 1024) }],
    });
    expect(reply.status).toBe(200);
    expect(h.catcher.messages()[0]?.attachments[0]?.bytes).toBe(7.5 * 1024 * 1024);
  });

  test("422: no SMTP configuration; 400 comes first, and nothing is logged", async () => {
    const { key } = h.withoutSmtp;
    const reply = await send(mail, { key });
    expect(reply.status).toBe(422);
    expect(reply.json).toMatchObject({
      code: "smtp_not_configured",
      error: expect.stringContaining("admin smtp set"),
    });
    expect((await send({ ...mail, to: "" }, { key })).status).toBe(400);
    expect((await h.request({ path: "/logs", key })).json["total"]).toBe(0);
  });

  test("429: too many mails wait for the account's server; nothing is logged, and no code counts", async () => {
    let full = true;
    const harness = await startHarness({
      mailer: (mailer) => ({
        ...mailer,
        send: async (...sent) =>
          full
            ? {
                kind: "failed",
                error: "too many mails wait",
                retryable: true,
                outcomeUnknown: false,
                queueFull: true,
              }
            : mailer.send(...sent),
      }),
    });
    try {
      const requests = [
        { path: "/send", json: mail },
        { path: "/send/otp", json: { to: mail.to } },
      ].map((request) => ({
        method: "POST",
        headers: { "Idempotency-Key": "of-a-crowd" },
        ...request,
      }));
      for (const request of requests) {
        const { status, headers, json } = await harness.request(request);
        expect({ status, retryAfter: headers.get("retry-after"), json }).toEqual({
          status: 429,
          retryAfter: "5",
          json: { code: "rate_limited", error: "too many mails wait" },
        });
      }
      expect((await harness.request({ path: "/logs" })).json["total"]).toBe(0);
      const { rows } = await harness.pool.query("select active, code_hmac from otps");
      expect(rows).toEqual([{ active: false, code_hmac: null }]);
      full = false;
      for (const request of requests) expect((await harness.request(request)).status).toBe(200);
    } finally {
      await harness.close();
    }
  });

  test("500: SMTP server unreachable; logged as failed with its text", async () => {
    const { key } = await h.newAccount("unreachable", 9);
    const reply = await send(mail, { key });
    expect(reply.status).toBe(500);
    expect(reply.json).toEqual({ error: expect.any(String), code: "smtp_failed" });
    const { json } = await h.request({ path: "/logs?status=failed", key });
    expect(json).toMatchObject({
      total: 1,
      logs: [{ status: "failed", error_message: reply.json["error"], kind: "email", to: mail.to }],
    });
  });
});

/** Changes the port of the SMTP server of `brokenSmtp`. */
const sendThrough = (port: number) =>
  h.settings.set(h.brokenSmtp.account, {
    host: "127.0.0.1",
    port,
    username: null,
    password: null,
    from: "noreply@example.com",
    tls: "none",
  });

/** The outcomes of so many requests for codes, through a server that delivers none of them. */
async function codesUnsent(times: number): Promise<unknown[]> {
  const answers: unknown[] = [];
  for (let time = 0; time < times; time += 1)
    answers.push((await issue("unsent@example.com", h.brokenSmtp.key)).json["code"]);
  return answers;
}

/** Accepts the first recipient and refuses all others. */
function someRefused(because = "no such user"): () => string {
  let asked = 0;
  return () => ((asked += 1) === 1 ? "250 ok" : `550 ${because}`);
}

/** Makes the request with this key look as if it had begun so long ago and never ended. */
const ageOrder3 = (interval: string) =>
  h.pool.query(
    `update idempotency_keys set status = null, body = null, started_at = now() - $1::interval
     where key = 'order-3'`,
    [interval],
  );

describe("Idempotency-Key on POST /send", () => {
  test("the same key and body: one mail, the same answer", async () => {
    const headers = { "Idempotency-Key": "order-1" };
    const first = await send(mail, { headers });
    const arrived = h.catcher.messages().length;
    const second = await send(mail, { headers });
    expect(second.text).toBe(first.text);
    expect(second.headers.get("idempotency-replayed")).toBe("true");
    expect(h.catcher.messages()).toHaveLength(arrived);
  });
  test("409 for a different body", async () => {
    const headers = { "Idempotency-Key": "of-one-body" };
    await send(mail, { headers });
    const reply = await send({ ...mail, subject: "Other" }, { headers });
    expect(reply.status).toBe(409);
    expect(reply.json).toMatchObject({
      code: "idempotency_mismatch",
      error: expect.stringContaining("use another key"),
    });
  });
  test("another account's key is another key", async () => {
    const headers = { "Idempotency-Key": "of-one-account" };
    await send(mail, { headers });
    const reply = await send({ ...mail, subject: "Other" }, { headers, key: h.second.key });
    expect(reply.status).toBe(200);
  });
  test("another endpoint's key is another key", async () => {
    const headers = { "Idempotency-Key": "of-one-endpoint" };
    await send(mail, { headers });
    const json = { to: "endpoint@example.com" };
    const reply = await h.request({ method: "POST", path: "/send/otp", json, headers });
    expect(reply.status).toBe(200);
  });
  test("a failure frees the key", async () => {
    const headers = { "Idempotency-Key": "order-2" };
    const { key } = h.brokenSmtp;
    expect((await send(mail, { key, headers })).status).toBe(500);
    expect((await send({ ...mail, subject: "Again" }, { key, headers })).status).toBe(500);
  });
  test.each([
    {
      name: "lost after DATA",
      script: { END: null },
      note: "the mail may have been sent all the same",
    },
    {
      name: "taken for some of its recipients",
      script: { RCPT: someRefused() },
      note: "the mail was sent to its other recipients",
    },
    {
      name: "refused for some at length, in characters of two code units",
      script: { RCPT: someRefused(`x${"🔔".repeat(600)}`) },
      note: "the mail was sent to its other recipients",
    },
  ])("a mail $name is not sent again under its key", async ({ name, script, note }) => {
    const server = await startScriptedServer(script);
    await sendThrough(server.port);
    const headers = { "Idempotency-Key": name };
    const { key } = h.brokenSmtp;
    const message = { ...mail, cc: ["bob@example.com"] };
    const first = await send(message, { key, headers });
    const second = await send(message, { key, headers });
    await sendThrough(9);
    server.close();
    expect([first.status, first.json["code"]]).toEqual([500, "smtp_failed"]);
    // A caller without a key has to know as well.
    expect(first.json["error"]).toContain(note);
    expect(String(first.json["error"]).isWellFormed()).toBe(true);
    expect([second.status, second.json["code"]]).toEqual([409, "outcome_unknown"]);
    expect(server.seen.mails).toBe(1);
  });
  test("without a key, a mail that some have is said to be so", async () => {
    const server = await startScriptedServer({ RCPT: someRefused() });
    await sendThrough(server.port);
    const reply = await send({ ...mail, cc: ["bob@example.com"] }, { key: h.brokenSmtp.key });
    await sendThrough(9);
    server.close();
    expect([reply.status, reply.json["code"]]).toEqual([500, "smtp_failed"]);
    expect(reply.json["error"]).toContain("the mail was sent to its other recipients");
  });
  test("a mail whose key cannot be completed was sent: that is the answer", async () => {
    const headers = { "Idempotency-Key": "k".repeat(256) };
    const table = "alter table idempotency_keys";
    await h.pool.query(`${table} add constraint refused check (status is null) not valid`);
    const reply = await send(mail, { headers });
    await h.pool.query(`${table} drop constraint refused`);
    expect([reply.status, reply.json["status"]]).toEqual([200, "sent"]);
    const again = await send(mail, { headers });
    expect([again.status, again.json["code"]]).toEqual([409, "idempotency_in_flight"]);
  });
  test("in flight: 409 idempotency_in_flight, after 60 s outcome_unknown", async () => {
    const headers = { "Idempotency-Key": "order-3" };
    await send(mail, { headers });
    await ageOrder3("30 seconds");
    const busy = await send(mail, { headers });
    expect([busy.status, busy.json["code"]]).toEqual([409, "idempotency_in_flight"]);
    expect(busy.headers.get("retry-after")).toBe("1");
    await ageOrder3("61 seconds");
    const lost = await send(mail, { headers });
    expect([lost.status, lost.json["code"]]).toEqual([409, "outcome_unknown"]);
  });
  test.each([
    { name: "empty", key: "" },
    { name: "257 characters", key: "k".repeat(257) },
    { name: "not ASCII", key: "é" },
  ])("400: $name", async ({ key }) => {
    const reply = await send(mail, { headers: { "Idempotency-Key": key } });
    expect(reply.status).toBe(400);
    expect(reply.json["details"]).toContainEqual(
      expect.objectContaining({ field: "Idempotency-Key" }),
    );
  });
});

const issue = (to: string, key = h.first.key) =>
  h.request({ method: "POST", path: "/send/otp", json: { to }, key });
const verify = (email: string, code: string, key = h.first.key) =>
  h.request({ method: "POST", path: "/verify/otp", json: { email, code }, key });

describe("one-time passcodes", () => {
  const wrong = { error: "invalid or expired OTP", code: "invalid_otp" };

  test("POST /send/otp 200: message and expires_at ten minutes on; verified once, whatever the case", async () => {
    const before = h.clock.now();
    const sent = await issue("Otp.User@Example.com");
    expect(sent.status).toBe(200);
    expect(sent.json).toEqual({
      message: expect.any(String),
      expires_at: expect.stringMatching(ISO),
    });
    // Both times are PostgreSQL's, but this process's measurement of its clock is off by some milliseconds.
    const issued = Date.parse(String(sent.json["expires_at"])) - 600_000;
    expect(issued).toBeGreaterThan(before - 1_000);
    expect(issued).toBeLessThan(h.clock.now() + 1_000);
    const code = sixDigits();
    expect(code).toMatch(/^\d{6}$/);
    const right = await verify("otp.user@EXAMPLE.com", code);
    expect(right.status).toBe(200);
    expect(right.json).toEqual({ verified: true, message: "OTP verified" });
    const again = await verify("otp.user@example.com", code);
    expect([again.status, again.json]).toEqual([400, wrong]);
    const { text } = await h.metrics.render();
    for (const outcome of ["sent", "verified", "refused"])
      expect(text).toMatch(new RegExp(`^carillon_otps_total.outcome="${outcome}". [1-9]`, "m"));
  });

  test("a new send invalidates the old code", async () => {
    await issue("twice@example.com");
    const old = sixDigits();
    await issue("twice@example.com");
    const current = sixDigits();
    // Once in a million the new code is the same as the old one.
    expect(old === current ? wrong : (await verify("twice@example.com", old)).json).toEqual(wrong);
    expect((await verify("twice@example.com", current)).status).toBe(200);
  });

  test("POST /verify/otp 400: expired", async () => {
    await issue("late@example.com");
    await h.pool.query("update otps set expires_at = now() where address = 'late@example.com'");
    expect((await verify("late@example.com", sixDigits())).json).toEqual(wrong);
  });

  test.each(["000000", "12345", "1234567", "abcdef", "１２３４５６", " 12345"])(
    "POST /verify/otp 400: %j with the one text",
    async (code) => {
      const reply = await verify("nobody@example.com", code);
      expect([reply.status, reply.json]).toEqual([400, wrong]);
    },
  );

  test("another account's code does not verify", async () => {
    await issue("shared@example.com");
    const reply = await verify("shared@example.com", sixDigits(), h.second.key);
    expect([reply.status, reply.json]).toEqual([400, wrong]);
  });

  test("400: a field missing", async () => {
    for (const json of [{}, { email: "a@x.io" }, { code: "123456" }]) {
      const reply = await h.request({ method: "POST", path: "/verify/otp", json });
      expect([reply.status, reply.json["code"]]).toEqual([400, "invalid_request"]);
    }
    const reply = await h.request({ method: "POST", path: "/send/otp", json: {} });
    expect([reply.status, reply.json["error"]]).toEqual([400, "to: is required"]);
  });

  test("422 for both without SMTP configuration", async () => {
    const { key } = h.withoutSmtp;
    expect((await issue("a@example.com", key)).json["code"]).toBe("smtp_not_configured");
    expect((await verify("a@example.com", "123456", key)).status).toBe(422);
  });

  test("422 for one more code leaves the one before alone", async () => {
    const { account, key } = await h.newAccount("settings gone", h.catcher.smtpPort);
    await issue("kept@example.com", key);
    const code = sixDigits();
    const settings = await h.settings.get(account);
    if (settings === undefined) throw new Error("settings");
    await h.settings.delete(account);
    expect((await issue("kept@example.com", key)).status).toBe(422);
    await h.settings.set(account, settings);
    expect((await verify("kept@example.com", code, key)).status).toBe(200);
  });

  test("500 when the mail fails: the code never counts, nor does the one before", async () => {
    const { key } = h.brokenSmtp;
    const reply = await issue("a@example.com", key);
    expect([reply.status, reply.json["code"]]).toEqual([500, "smtp_failed"]);
    const { rows } = await h.pool.query(
      "select 1 from otps where account = $1 and (active or code_hmac is not null)",
      [h.brokenSmtp.account],
    );
    expect(rows).toHaveLength(0);
  });

  test.each([
    { what: "made to count", allows: "not active", code: "internal", status: "sent" },
    {
      what: "discarded",
      allows: "code_hmac is not null",
      code: "smtp_failed",
      status: "failed",
    },
  ])(
    "the mail of a code that cannot be $what is logged all the same",
    async ({ what, allows, code, status }) => {
      // Nothing listens on the discard port.
      const { key } = await h.newAccount(what, status === "sent" ? h.catcher.smtpPort : 9);
      await h.pool.query(`alter table otps add constraint refused check (${allows}) not valid`);
      const reply = await issue("marked@example.com", key);
      await h.pool.query("alter table otps drop constraint refused");
      const { json } = await h.request({ path: "/logs", key });
      expect(json["logs"]).toMatchObject([{ kind: "otp", to: "marked@example.com", status }]);
      expect([reply.status, reply.json["code"]]).toEqual([500, code]);
    },
  );

  test("a code whose mail cannot be logged counts all the same", async () => {
    const table = "alter table email_log";
    await h.pool.query(`${table} add constraint refused check (kind <> 'otp') not valid`);
    const reply = await issue("unlogged@example.com");
    await h.pool.query(`${table} drop constraint refused`);
    expect([reply.status, reply.json["message"]]).toEqual([200, "OTP sent"]);
    expect((await verify("unlogged@example.com", sixDigits())).status).toBe(200);
    const { json } = await h.request({ path: "/logs?to=unlogged@example.com" });
    expect(json["total"]).toBe(0);
  });

  test("429 on the sixth send in ten minutes", async () => {
    const begun = performance.now();
    for (let sends = 1; sends <= 5; sends += 1)
      expect((await issue("often@example.com")).status).toBe(200);
    const reply = await issue("often@example.com");
    expect([reply.status, reply.json["code"]]).toEqual([429, "otp_rate_limited"]);
    expect(reply.json["error"]).toContain("Retry-After");
    const elapsed = (performance.now() - begun) / 1_000;
    expect(Number(reply.headers.get("retry-after"))).toBeGreaterThan(599 - elapsed);
  });

  test("sends that nobody can have do not count, those that may have arrived do", async () => {
    expect(await codesUnsent(6)).toEqual(Array(6).fill("smtp_failed"));
    const server = await startScriptedServer({ END: null });
    await sendThrough(server.port);
    expect(await codesUnsent(6)).toEqual([...Array(5).fill("smtp_failed"), "otp_rate_limited"]);
    await sendThrough(9);
    server.close();
  });

  test("sends whose mail was not tried, because of something on our side, do not count", async () => {
    const { account, key } = await h.newAccount("unreadable", h.catcher.smtpPort);
    const unreadable = "test:" + Buffer.alloc(64).toString("base64");
    await h.pool.query(
      "update smtp_settings set username = 'u', password = $2, revision = uuidv7() where account = $1",
      [account, unreadable],
    );
    for (let sends = 1; sends <= 6; sends += 1)
      expect((await issue("untried@example.com", key)).json["code"]).toBe("internal");
    const { rows } = await h.pool.query("select code_hmac, sends from otps where account = $1", [
      account,
    ]);
    expect(rows).toEqual([{ code_hmac: null, sends: [] }]);
  });

  test("the code is in no log entry and in no log line", async () => {
    await issue("secret@example.com");
    const code = sixDigits();
    const { text } = await h.request({ path: "/logs?limit=1000&kind=otp" });
    expect(text).toContain("secret@example.com");
    expect(text).not.toContain(code);
    expect(h.lines.join("")).not.toMatch(new RegExp(`\\b${code}\\b`));
  });

  test("the code is in no log where the mail server quotes what it refuses", async () => {
    const server = await startScriptedServer({
      END: () => `550 looks like spam: ${/code is \d{6}/.exec(server.seen.pieces.join(""))?.[0]}`,
    });
    const { key } = await h.newAccount("quoted", server.port);
    const reply = await issue("quoted@example.com", key);
    const { json } = await h.request({ path: "/logs", key });
    server.close();
    const error = expect.stringContaining("looks like spam: code is ••••••");
    expect(reply.json).toEqual({ error, code: "smtp_failed" });
    expect(json["logs"]).toMatchObject([{ kind: "otp", status: "failed", error_message: error }]);
  });
});

describe("GET /logs", () => {
  /** Key of an account of its own, whose log contains nine mails and then two passcodes. */
  let key: string;
  beforeAll(async () => {
    ({ key } = await h.newAccount("logs", h.catcher.smtpPort));
    for (let n = 0; n < 9; n += 1) await send(mail, { key });
    for (let n = 0; n < 2; n += 1) await issue("otp@example.com", key);
  });
  const logs = async (query = "") => (await h.request({ path: `/logs${query}`, key })).json;

  test("logs, total, limit 10 and offset 0; newest first; exactly the entry's fields", async () => {
    const json = await logs();
    expect(json).toEqual({ logs: expect.any(Array), total: 11, limit: 10, offset: 0 });
    const entries = json["logs"] as Record<string, unknown>[];
    expect(entries).toHaveLength(10);
    const times = entries.map((entry) => String(entry["sent_at"]));
    expect(times).toEqual(times.toSorted().toReversed());
    expect(entries[0]).toEqual({
      id: expect.any(String),
      to: "otp@example.com",
      subject: expect.any(String),
      status: "sent",
      error_message: null,
      sent_at: expect.stringMatching(ISO),
      kind: "otp",
    });
  });
  test("limit, offset, status, kind and to", async () => {
    const all = await logs("?limit=1000");
    const page = await logs("?limit=2&offset=1");
    expect(page["logs"]).toEqual((all["logs"] as unknown[]).slice(1, 3));
    expect(page["total"]).toBe(all["total"]);
    expect((await logs("?status=failed"))["total"]).toBe(0);
    expect((await logs("?kind=otp"))["total"]).toBe(2);
    expect((await logs("?kind=email&to=otp@example.com"))["total"]).toBe(0);
    expect((await logs(`?kind=email&to=${mail.to}`))["total"]).toBe(9);
  });
  test("another account sees nothing of it", async () => {
    const { json } = await h.request({ path: "/logs?to=otp@example.com", key: h.second.key });
    expect(json["total"]).toBe(0);
  });
  test.each(["limit=0", "limit=1001", "limit=x", "offset=-1", "status=done", "page=2"])(
    "400: %s",
    async (query) => {
      const reply = await h.request({ path: `/logs?${query}` });
      expect([reply.status, reply.json["code"]]).toEqual([400, "invalid_request"]);
    },
  );
});
