import type { ServerResponse } from "node:http";
import { Writable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import type { Job } from "../../../src/domain/job.ts";
import { timers } from "../../../cmd/system.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import type { RunQueue } from "../../../src/domain/ports/run-queue.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { parseKeyRing } from "../../../src/postgres/key-ring.ts";
import { createSmtpSettingsStore } from "../../../src/postgres/smtp-settings.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import {
  startScriptedServer,
  type ScriptedServer,
  type SmtpScript,
} from "../mail/scripted-server.ts";
import { until } from "../../until.ts";
import { claimed, scheduled } from "../postgres/runs-fixture.ts";
import {
  claimingOnly,
  emailJob,
  endingWithTest,
  webhookJob,
  workerFixture,
  type WorkerFixture,
} from "./worker-fixture.ts";
import { metricValue } from "../../metric-value.ts";

/** A lease ends after 2.5 s, and another worker takes over half a second later. */
const SHORT = { lease: 2_500, renew: 400, reap: 250 };

let fixture: WorkerFixture;
beforeAll(async () => {
  fixture = await workerFixture();
  return () => fixture.close();
});
const { receiver, worker, onEnd } = endingWithTest(() => fixture);

async function mailServer(script: SmtpScript): Promise<ScriptedServer> {
  const server = await startScriptedServer(script);
  onEnd(() => {
    server.close();
  });
  fixture.mailThrough(server.port);
  return server;
}

/** Creates a run; by default it has just become due. */
async function create(of: Job, at = Date.now() - 50): Promise<void> {
  await fixture.apply(of, { create: [scheduled(at)] });
}

async function runIdOf(of: Job): Promise<string> {
  const [run] = await fixture.runsOf(of);
  if (run === undefined) throw new Error(`no unfinished run of ${of.id}`);
  return run.id;
}

/** The queue of a worker that no longer reaches PostgreSQL, as if the worker had stopped. */
function unheard(queue: RunQueue): RunQueue {
  return {
    ...queue,
    renew: async () => {
      throw new DependencyUnavailable("postgres");
    },
    reap: async () => ({ requeued: 0, interrupted: 0 }),
  };
}

/**
 * A queue; `longer` resolves when leases have been renewed, with answers that count, for three times as long as one
 * lasts.
 */
function renewing(counts: (answers: readonly string[]) => boolean): {
  queue: RunQueue;
  longer: Promise<void>;
} {
  const queue = fixture.anotherQueue();
  const longer = Promise.withResolvers<void>();
  let renewals = 0;
  const renew: RunQueue["renew"] = async (...given) => {
    const answers = await queue.renew(...given);
    if (counts(Array.from(answers.values())) && (renewals += 1) * SHORT.renew > 3 * SHORT.lease)
      longer.resolve();
    return answers;
  };
  return { queue: { ...queue, renew }, longer: longer.promise };
}

async function taken(of: Job): Promise<void> {
  const [execution] = await fixture.executions(of, 1);
  expect(execution).toMatchObject({
    status: "failed",
    httpStatus: 500,
    attempt: 1,
    errorMessage: "interrupted: outcome unknown",
  });
}

test("a run whose end is recorded while leases are renewed was not lost to anybody", async () => {
  const target = await receiver((_call, response) => response.end());
  const of = webhookJob(target.url);
  const queue = fixture.anotherQueue();
  const missed = Promise.withResolvers<undefined>();
  const lines: string[] = [];
  const output = new Writable({
    write(line: Buffer, _encoding, done) {
      lines.push(line.toString());
      done();
    },
  });
  const handle = worker({
    log: createLogger({ level: "warn", output }),
    timing: { renew: 50 },
    queue: {
      ...queue,
      renew: async (claims, leaseMs) => {
        const still = await queue.renew(claims, leaseMs);
        if (still.size < claims.length) missed.resolve(undefined);
        return still;
      },
      close: async (closings) => {
        const closed = await queue.close(closings);
        await missed.promise;
        // By now the worker has processed the renewal.
        await turn();
        return closed;
      },
    },
  });
  await create(of);
  await fixture.executions(of, 1);
  await missed.promise;
  await handle.stop();
  expect(lines).toEqual([]);
});

