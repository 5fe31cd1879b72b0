import { setImmediate } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { HELLO, mailerFixture } from "./mailer-fixture.ts";
import type { ScriptedServer } from "./scripted-server.ts";

const { mailer, scriptedServer, close } = mailerFixture();
afterEach(close);

const ABORTED = {
  kind: "failed",
  error: "aborted before the SMTP server answered",
  outcomeUnknown: false,
};

describe("a claim that is lost on the way", () => {
  test.each([
    { when: "before the first byte", asked: 1 },
    { when: "before the end of the message", asked: 2 },
  ])("$when: the mail does not leave", async ({ asked }) => {
    const server = await scriptedServer({});
    const sending = mailer(server.port);
    // On a connection that is already open, where a failure would lead to a second try.
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    let times = 0;
    const result = await sending.send("a", HELLO, { maySend: () => (times += 1) < asked });
    expect(result).toMatchObject({ kind: "failed", outcomeUnknown: false });
    expect(times).toBe(asked);
    await expect.poll(() => server.seen.closed).toBe(1);
    expect(server.seen).toMatchObject({ connections: 1, mails: 1 });
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    expect(server.seen).toMatchObject({ connections: 2, mails: 2 });
  });
});

describe("a mail that the server does not read on", () => {
  /** More than the buffers of both ends can hold. */
  const LARGE = { ...HELLO, body: `${"x".repeat(75)}\n`.repeat(400_000) };

  /** Sends a mail of which the server reads only the beginning. */
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
    const sent = mailer(server.port).send("a", LARGE, {
      ...options,
      maySend: () => {
        times += 1;
        return options.maySend?.() ?? true;
      },
    });
    await stopped.promise;
    await expect.poll(() => times).toBeGreaterThan(0);
    // A sender that does not wait for the connection would have gone on by now.
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
    // It would become part of the mail.
    expect(server.seen.pieces.join("")).not.toContain("QUIT");
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
    expect(await sent).toMatchObject(ABORTED);
  });
});

test("a signal that has come before: nobody is connected", async () => {
  const server = await scriptedServer({});
  const sent = mailer(server.port).send("a", HELLO, { signal: AbortSignal.abort() });
  expect(await sent).toMatchObject({ kind: "failed", outcomeUnknown: false });
  expect(server.seen.connections).toBe(0);
});

test("the signal ends a mail on its way", async () => {
  const asked = Promise.withResolvers<void>();
  const { port } = await scriptedServer({
    RCPT: () => {
      asked.resolve();
      return "hang";
    },
  });
  const controller = new AbortController();
  const sent = mailer(port).send("a", HELLO, { signal: controller.signal });
  await asked.promise;
  controller.abort();
  expect(await sent).toMatchObject(ABORTED);
});
