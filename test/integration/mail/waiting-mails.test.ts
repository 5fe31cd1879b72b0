import { setImmediate } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { MailResult } from "../../../src/domain/mail.ts";
import { until } from "../../until.ts";
import { HELLO, mailerFixture } from "./mailer-fixture.ts";

const { catcher, mailer, scriptedServer, close } = mailerFixture();
afterEach(close);

const ONE = { poolSize: 1 };
/** A signal like that of a job's run, which its worker could end. */
const neverEnded = (): AbortSignal => new AbortController().signal;

async function twoAtOnce({ port }: { port: number }) {
  const sending = mailer(port, {}, { poolSize: 2 });
  return Promise.all([sending.send("a", HELLO), sending.send("a", HELLO)]);
}

/** A server that is used over one connection, and takes long to accept the first mail. */
async function busy() {
  const first = Promise.withResolvers<string>();
  let ends = 0;
  const server = await scriptedServer({
    END: () => ((ends += 1) === 1 ? first.promise : "250 queued"),
  });
  const sending = mailer(server.port, {}, ONE);
  const inFlight = sending.send("a", HELLO, { signal: neverEnded() });
  await until("the first mail at the server", () => server.seen.mails === 1);
  return {
    server,
    sending,
    inFlight,
    goOn: () => {
      first.resolve("250 queued");
    },
    /** Sends one more; resolves when it waits. */
    wait: async (signal?: AbortSignal) => {
      const { revisions } = sending.state;
      const sent = sending.send("a", HELLO, signal && { signal });
      await until("its settings", () => sending.state.revisions > revisions);
      for (let turn = 0; turn < 10; turn += 1) await setImmediate();
      return { sent };
    },
  };
}

/** The account's settings become those of another server: it gets the next mail, and the one that waits. */
async function goesBy(
  other: Awaited<ReturnType<typeof catcher>>,
  sending: ReturnType<typeof mailer>,
  waiting: Promise<MailResult>,
): Promise<void> {
  const { settings } = sending.state;
  if (settings === undefined) throw new Error("settings");
  sending.state.settings = { ...settings, port: other.smtpPort, revision: "2" };
  expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
  expect(await waiting).toMatchObject({ kind: "accepted" });
  expect(other.messages()).toHaveLength(2);
}