describe("Replace", () => {
  test("ends the attempt in flight within 5 s; the new run does not wait for that", async () => {
    let aborted = false;
    const target = await receiver((call, response) => {
      if (target.received.indexOf(call) > 0) response.end();
      else response.once("close", () => (aborted = true));
    });
    const of = webhookJob(target.url, { concurrencyPolicy: "Replace" });
    const queue = fixture.anotherQueue();
    const overtaken = Promise.withResolvers<undefined>();
    let older = "";
    worker({
      queue: {
        ...queue,
        // The worker learns that it is unwanted only after the new run has called. It may ask about that one, too, if
        // its start was slow.
        unwanted: async (ids) => {
          if (ids.includes(older)) await overtaken.promise;
          return queue.unwanted(ids);
        },
      },
    });
    await create(of);
    await target.count(1);
    older = await runIdOf(of);
    await fixture.apply(of, { create: [scheduled(Date.now())], replace: [older] });
    await target.count(2);
    expect(aborted).toBe(false);
    overtaken.resolve(undefined);
    const told = performance.now();
    const executions = await fixture.executions(of, 2);
    expect(executions.map(({ status, errorMessage }) => ({ status, errorMessage }))).toEqual([
      { status: "success", errorMessage: null },
      { status: "failed", errorMessage: "replaced: outcome unknown" },
    ]);
    await expect.poll(() => aborted).toBe(true);
    expect(performance.now() - told).toBeLessThan(5_000);
  });

  test("is not retried, whatever its job allows otherwise", async () => {
    const target = await receiver(() => undefined);
    const retry = { maxRetries: 3, minBackoffSeconds: 0.1, maxBackoffSeconds: 0.1 };
    const of = webhookJob(target.url, { concurrencyPolicy: "Replace", retry });
    worker();
    await create(of);
    await target.count(1);
    await fixture.apply(of, { replace: [await runIdOf(of)] });
    await fixture.executions(of, 1);
    expect(await fixture.runsOf(of)).toEqual([]);
  });
});

test.each([
  {
    title: "ends its attempt in flight, and that is what is recorded",
    answer: () => undefined,
    recorded: { status: "failed", errorMessage: "deleted: outcome unknown" },
  },
  {
    title: "but an answer that has come counts, although its body has not ended",
    answer: (response: ServerResponse) => {
      response.writeHead(503, { "Content-Length": 2 });
      response.flushHeaders();
    },
    recorded: { status: "failed", httpStatus: 503, errorMessage: "the receiver answered 503" },
  },
])("a job that is deleted: $title", async ({ answer, recorded }) => {
  const target = await receiver((_call, response) => {
    answer(response);
  });
  const of = webhookJob(target.url);
  worker();
  await create(of);
  await target.count(1);
  await fixture.cancel([of]);
  expect(await fixture.executions(of, 1)).toMatchObject([recorded]);
});

describe("an open circuit", () => {
  test("ends a run as circuit open when its delivery deadline passes, without a call", async () => {
    const target = await receiver((_call, response) => {
      response.statusCode = 500;
      response.end();
    });
    const account = crypto.randomUUID();
    const running = worker({ resetMs: 60_000 });
    // Exactly as many as open the circuit: one more might find it open, and be postponed.
    const failing = Array.from({ length: 5 }, () => webhookJob(target.url, { account }));
    await Promise.all(failing.map(create));
    for (const of of failing) await fixture.executions(of, 1);
    expect(running.transitions).toEqual(["open"]);
    const calls = target.received.length;
    const late = webhookJob(target.url, { account, deliveryDeadlineSeconds: 2 });
    const due = Date.now();
    await create(late);
    expect(await fixture.executions(late, 1)).toMatchObject([
      {
        status: "failed",
        httpStatus: 500,
        attempt: 1,
        errorMessage: expect.stringMatching(/^circuit open: /),
      },
    ]);
    expect(Date.now() - due).toBeGreaterThan(1_900);
    expect(target.received).toHaveLength(calls);
  });
});

test("new SMTP settings have a circuit of their own, and what that of the old ones has put off goes out", async () => {
  const account = (await createAccounts(fixture).create({ name: "moves" })).id;
  const keyRing = parseKeyRing(`k1:${Buffer.alloc(32, 1).toString("base64")}`);
  const mail = () => ({
    ...emailJob({ kind: "email", to: "a@b.example", subject: "S", body: "B", isHtml: false }),
    account,
  });
  await mailServer({ MAIL: "421 not now" });
  const running = worker({ resetMs: 60_000 });
  const failing = Array.from({ length: 5 }, mail);
  await Promise.all(failing.map(create));
  for (const of of failing) await fixture.executions(of, 1);
  expect(running.transitions).toEqual(["open"]);
  const waiting = mail();
  await create(waiting);
  await until("it is put off", async () => {
    const { rows } = await fixture.pool.query(
      "select from runs where account = $1 and not_before > clock_timestamp() + interval '30 s'",
      [account],
    );
    return rows.length === 1;
  });
  const server = await mailServer({});
  const settings = fixture.smtp.current;
  if (settings)
    await createSmtpSettingsStore({ pool: fixture.pool, keyRing }).set(account, settings);
  expect(await fixture.executions(waiting, 1)).toMatchObject([{ status: "success", attempt: 1 }]);
  expect(server.seen.mails).toBe(1);
  expect(running.transitions).toEqual(["open", "closed"]);
});

