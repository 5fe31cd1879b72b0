import { type Readable, Writable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { finished } from "node:stream/promises";
import { setImmediate } from "node:timers/promises";
import MailComposer from "nodemailer/lib/mail-composer";
import type MimeNode from "nodemailer/lib/mime-node";
import { describe, expect, test } from "vitest";
import type { MailMessage } from "../../../src/domain/mail.ts";
import { watchReading } from "../../../src/mail/message-stream.ts";
import { mailOptions } from "../../../src/mail/smtp-options.ts";

const nothing = (): void => undefined;

function streamOf(message: MimeNode, mayContinue: () => void): Readable {
  watchReading(message, { mayContinue, onEnd: nothing });
  return message.createReadStream();
}

/** The same message twice, because a message can be read only once. */
function twice(message: Partial<MailMessage>) {
  const whole = { to: "b@example.com", subject: "Grüße", body: "", isHtml: false, ...message };
  const data = { ...mailOptions({ ...whole, messageId: "1@example.com" }, "a@example.com") };
  const compiled = () =>
    new MailComposer({ ...data, baseBoundary: "b", date: new Date(0) }).compile();
  return [compiled(), compiled()] as const;
}

/** Quoted-printable without its soft line breaks. */
const unbroken = (bytes: Buffer) => bytes.toString("latin1").replaceAll("=\r\n", "");

const BODIES: Record<string, string> = {
  nothing: "",
  "one line": "Hello",
  "a line that ends": "Hello\n",
  "a carriage return at the end": "Hello\r",
  "dots at the beginning of lines": ".\r\n..\r\n.x\r\n",
  "spaces at the ends of lines": "a \nb\t\n c ",
  "a long line": "x".repeat(2_000),
  "long words and a long line": `${"word ".repeat(300)}\n${"y".repeat(77)}`,
  "a few letters that are not ASCII": `Grüße aus Köln, ${"viele ".repeat(40)}`,
  "few letters that are ASCII": "こんにちは、世界。".repeat(50),
  "four bytes at every place of a line": Array.from(
    { length: 80 },
    (_, n) => `${"a".repeat(n)}😀`,
  ).join(" "),
  "equals signs": "a=b==c=\n".repeat(30),
  "mixed line ends": "a\nb\r\nc\rd\n\n\re",
  "half a surrogate pair": "a\ud83d b",
  "null and control characters": "a\0b\u0007c\u007f",
};

describe("the bytes are nodemailer's", () => {
  for (const isHtml of [false, true])
    test.each(Object.keys(BODIES))(`${isHtml ? "HTML" : "text"}: %s`, async (name) => {
      const [theirs, ours] = twice({ body: BODIES[name] ?? "", isHtml });
      const expected = await buffer(theirs.createReadStream());
      const bytes = await buffer(streamOf(ours, nothing));
      expect(bytes.toString("latin1")).toBe(expected.toString("latin1"));
    });

  test("a hundred kilobytes, but for where lines are broken", async () => {
    const [theirs, ours] = twice({ body: "Ünïcödé text, as people write it. ".repeat(3_000) });
    const bytes = await buffer(streamOf(ours, nothing));
    expect(unbroken(bytes)).toBe(unbroken(await buffer(theirs.createReadStream())));
    const lengths = bytes
      .toString("latin1")
      .split("\r\n")
      .map(({ length }) => length);
    expect(Math.max(...lengths)).toBeLessThanOrEqual(76);
  });

  test("hundreds of kilobytes in base64", async () => {
    const [theirs, ours] = twice({ body: "Übergrößenträger: größer. ÄÖÜäöüß€😀".repeat(6_000) });
    const expected = await buffer(theirs.createReadStream());
    const bytes = await buffer(streamOf(ours, nothing));
    expect(bytes.equals(expected)).toBe(true);
  });

  test.each(["see there", "Grüße", ""])("with an attachment to the text %j", async (body) => {
    const attachments = [{ filename: "x.bin", content: Buffer.from([0, 1, 2, 255]) }];
    const [theirs, ours] = twice({ body, attachments });
    const expected = await buffer(theirs.createReadStream());
    const bytes = await buffer(streamOf(ours, nothing));
    expect(bytes.toString("latin1")).toBe(expected.toString("latin1"));
  });
});

const attached = (contentType: string) => ({
  body: "x",
  attachments: [{ filename: "x.eml", contentType, content: Buffer.alloc(1_000_000, "\n") }],
});

describe("it goes out in slices, and in between it is everybody else's turn", () => {
  test.each([
    { what: "an attachment", message: attached("application/octet-stream") },
    { what: "a message that is attached", message: attached("message/rfc822") },
    { what: "a text", message: { body: "Hello and welcome. ".repeat(52_632) } },
    { what: "a text in base64", message: { body: "äöü".repeat(166_667) } },
    {
      what: "a text beside an attachment",
      message: { ...attached("text/plain"), body: "Hello and welcome. ".repeat(52_632) },
    },
  ])("$what", async ({ message }) => {
    const [mail] = twice(message);
    const turns = { others: 0 };
    const stop = new AbortController();
    const others = (async () => {
      while (!stop.signal.aborted) {
        await setImmediate();
        turns.others += 1;
      }
    })();
    const sizes: number[] = [];
    for await (const chunk of streamOf(mail, nothing)) sizes.push((chunk as Buffer).length);
    stop.abort();
    await others;
    expect(Math.max(...sizes)).toBeLessThanOrEqual(64 * 1024);
    expect(turns.others).toBeGreaterThanOrEqual(1_000_000 / (64 * 1024) - 1);
  });
});

test("an attachment is encoded as it goes out, not all of it before", async () => {
  const content = Buffer.alloc(1_000_000, "a");
  const [mail] = twice({ body: "x", attachments: [{ filename: "x.bin", content }] });
  const whole = Buffer.from("b".repeat(30)).toString("base64");
  let text = "";
  for await (const chunk of streamOf(mail, nothing)) {
    text += String(chunk);
    if (text.length > 100_000) content.fill("b", 500_000);
  }
  expect(text).toContain(whole);
});

describe("whether the mail may go on", () => {
  const messages = {
    "a short text": { body: "€".repeat(60_000) },
    "a long text": { body: "x".repeat(300_000) },
    "several parts": {
      body: "x",
      attachments: [{ filename: "x.bin", content: Buffer.alloc(300_000, 1) }],
    },
  };

  test.each(Object.keys(messages) as (keyof typeof messages)[])(
    "is asked before the first byte: %s",
    async (name) => {
      const [message] = twice(messages[name]);
      const stream = streamOf(message, () => {
        throw new Error("no");
      });
      let seen = 0;
      stream.on("data", (chunk: Buffer) => (seen += chunk.length));
      await expect(buffer(stream)).rejects.toThrow("no");
      expect(seen).toBe(0);
    },
  );

  test.each(Object.keys(messages) as (keyof typeof messages)[])(
    "is asked before the end: %s",
    async (name) => {
      const [message] = twice(messages[name]);
      let asked = 0;
      let ended = false;
      const stream = streamOf(message, () => {
        asked += 1;
        if (asked > 1) throw new Error("not any more");
      });
      stream.once("end", () => (ended = true));
      await expect(buffer(stream)).rejects.toThrow("not any more");
      expect(ended).toBe(false);
    },
  );

  test.each(Object.keys(messages) as (keyof typeof messages)[])(
    "is not asked about the end while what comes before has not been taken: %s",
    async (name) => {
      const [message] = twice(messages[name]);
      const waiting: (() => void)[] = [];
      const slow = new Writable({
        highWaterMark: 1,
        write: (_chunk, _encoding, done) => {
          waiting.push(done);
        },
      });
      const so = { asked: 0, taken: 0 };
      streamOf(message, () => (so.asked += 1)).pipe(slow);
      while (so.asked < 2) {
        for (let turn = 0; turn < 20; turn += 1) await setImmediate();
        expect(waiting.length).toBeLessThanOrEqual(1);
        if (so.asked === 1) so.taken += 1;
        waiting.shift()?.();
      }
      expect(so.taken).toBeGreaterThan(1);
      await finished(slow);
    },
  );

  test.each(Object.keys(messages) as (keyof typeof messages)[])(
    "its end is told of when all of it has been taken: %s",
    async (name) => {
      const [message] = twice(messages[name]);
      let taken = 0;
      let atEnd = NaN;
      watchReading(message, { mayContinue: nothing, onEnd: () => (atEnd = taken) });
      const stream = message.createReadStream();
      stream.on("data", (chunk: Buffer) => (taken += chunk.length));
      await finished(stream);
      expect(taken).toBeGreaterThan(240_000);
      expect(atEnd).toBe(taken);
    },
  );
});