describe("a mail that waits for a connection", () => {
  test("has all its time when its turn comes", async () => {
    let ends = 0;
    const server = await scriptedServer({ END: () => ((ends += 1) < 3 ? "hang" : "250 queued") });
    // Long enough to send a mail up to its end, on a busy machine, too.
    const sending = mailer(server.port, {}, { ...ONE, sendTimeoutMs: 2_500 });
    // Each of the first two takes all of its own time.
    const sent = [1, 2, 3].map(() => sending.send("a", HELLO, { signal: neverEnded() }));
    expect(await Promise.all(sent)).toMatchObject([
      { kind: "failed", outcomeUnknown: true },
      { kind: "failed", outcomeUnknown: true },
      { kind: "accepted" },
    ]);
    expect(server.seen).toMatchObject({ connections: 3, mails: 3 });
  });

  test("does so no longer than a mail may take, when nobody could end it", async () => {
    const server = await scriptedServer({ RCPT: "hang" });
    const sending = mailer(server.port, {}, { ...ONE, sendTimeoutMs: 700 });
    const ofJobs = [
      sending.send("a", HELLO, { signal: neverEnded() }),
      sending.send("a", HELLO, { signal: neverEnded() }),
    ];
    const result = await sending.send("a", HELLO);
    expect(result).toEqual({
      kind: "failed",
      error: expect.stringMatching(/^the account's SMTP server is busy: .*not sent$/),
      retryable: true,
      outcomeUnknown: false,
      serverFault: false,
    });
    expect(await Promise.all(ofJobs)).toMatchObject([{ serverFault: true }, { serverFault: true }]);
    expect(server.seen.connections).toBe(2);
  });

  // The longest that wait are the next to have a turn: cut off on their way, all would fail, and some be sent all the same.
  test.each([
    { waits: 49_000, is: { kind: "accepted" }, mails: 2 },
    {
      waits: 51_000,
      is: {
        error:
          "the account's SMTP server is busy: no connection was free for the mail within 50 s, it was not sent",
        outcomeUnknown: false,
      },
      mails: 1,
    },
  ])("begins only with time left to be sent: after $waits ms", async ({ waits, is, mails }) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const { inFlight, wait, goOn, server } = await busy();
      const { sent } = await wait();
      await vi.advanceTimersByTimeAsync(waits);
      goOn();
      expect(await inFlight).toMatchObject({ kind: "accepted" });
      expect(await sent).toMatchObject(is);
      expect(server.seen.mails).toBe(mails);
    } finally {
      vi.useRealTimers();
    }
  });

  test("ends with its signal, and is not sent", async () => {
    const { inFlight, wait, goOn, sending, server } = await busy();
    const controller = new AbortController();
    const { sent } = await wait(controller.signal);
    controller.abort();
    expect(await sent).toMatchObject({
      kind: "failed",
      error: "aborted before the SMTP server answered",
      retryable: true,
      outcomeUnknown: false,
    });
    goOn();
    expect(await inFlight).toMatchObject({ kind: "accepted" });
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "accepted" });
    expect(server.seen).toMatchObject({ connections: 1, mails: 2 });
  });

  test("makes no crowd that fills the memory: one too many is told at once, those of jobs are not", async () => {
    const { inFlight, wait, sending } = await busy();
    const waiting = Array.from({ length: 500 }, () => sending.send("a", HELLO));
    expect(await sending.send("a", HELLO)).toMatchObject({ kind: "failed", queueFull: true });
    expect((await sending.metrics.render()).text).toContain(
      'carillon_emails_total{kind="email",outcome="queue_full"} 1',
    );
    const controller = new AbortController();
    const { sent } = await wait(controller.signal);
    controller.abort();
    expect(await sent).toMatchObject({ error: "aborted before the SMTP server answered" });
    expect(await sending.send("b", HELLO)).toMatchObject({ kind: "accepted" });
    await sending.close();
    for (const result of await Promise.all(waiting)) expect(result).not.toHaveProperty("queueFull");
    await inFlight;
  });

  test("goes in its turn", async () => {
    const { inFlight, sending, goOn } = await busy();
    const order: number[] = [];
    const waiting = [1, 2, 3].map(async (mail) => {
      const result = await sending.send("a", HELLO, { signal: neverEnded() });
      order.push(mail);
      return result.kind;
    });
    goOn();
    await inFlight;
    expect(await Promise.all(waiting)).toEqual(["accepted", "accepted", "accepted"]);
    expect(order).toEqual([1, 2, 3]);
  });

  test("goes by new settings, when they come meanwhile", async () => {
    const { inFlight, wait, goOn, sending, server } = await busy();
    const other = await catcher();
    const { sent } = await wait(neverEnded());
    await goesBy(other, sending, sent);
    goOn();
    expect(await inFlight).toMatchObject({ kind: "accepted" });
    await until("the old connection closed", () => server.seen.closed === 1);
    expect(server.seen.mails).toBe(1);
  });

  test("does so too when its caller had just read the old ones", async () => {
    const { inFlight, goOn, sending } = await busy();
    const other = await catcher();
    const smtpRevision = sending.state.settings?.revision;
    const sent = sending.send("a", HELLO, { signal: neverEnded(), smtpRevision });
    await goesBy(other, sending, sent);
    goOn();
    expect(await inFlight).toMatchObject({ kind: "accepted" });
  });

  test("is unconfigured when the settings are deleted meanwhile", async () => {
    const { wait, sending } = await busy();
    const { sent } = await wait(neverEnded());
    sending.state.settings = undefined;
    expect(await sending.send("a", HELLO)).toEqual({ kind: "unconfigured" });
    expect(await sent).toEqual({ kind: "unconfigured" });
  });

  test("hears of the end of the program", async () => {
    const { inFlight, wait, sending, server } = await busy();
    const { sent } = await wait(neverEnded());
    await sending.close();
    expect(await sent).toMatchObject({
      kind: "failed",
      retryable: true,
      outcomeUnknown: false,
      serverFault: false,
    });
    expect(await inFlight).toMatchObject({ kind: "failed", outcomeUnknown: true });
    expect(server.seen.mails).toBe(1);
  });
});