describe("a lease", () => {
  test("is renewed for as long as a delivery takes, while others look for the dead", async () => {
    let answer: (() => void) | undefined;
    const target = await receiver((_call, response) => {
      answer = () => response.end();
    });
    const of = webhookJob(target.url);
    const holder = renewing((answers) => answers.length > 0);
    worker({ timing: SHORT, queue: holder.queue });
    await create(of);
    await target.count(1);
    worker({ timing: SHORT });
    await holder.longer;
    answer?.();
    expect(await fixture.executions(of, 1)).toMatchObject([{ status: "success", attempt: 1 }]);
    expect(target.received).toHaveLength(1);
  }, 30_000);

  test("is kept while an administrator has another run's row locked, and neither run is called twice", async () => {
    const answers: (() => void)[] = [];
    const target = await receiver((_call, response) => {
      answers.push(() => response.end());
    });
    const [locked, other] = [webhookJob(target.url), webhookJob(target.url)];
    const holder = renewing((answers) => answers.includes("locked"));
    worker({ timing: SHORT, queue: holder.queue });
    await Promise.all([create(locked), create(other)]);
    await target.count(2);
    worker({ timing: SHORT });
    const administrator = await fixture.pool.connect();
    await administrator.query("begin; set local idle_in_transaction_session_timeout = 0");
    await administrator.query("select from runs where job_uid = $1 for update", [locked.uid]);
    await holder.longer;
    for (const answer of answers) answer();
    await administrator.query("commit");
    administrator.release();
    expect(await fixture.executions(other, 1)).toMatchObject([{ status: "success", attempt: 1 }]);
    // Its lease has ended. After the lock, its worker or the one that takes over ends it, whichever comes first.
    expect(await fixture.executions(locked, 1)).toHaveLength(1);
    expect(target.received).toHaveLength(2);
  }, 30_000);

  test("of a dead worker: what it had started is closed, what it had not is delivered", async () => {
    const target = await receiver();
    const queue = fixture.anotherQueue();
    const started = webhookJob(target.url);
    const unstarted = webhookJob(target.url);
    const run = await claimed(fixture, started, { leaseMs: 2_500, worker: "dead" });
    expect(await queue.start([run])).toEqual(new Set([run.id]));
    await claimed(fixture, unstarted, { leaseMs: 500, worker: "dead" });
    worker({ timing: SHORT });
    await taken(started);
    expect(await fixture.executions(unstarted, 1)).toMatchObject([{ status: "success" }]);
    expect(target.received.map((call) => call.headers["carillon-job-id"])).toEqual([unstarted.id]);
  });

  test("that ran out in mid-delivery: the late answer changes nothing", async () => {
    let answer: (() => void) | undefined;
    const target = await receiver((_call, response) => {
      answer = () => response.end();
    });
    const of = webhookJob(target.url);
    const queue = fixture.anotherQueue();
    const written = Promise.withResolvers<Set<string>>();
    worker({
      timing: SHORT,
      queue: {
        ...unheard(queue),
        close: async (closings) => {
          const closed = await queue.close(closings);
          written.resolve(closed);
          return closed;
        },
      },
    });
    await create(of);
    await target.count(1);
    worker({ timing: SHORT });
    await taken(of);
    answer?.();
    expect(await written.promise).toEqual(new Set());
    expect(await fixture.executions(of, 1)).toHaveLength(1);
    expect(target.received).toHaveLength(1);
  });

  describe("that ran out before the send of what had been started: nothing is sent", () => {
    test.each<{
      title: string;
      /** `stall` waits until the run has been taken over. */
      stalls: (queue: RunQueue, stall: () => Promise<void>) => Partial<RunQueue>;
    }>([
      {
        title: "by a start of its own",
        stalls: (queue, stall) => ({
          ...claimingOnly(queue),
          start: async (runs) => {
            const started = await queue.start(runs);
            await stall();
            return started;
          },
        }),
      },
      {
        title: "by its claim",
        stalls: (queue, stall) => ({
          claim: async (request) => {
            const runs = await queue.claim(request);
            if (runs.some(({ started }) => started)) await stall();
            return runs;
          },
        }),
      },
    ])("$title", async ({ stalls }) => {
      const target = await receiver();
      const of = webhookJob(target.url);
      const queue = unheard(fixture.anotherQueue());
      const committed = Promise.withResolvers<undefined>();
      const stalled = Promise.withResolvers<undefined>();
      const released = Promise.withResolvers<undefined>();
      const slow = worker({
        timing: SHORT,
        queue: {
          ...queue,
          ...stalls(queue, async () => {
            committed.resolve(undefined);
            await stalled.promise;
          }),
          release: async (...given) => {
            await queue.release(...given);
            released.resolve(undefined);
          },
        },
      });
      await create(of);
      await committed.promise;
      worker({ timing: SHORT });
      await taken(of);
      stalled.resolve(undefined);
      // It gives back a run that it no longer holds, which changes nothing.
      await released.promise;
      await slow.stop();
      expect(target.received).toEqual([]);
      expect(await fixture.executions(of, 1)).toMatchObject([
        { errorMessage: "interrupted: outcome unknown" },
      ]);
    });
  });

  test("that ran out while the mail server made us wait: the mail does not leave", async () => {
    const recipient = Promise.withResolvers<string>();
    const asked = Promise.withResolvers<undefined>();
    const server = await mailServer({
      RCPT: () => {
        asked.resolve(undefined);
        return recipient.promise;
      },
    });
    const of = emailJob({
      kind: "email",
      to: "a@b.example",
      subject: "S",
      body: "B",
      isHtml: false,
    });
    const slow = worker({ timing: SHORT, queue: unheard(fixture.anotherQueue()) });
    await create(of);
    await asked.promise;
    const other = worker({ timing: SHORT });
    await taken(of);
    recipient.resolve("250 ok");
    await expect.poll(() => server.seen.closed).toBe(1);
    expect(server.seen.verbs).toContain("DATA");
    expect(server.seen.mails).toBe(0);
    expect(await fixture.executions(of, 1)).toHaveLength(1);
    // Mails are logged after their deliveries, and before their worker ends.
    await Promise.all([slow.stop(), other.stop()]);
    const { rows } = await fixture.pool.query("select 1 from email_log where account = $1", [
      of.account,
    ]);
    expect(rows).toEqual([]);
  });
});