describe("a server that takes fewer connections at once than we have", () => {
  const AT_ONCE = 3;
  const MAILS = 12;

  /** The answers of real servers, and when they give them: Exim, Postfix, Microsoft 365. */
  test.each([
    { where: "when greeting", verb: "GREETING", says: "421 Too many concurrent SMTP connections" },
    { where: "at the sender", verb: "MAIL", says: "421 4.7.0 Error: too many connections" },
    { where: "at a mail's end", verb: "END", says: "432 4.3.2 Concurrent connections limit" },
  ])("and says so $where gets all mails, each once", async ({ verb, says }) => {
    const refused = Promise.withResolvers<void>();
    let taken = 0;
    let inside = 0;
    const full = (): boolean =>
      verb === "END" ? inside > AT_ONCE : server.seen.connections - server.seen.closed > AT_ONCE;
    const orRefuse = (friendly: string) => (): string => {
      if (!full()) return friendly;
      refused.resolve();
      return says;
    };
    const server = await scriptedServer({
      ...(verb === "END" ? {} : { [verb]: orRefuse(verb === "MAIL" ? "250 ok" : "220 hello") }),
      END: async () => {
        inside += 1;
        const answer = verb === "END" ? orRefuse("250 queued")() : "250 queued";
        await refused.promise;
        inside -= 1;
        if (answer.startsWith("250")) taken += 1;
        return answer;
      },
    });
    const sending = mailer(server.port);
    const sent = await Promise.all(Array.from({ length: MAILS }, () => sending.send("a", HELLO)));
    expect(sent.map(({ kind }) => kind)).toEqual(Array(MAILS).fill("accepted"));
    expect(taken).toBe(MAILS);
  });

  test("but of 421 at a mail's end nobody knows what it speaks of: it is sent once", async () => {
    const both = Promise.withResolvers<void>();
    let ends = 0;
    const server = await scriptedServer({
      END: async () => {
        ends += 1;
        const answer = ends === 1 ? "421 4.4.2 timeout" : "250 queued";
        if (ends === 2) both.resolve();
        await both.promise;
        return answer;
      },
    });
    const sending = mailer(server.port);
    const sent = await Promise.all([1, 2].map(() => sending.send("a", HELLO)));
    expect(sent.map(({ kind }) => kind).toSorted()).toEqual(["accepted", "failed"]);
    expect(ends).toBe(2);
  });

  test("and later more of them is tried with one more", async () => {
    let refusing = true;
    /** MAIL is answered only when there are so many connections. */
    let awaited = 0;
    const server = await scriptedServer({
      GREETING: () =>
        refusing && server.seen.connections - server.seen.closed > 1 ? "421 busy" : "220 hello",
      MAIL: async () => {
        await until("somebody refused", () => !refusing || server.seen.closed > 0);
        await until("another connection", () => server.seen.connections >= awaited);
        return "250 ok";
      },
    });
    const sending = mailer(server.port, {}, { poolSize: 2 });
    const send = async (mails: number) => {
      const sent = await Promise.all(Array.from({ length: mails }, () => sending.send("a", HELLO)));
      expect(sent.map(({ kind }) => kind)).toEqual(Array(mails).fill("accepted"));
    };
    await send(2);
    refusing = false;
    const { connections, closed } = server.seen;
    await send(48);
    expect(server.seen.connections).toBe(connections);
    awaited = connections + 1;
    await send(2);
    // It does not replace the existing one.
    expect(server.seen).toMatchObject({ connections: awaited, closed });
  });

  test("and refuses one beside a mail that is through when that is heard", async () => {
    const refused = Promise.withResolvers<void>();
    const server = await scriptedServer({
      GREETING: () =>
        server.seen.connections === 2 ? refused.promise.then(() => "421 busy") : "220 hello",
      END: async () => {
        await until("the second connection", () => server.seen.connections > 1);
        refused.resolve();
        return "250 queued";
      },
    });
    const sending = mailer(server.port, {}, { poolSize: 2 });
    const sent = await Promise.all([sending.send("a", HELLO), sending.send("a", HELLO)]);
    expect(sent).toMatchObject([{ kind: "accepted" }, { kind: "accepted" }]);
    expect(server.seen).toMatchObject({ connections: 2, mails: 2 });
  });

  test("and leaves one too many without a greeting gets all mails, each once; where none gets through, they fail", async () => {
    const server = await scriptedServer({
      GREETING: () => (server.seen.connections > 1 ? "hang" : "220 hello"),
      END: async () => {
        await until("the second connection", () => server.seen.connections > 1);
        return "250 queued";
      },
    });
    const silent = await scriptedServer({ GREETING: "hang" });
    const [sent, failed] = await Promise.all([twoAtOnce(server), twoAtOnce(silent)]);
    expect(sent).toMatchObject([{ kind: "accepted" }, { kind: "accepted" }]);
    expect(server.seen).toMatchObject({ connections: 2, mails: 2 });
    const failure = { kind: "failed", retryable: true, outcomeUnknown: false, serverFault: true };
    expect(failed).toMatchObject([failure, failure]);
    expect(silent.seen.connections).toBe(2);
  });

  test("and the signal ends a mail that was sent away: it was not sent, and what the server said is known", async () => {
    const first = Promise.withResolvers<string>();
    const server = await scriptedServer({
      GREETING: () => (server.seen.connections === 2 ? "421 busy" : "220 hello"),
      END: () => first.promise,
    });
    const sending = mailer(server.port, {}, { poolSize: 2 });
    const inFlight = sending.send("a", HELLO);
    await until("the first mail at the server", () => server.seen.mails === 1);
    const controller = new AbortController();
    const sent = sending.send("a", HELLO, { signal: controller.signal });
    await until("the second one sent away", () => server.seen.closed === 1);
    for (let turn = 0; turn < 10; turn += 1) await setImmediate();
    controller.abort();
    expect(await sent).toMatchObject({
      kind: "failed",
      error: expect.stringContaining("421 busy") as string,
      retryable: true,
      outcomeUnknown: false,
      withdrawn: true,
    });
    first.resolve("250 queued");
    expect(await inFlight).toMatchObject({ kind: "accepted" });
    expect(server.seen).toMatchObject({ connections: 2, mails: 1 });
  });

  test("and takes none by itself: the mail fails", async () => {
    const server = await scriptedServer({ GREETING: "421 busy" });
    const sending = mailer(server.port);
    const sent = await Promise.all(Array.from({ length: MAILS }, () => sending.send("a", HELLO)));
    for (const result of sent)
      expect(result).toMatchObject({ kind: "failed", retryable: true, serverFault: true });
  });
});