test("the dead are looked for one lease after a start, and one after an outage: who comes back renews first", async () => {
  const queue = fixture.anotherQueue();
  let [time, looks, reaps] = [0, 0, 0];
  const reaped = async () => {
    const { text } = await fixture.metrics.render();
    return ["requeued", "interrupted"].map(
      (result) => metricValue(text, `carillon_runs_reaped_total{result="${result}"}`) ?? 0,
    );
  };
  const [requeued = 0, interrupted = 0] = await reaped();
  worker({
    // Only the waits between two looks take 50 to 100 ms.
    timing: { lease: 1_000, reap: 50 },
    monotonic: () => time,
    timers: {
      after: (ms, then) => {
        if (ms >= 50 && ms < 100) looks += 1;
        return timers.after(ms, then);
      },
    },
    queue: {
      ...queue,
      reap: async () => {
        reaps += 1;
        if (reaps === 1) throw new DependencyUnavailable("postgres");
        return { requeued: reaps === 2 ? 3 : 0, interrupted: reaps === 2 ? 1 : 0 };
      },
    },
  });
  /** Waits as long as several looks take. */
  const later = async (): Promise<void> => {
    looks = 0;
    await until("it has waited for some looks", () => looks > 3);
  };
  await later();
  time = 999;
  await later();
  expect(reaps).toBe(0);
  time = 1_000;
  await until("it looks", () => reaps === 1);
  time = 1_999;
  await later();
  expect(reaps).toBe(1);
  time = 2_000;
  await until("it looks again", () => reaps > 2);
  expect(await reaped()).toEqual([requeued + 3, interrupted + 1]);
});

test("the dead are looked for soon after PostgreSQL has stood still for one look", async () => {
  const queue = fixture.anotherQueue();
  let [time, reaps] = [0, 0];
  worker({
    timing: { lease: 0, reap: 50 },
    monotonic: () => time,
    queue: {
      ...queue,
      reap: async () => {
        reaps += 1;
        if (reaps === 2) time += 9_000;
        return { requeued: 0, interrupted: 0 };
      },
    },
  });
  await expect.poll(() => reaps).toBeGreaterThan(3);
});

describe("a mail server that greylists", () => {
  test("does not open the circuit of the account's other mail", async () => {
    await mailServer({ RCPT: "451 come back later" });
    const account = crypto.randomUUID();
    const running = worker();
    const target = { kind: "email", subject: "S", body: "B", isHtml: false } as const;
    const jobs = Array.from({ length: 12 }, (_, n) => ({
      ...emailJob({ ...target, to: `new${n}@there.example` }),
      account,
    }));
    await Promise.all(jobs.map(create));
    for (const of of jobs) await fixture.executions(of, 1);
    expect(running.transitions).toEqual([]);
  });

  test("one that says 421 to everybody does", async () => {
    await mailServer({ MAIL: "421 too many connections" });
    const account = crypto.randomUUID();
    const running = worker();
    const target = { kind: "email", subject: "S", body: "B", isHtml: false } as const;
    const jobs = Array.from({ length: 8 }, (_, n) => ({
      ...emailJob({ ...target, to: `you${n}@there.example` }),
      account,
    }));
    await Promise.all(jobs.map(create));
    await expect.poll(() => running.transitions).toEqual(["open"]);
  });
});
