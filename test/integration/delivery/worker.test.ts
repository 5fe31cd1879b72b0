import { beforeAll, describe, expect, test } from "vitest";
import { Webhook } from "standardwebhooks";
import type { Job } from "../../../src/domain/job.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { UNREADABLE } from "../../../src/domain/stored-spec.ts";
import { timers } from "../../../cmd/system.ts";
import { pause } from "../../../src/waiting/pause.ts";
import { startMailCatcher } from "../../../src/mail/mail-catcher.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { parseKeyRing } from "../../../src/postgres/key-ring.ts";
import { createSigningSecrets } from "../../../src/postgres/signing-secrets.ts";
import { until } from "../../until.ts";
import {
  claimingOnly,
  emailJob,
  endingWithTest,
  SECRET,
  webhookJob,
  workerFixture,
  type WorkerFixture,
} from "./worker-fixture.ts";

let fixture: WorkerFixture;
beforeAll(async () => {
  fixture = await workerFixture();
  return () => fixture.close();
});
const { receiver, worker, create, onEnd } = endingWithTest(() => fixture);

describe("a claim", () => {
  test("begins where the one before has found nothing more, or where news say", async () => {
    const target = await receiver();
    const claims: { from: number | null; jobs: string[] }[] = [];
    const listening = Promise.withResolvers<void>();
    const queue = fixture.anotherQueue();
    worker({
      // Only announcements cause claims, and none of these looks at the whole queue because it is time to.
      timing: { poll: 600_000 },
      queue: {
        ...queue,
        onWake: (listener) =>
          queue.onWake((since) => {
            listener(since);
            if (since === null) listening.resolve();
          }),
        claim: async (request) => {
          const runs = await queue.claim(request);
          claims.push({ from: request.from ?? null, jobs: runs.map(({ jobUid }) => jobUid) });
          return runs;
        },
      },
    });
    /** Returns from where the claim looked that found it. */
    const deliver = async (at: number): Promise<number | null | undefined> => {
      const of = webhookJob(target.url);
      await create({ of, at });
      await fixture.executions(of, 1);
      return claims.find(({ jobs }) => jobs.includes(of.uid))?.from;
    };
    await listening.promise;
    // The first run may be found by a claim that is under way; the claim after that looks at the whole queue.
    await deliver(Date.now());
    await deliver(Date.now());
    const began = Date.now();
    expect(await deliver(began)).toBeGreaterThan(began - 10_000);
    expect(await deliver(began - 600_000)).toBe(began - 600_000);
    expect(await deliver(Date.now())).toBeGreaterThan(began - 10_000);
  });
});

describe("a record", () => {
  /**
   * Milliseconds for which records are collected while other runs are under way, and while none are. Nothing else
   * waits so long.
   */
  const [COMPANY, NONE] = [25, 5];

  test("waits for company only while something else is under way", async () => {
    const [target, hanging] = await Promise.all([receiver(), receiver(() => undefined)]);
    const waits: number[] = [];
    const queue = fixture.anotherQueue();
    let alone = true;
    let claimed = 0;
    worker({
      timing: { grace: 100, afterError: 50 },
      queue: {
        ...queue,
        claim: async (request) => {
          // An empty claim would also tell the worker that no other run is under way.
          if (alone && claimed > 0) throw new DependencyUnavailable("postgres");
          const runs = await queue.claim(request);
          claimed += runs.length;
          return runs;
        },
      },
      timers: {
        after: (ms, then) => {
          if (ms !== COMPANY && ms !== NONE) return timers.after(ms, then);
          waits.push(ms);
          // The wait for company never ends.
          return ms === NONE ? timers.after(ms, then) : { cancel: () => undefined };
        },
      },
    });
    const first = webhookJob(target.url);
    await create({ of: first });
    expect(await fixture.executions(first, 1)).toMatchObject([{ status: "success" }]);
    expect(waits.splice(0)).toEqual([COMPANY, NONE]);
    alone = false;
    await create({ of: webhookJob(hanging.url) });
    await hanging.count(1);
    await create({ of: webhookJob(target.url) });
    await target.count(2);
    await expect.poll(() => waits).toEqual([COMPANY]);
  });
});

describe("a webhook", () => {
  test("arrives byte for byte, signed, and is recorded", async () => {
    const target = await receiver();
    const payload = '{ "b":1.50, "a":"\\u00e9 é 😀" }';
    const of = webhookJob(`${target.url}/hook?x=1`, {
      target: {
        payload,
        // As kubectl may write them: REST refuses all but the first.
        headers: {
          "X-Own": "yes",
          "user-agent": "mine",
          "Webhook-Id": "mine",
          Host: "elsewhere",
        },
      },
    });
    worker();
    await create({ of });
    const [call] = await target.count(1);
    const [execution] = await fixture.executions(of, 1);
    expect(call?.body).toBe(payload);
    expect(call).toMatchObject({
      method: "POST",
      path: "/hook?x=1",
      headers: {
        "content-type": "application/json",
        "user-agent": "Carillon/9.9.9",
        "x-own": "yes",
        "webhook-id": execution?.runId,
        "carillon-job-id": of.id,
        "carillon-attempt": "1",
        host: new URL(target.url).host,
      },
    });
    new Webhook(SECRET).verify(payload, call?.headers as Record<string, string>);
    expect(execution).toMatchObject({
      status: "success",
      httpStatus: 200,
      errorMessage: null,
      attempt: 1,
    });
  });

  test("never leaves unsigned: while the secrets cannot be read it waits", async () => {
    const target = await receiver();
    const of = webhookJob(target.url);
    let asked = 0;
    worker({
      signingSecrets: {
        current: async () => {
          asked += 1;
          if (asked === 1) throw new DependencyUnavailable("postgres");
          return [SECRET];
        },
      },
    });
    await create({ of });
    expect(await fixture.executions(of, 1)).toMatchObject([{ status: "success", attempt: 1 }]);
    expect(asked).toBe(2);
    expect(target.received).toHaveLength(1);
    new Webhook(SECRET).verify("{}", target.received[0]?.headers as Record<string, string>);
  });

  test("of an account that was deleted before it signed anything is refused at its start, and recorded as missed", async () => {
    const { pool } = fixture;
    const keyRing = parseKeyRing(`k:${Buffer.alloc(32).toString("base64")}`);
    const target = await receiver();
    const accounts = createAccounts({ pool });
    const { id: account } = await accounts.create({ name: "deleted" });
    const of = webhookJob(target.url, { account });
    await create({ of });
    await accounts.delete(account);
    worker({ signingSecrets: createSigningSecrets({ pool, keyRing }) });
    await until("none is left", async () => (await fixture.runsOf(of)).length === 0);
    expect(await fixture.missedOf(of)).toEqual([{ reason: "account_deleted", count: 1 }]);
    expect(target.received).toEqual([]);
  });

  test("is retried with the same id when its job asks for that", async () => {
    let calls = 0;
    const target = await receiver((_call, response) => {
      calls += 1;
      response.statusCode = calls === 1 ? 503 : 200;
      response.end();
    });
    const of = webhookJob(target.url, {
      retry: { maxRetries: 2, minBackoffSeconds: 0.1, maxBackoffSeconds: 0.2 },
    });
    worker();
    await create({ of });
    const received = await target.count(2);
    const executions = await fixture.executions(of, 2);
    expect(new Set(received.map((call) => call.headers["webhook-id"])).size).toBe(1);
    expect(received.map((call) => call.headers["carillon-attempt"])).toEqual(["1", "2"]);
    expect(executions.map((execution) => execution.httpStatus)).toEqual([200, 503]);
  });

  test("never starts early, and a prepared one starts at its time", async () => {
    const target = await receiver();
    const of = webhookJob(target.url);
    const queue = fixture.anotherQueue();
    const at = Date.now() + 4_000;
    await create({ of, at });
    /** The fire times of runs that were claimed before they were due. */
    const claims: number[] = [];
    worker({
      // Only its own time starts it: no other claim comes.
      timing: { lookahead: 60_000, poll: 60_000 },
      queue: {
        ...queue,
        claim: async (request) => {
          const runs = await queue.claim(request);
          for (const { notBefore } of runs) if (Date.now() < notBefore) claims.push(notBefore);
          return runs;
        },
      },
    });
    const [call] = await target.count(1);
    expect(call?.at).toBeGreaterThanOrEqual(at - 2);
    expect(claims).toEqual([at]);
  });

  test("that becomes due between two looks at the clock starts at its time", async () => {
    const target = await receiver();
    const at = Date.now() + 1_500;
    await create({ of: webhookJob(target.url), at });
    let looks = 0;
    worker({
      timing: { lookahead: 60_000, poll: 60_000 },
      clock: {
        known: true,
        // When the run's time has come, one reading of the clock is still from before it.
        now: () => {
          const now = fixture.clock.now();
          if (now >= at) looks += 1;
          return looks === 1 ? at - 1 : now;
        },
      },
    });
    expect(await target.count(1)).toHaveLength(1);
  });

  test("whose signing secrets take long holds up nobody else, and is not sent once its job is deleted", async () => {
    const target = await receiver();
    const [slow, deleted, quick] = [
      webhookJob(target.url),
      webhookJob(target.url),
      webhookJob(target.url),
    ];
    const [asked, secrets] = [new Set<string>(), Promise.withResolvers<string[]>()];
    let waited = 0;
    worker({
      monotonic: () => performance.now() + waited,
      signingSecrets: {
        current: async (account) => {
          asked.add(account);
          return account === quick.account ? [SECRET] : secrets.promise;
        },
      },
    });
    await create({ of: slow }, { of: deleted });
    await until("both are claimed", () => asked.size === 2);
    await create({ of: quick });
    await fixture.executions(quick, 1);
    expect(target.received).toHaveLength(1);
    await fixture.cancel([deleted]);
    waited = 1_000;
    secrets.resolve([SECRET]);
    await fixture.executions(slow, 1);
    await until("none is left", async () => (await fixture.runsOf(deleted)).length === 0);
    expect(target.received.map((call) => call.headers["carillon-job-id"])).toEqual([
      quick.id,
      slow.id,
    ]);
  });

  test("410 halts the generation", async () => {
    const target = await receiver((_call, response) => {
      response.statusCode = 410;
      response.end();
    });
    const of = webhookJob(target.url);
    worker();
    await create({ of });
    await fixture.executions(of, 1);
    const cursor = (await fixture.ledger.cursors([of.uid])).get(of.uid);
    expect(cursor).toMatchObject({ haltedGeneration: 1, startable: false });
  });

  test("a refused destination is permanent and names the setting", async () => {
    const of = webhookJob("http://10.1.2.3/", {
      retry: { maxRetries: 3, minBackoffSeconds: 1, maxBackoffSeconds: 1 },
    });
    worker();
    await create({ of });
    const [execution] = await fixture.executions(of, 1);
    expect(execution?.httpStatus).toBe(500);
    expect(execution?.errorMessage).toContain("CARILLON_ALLOW_DESTINATIONS");
  });
});

async function loggedRecipients(of: Job): Promise<string[]> {
  const { rows } = await fixture.pool.query<{ recipient: string }>(
    "select recipient from email_log where account = $1",
    [of.account],
  );
  return rows.map((row) => row.recipient);
}

async function mailServer() {
  const catcher = await startMailCatcher({ smtpPort: 0, httpPort: 0, host: "127.0.0.1" });
  onEnd(() => catcher.close());
  fixture.mailThrough(catcher.smtpPort);
  return catcher;
}

describe("an email job", () => {
  const letter = { kind: "email", subject: "Report", body: "x", isHtml: false } as const;

  test("goes to the domain that the address names, and is logged as it was given", async () => {
    const catcher = await mailServer();
    // With a full-width B, which a mail library converts to another domain than browsers do.
    const to = "Ada@\uff22ÜCHER.example";
    const of = emailJob({ ...letter, to });
    worker();
    await create({ of });
    await fixture.executions(of, 1);
    // The server converts xn--bcher-kva back by itself.
    expect(catcher.messages().map((mail) => mail.envelopeTo)).toEqual([["Ada@bücher.example"]]);
    expect(String(catcher.messages()[0]?.raw)).toContain("Ada@xn--bcher-kva.example");
    await expect.poll(() => loggedRecipients(of)).toEqual([to]);
  });

  test("to what is no single address is not mailed to anybody", async () => {
    const catcher = await mailServer();
    const of = emailJob({ ...letter, to: "a@there.example, b@there.example" });
    worker();
    await create({ of });
    const [execution] = await fixture.executions(of, 1);
    expect(execution).toMatchObject({
      status: "failed",
      httpStatus: 500,
      errorMessage: expect.stringContaining("the recipient's address must"),
    });
    expect(catcher.messages()).toEqual([]);
  });

  test("is mailed once, with the run's Message-ID, and logged", async () => {
    const catcher = await mailServer();
    const of = emailJob({
      kind: "email",
      to: "you@there.example",
      subject: "Report",
      body: "<p>é</p>",
      isHtml: true,
    });
    worker();
    await create({ of });
    const [execution] = await fixture.executions(of, 1);
    expect(execution).toMatchObject({ status: "success", httpStatus: 200 });
    expect(catcher.messages()).toHaveLength(1);
    expect(catcher.messages()[0]).toMatchObject({
      subject: "Report",
      messageId: `<${execution?.runId}@sender.example>`,
      envelopeTo: ["you@there.example"],
    });
    await expect.poll(() => loggedRecipients(of)).toEqual(["you@there.example"]);
  });
});

test("a run that only a newer release can send waits for it, and holds up no other", async () => {
  const [newer, known] = [await receiver(), await receiver()];
  const ofNewer = webhookJob(newer.url);
  const ofBoth = webhookJob(known.url);
  await create({ of: ofNewer }, { of: ofBoth });
  const store = (spec: object) =>
    fixture.pool.query("update job_revisions set spec = $2 where job_uid = $1", [
      ofNewer.uid,
      JSON.stringify(spec),
    ]);
  await store({ ...ofNewer.spec, target: { kind: "sms", number: "+1" } });
  worker();
  await known.count(1);
  expect(await fixture.executions(ofBoth, 1)).toMatchObject([{ status: "success" }]);
  await until("it is given back", async () => {
    const { rows } = await fixture.pool.query<{ back: boolean }>(
      `select not_before > scheduled_at and claim_token is null as back from runs where job_uid = $1`,
      [ofNewer.uid],
    );
    return rows[0]?.back === true;
  });
  // As a worker of the newer release reads it.
  await store(ofNewer.spec);
  await newer.count(1);
  expect(await fixture.executions(ofNewer, 1)).toMatchObject([{ status: "success", attempt: 1 }]);
});

test.each([
  {
    which: "that only a newer release could send",
    harm: `update job_revisions set spec = jsonb_set(spec::jsonb, '{target}', '{"kind": "sms"}')::json`,
  },
  { which: "whose spec is gone", harm: "delete from job_revisions" },
])("a run by hand $which ends when its delivery deadline has passed", async ({ harm }) => {
  const of = webhookJob((await receiver()).url);
  await create({ of });
  worker();
  await fixture.executions(of, 1);
  await fixture.pool.query(`${harm} where job_uid = $1`, [of.uid]);
  expect(await fixture.ledger.runNow(of, "by hand")).toBe(true);
  await until("it is given back", async () => {
    const { rows } = await fixture.pool.query<{ back: boolean }>(
      "select not_before > scheduled_at and claim_token is null as back from runs where job_uid = $1",
      [of.uid],
    );
    return rows[0]?.back === true;
  });
  await fixture.pool.query(
    `update runs set scheduled_at = scheduled_at - interval '1 hour',
                     created_at = created_at - interval '1 hour' where job_uid = $1`,
    [of.uid],
  );
  const [execution] = await fixture.executions(of, 2);
  expect(execution).toMatchObject({
    status: "failed",
    trigger: "manual",
    httpStatus: 500,
    errorMessage: `${UNREADABLE.field} ${UNREADABLE.message}`,
  });
  expect(await fixture.runsOf(of)).toEqual([]);
});

describe("fairness", () => {
  /** npm run bench -- backlog measures by how much. */
  test("50 hanging destinations of one account do not hold up another's", async () => {
    const hanging = await Promise.all(Array.from({ length: 50 }, () => receiver(() => undefined)));
    const good = await receiver();
    worker({ timing: { grace: 100 } });
    const account = crypto.randomUUID();
    const stuck = hanging.flatMap(({ url }) =>
      Array.from({ length: 40 }, () => webhookJob(url, { account })),
    );
    await create(...stuck.map((of) => ({ of })));
    // All slots that the account may have hang, and 1,744 more of its runs are queued.
    const calls = () => hanging.reduce((sum, { received }) => sum + received.length, 0);
    await expect.poll(calls).toBe(256);
    const others = Array.from({ length: 20 }, () => webhookJob(good.url));
    await create(...others.map((of) => ({ of })));
    // Delivered long before the first hanging call is given up.
    await good.count(20);
    expect(calls()).toBe(256);
  });

  test("a destination with one slot left does not make the claims of others as small", async () => {
    const hanging = await receiver(() => undefined);
    const good = await receiver();
    const queue = fixture.anotherQueue();
    let claims = 0;
    worker({
      timing: { grace: 100 },
      queue: {
        ...queue,
        claim: async (request) => {
          const runs = await queue.claim(request);
          if (runs.some(({ destination }) => destination.endsWith(new URL(good.url).origin)))
            claims += 1;
          return runs;
        },
      },
    });
    const account = crypto.randomUUID();
    await create(
      ...Array.from({ length: 159 }, () => ({ of: webhookJob(hanging.url, { account }) })),
    );
    await hanging.count(159);
    await create(...Array.from({ length: 600 }, () => ({ of: webhookJob(good.url) })));
    await good.count(600);
    // Claims as small would be 600. How large others are depends on how soon calls end: some 60 on a busy machine.
    expect(claims).toBeLessThan(200);
  });

  test("while one account's large payloads hang, the others' runs follow each other", async () => {
    const hanging = await receiver(() => undefined);
    const good = await receiver();
    worker({
      // Only the end of a claim's runs causes the next claim.
      timing: { poll: 60_000, grace: 100 },
      limits: { characters: 1_000, claimBatch: 64, perDestination: 1 },
    });
    const account = crypto.randomUUID();
    const target = { payload: JSON.stringify({ large: "x".repeat(600) }) };
    await create(
      ...Array.from({ length: 3 }, () => ({ of: webhookJob(hanging.url, { account, target }) })),
    );
    await hanging.count(1);
    await create(...Array.from({ length: 40 }, () => ({ of: webhookJob(good.url) })));
    await good.count(40);
    expect(hanging.received).toHaveLength(1);
  });

  test("a run announced while a claim passes over a full destination is claimed next", async () => {
    const hanging = await receiver(() => undefined);
    const good = await receiver();
    const queue = fixture.anotherQueue();
    const other = webhookJob(good.url);
    let announced = Promise.withResolvers<void>();
    let looked = false;
    worker({
      // Only the announcement causes the next claim.
      timing: { poll: 60_000, grace: 100 },
      limits: { concurrency: 4, perAccount: 4, perDestination: 2, buffer: 8, claimBatch: 4 },
      queue: {
        ...queue,
        onWake: (listener) =>
          queue.onWake((since) => {
            listener(since);
            announced.resolve();
          }),
        claim: async (request) => {
          const runs = await queue.claim(request);
          if (!looked && request.exceptDestinations?.length === 1 && runs.length === 0) {
            looked = true;
            announced = Promise.withResolvers<void>();
            await create({ of: other });
            await announced.promise;
          }
          return runs;
        },
      },
    });
    const account = crypto.randomUUID();
    const stuck = Array.from({ length: 12 }, () => webhookJob(hanging.url, { account }));
    await create(...stuck.map((of) => ({ of })));
    await good.count(1);
    expect(looked).toBe(true);
  });
});

describe("circuits", () => {
  test("open, put off without an execution, and deliver when the receiver is back", async () => {
    let broken = true;
    const target = await receiver((_call, response) => {
      response.statusCode = broken ? 500 : 200;
      response.end();
    });
    const account = crypto.randomUUID();
    const running = worker({ resetMs: 400 });
    const failing = Array.from({ length: 8 }, () => webhookJob(target.url, { account }));
    await create(...failing.map((of) => ({ of })));
    for (const of of failing) await fixture.executions(of, 1);
    await expect.poll(() => running.transitions).toContain("open");
    broken = false;
    const late = webhookJob(target.url, { account });
    await create({ of: late });
    expect(await fixture.executions(late, 1)).toMatchObject([{ status: "success", attempt: 1 }]);
    expect(running.transitions.at(-1)).toBe("closed");
  });

  test("are neither closed nor opened again by an attempt that has called nobody: the next one is the probe", async () => {
    const target = await receiver((_call, response) => {
      response.statusCode = 500;
      response.end();
    });
    const account = crypto.randomUUID();
    const running = worker({ resetMs: 400 });
    const failing = Array.from({ length: 8 }, () => webhookJob(target.url, { account }));
    await create(...failing.map((of) => ({ of })));
    for (const of of failing) await fixture.executions(of, 1);
    await expect.poll(() => running.transitions).toContain("half_open");
    const headersFrom = [{ header: "X-Key", secretName: "none", secretKey: "key" }];
    const uncalled = webhookJob(target.url, { account, target: { headersFrom } });
    await create({ of: uncalled });
    expect(await fixture.executions(uncalled, 1)).toMatchObject([
      { errorMessage: expect.stringContaining("Secrets") },
    ]);
    expect(running.transitions).toEqual(["open", "half_open"]);
    const called = webhookJob(target.url, { account });
    await create({ of: called });
    expect(await fixture.executions(called, 1)).toMatchObject([{ httpStatus: 500 }]);
    expect(running.transitions.slice(0, 3)).toEqual(["open", "half_open", "open"]);
  });
});

/** As many failing jobs as open the receiver's circuit. */
function opening({ url }: { url: string }): { of: Job }[] {
  const account = crypto.randomUUID();
  return Array.from({ length: 5 }, () => ({ of: webhookJob(url, { account }) }));
}

describe("a worker that falls behind", () => {
  test("claims nothing while too much is unrecorded, and goes on once it is", async () => {
    const target = await receiver();
    const queue = fixture.anotherQueue();
    const written = Promise.withResolvers<void>();
    /** How many looks in a row made no claim. */
    let idle = 0;
    worker({
      // Only the waits for the next look take 8 to 16 ms.
      timing: { poll: 16, grace: 100 },
      limits: { unrecorded: 3 },
      timers: {
        after: (ms, then) => {
          if (ms >= 8 && ms < 16) idle += 1;
          return timers.after(ms, then);
        },
      },
      queue: {
        ...queue,
        claim: async (request) => {
          idle = 0;
          return queue.claim(request);
        },
        close: async (closings) => {
          await written.promise;
          return queue.close(closings);
        },
      },
    });
    await create(...Array.from({ length: 4 }, () => ({ of: webhookJob(target.url) })));
    await target.count(4);
    await until("it claims nothing any more", () => idle > 5);
    await create({ of: webhookJob(target.url) });
    idle = 0;
    await until("nor what is due since", () => idle > 5);
    expect(target.received).toHaveLength(4);
    written.resolve();
    await target.count(5);
  });

  test("starts nothing with its claim to open circuits, nor anything while they are more than it would except", async () => {
    const failing = () =>
      receiver((_call, response) => {
        response.statusCode = 500;
        response.end();
      });
    const broken = await Promise.all([failing(), failing(), failing(), failing()]);
    const good = await receiver();
    const queue = fixture.anotherQueue();
    /** How many destinations the starts of claims except; undefined: they start nothing. */
    const excepted: (number | undefined)[] = [];
    const running = worker({
      limits: { notClosed: 3 },
      resetMs: 60_000,
      queue: {
        ...queue,
        claim: async (request) => {
          excepted.push(request.start?.exceptDestinations.length);
          return queue.claim(request);
        },
      },
    });
    const deliver = async (): Promise<void> => {
      const of = webhookJob(good.url);
      await create({ of });
      expect(await fixture.executions(of, 1)).toMatchObject([{ status: "success", attempt: 1 }]);
    };
    await create(...broken.slice(1).flatMap(opening));
    await expect.poll(() => running.transitions).toEqual(["open", "open", "open"]);
    excepted.length = 0;
    await deliver();
    expect(new Set(excepted)).toEqual(new Set([3]));
    await create(...broken.slice(0, 1).flatMap(opening));
    await expect.poll(() => running.transitions).toHaveLength(4);
    excepted.length = 0;
    await deliver();
    expect(new Set(excepted)).toEqual(new Set([undefined]));
  });
});

describe("a lost claim", () => {
  test("an expired lease is not sent, whatever this worker believed", async () => {
    const target = await receiver();
    const queue = fixture.anotherQueue();
    const of = webhookJob(target.url);
    const released = Promise.withResolvers<void>();
    // Another worker takes the run between its claim and its start.
    const running = worker({
      queue: {
        ...claimingOnly(queue),
        start: async (runs) => {
          await fixture.pool.query(
            "update runs set claim_token = gen_random_uuid(), worker = 'other' where id = any($1)",
            [runs.map((run) => run.id)],
          );
          return queue.start(runs);
        },
        release: async (...given) => {
          await queue.release(...given);
          released.resolve();
        },
      },
    });
    await create({ of });
    // A run that did not start is given back, which changes nothing.
    await released.promise;
    await running.stop();
    const { rows } = await fixture.pool.query("select worker from runs");
    expect(rows).toEqual([{ worker: "other" }]);
    expect(target.received).toHaveLength(0);
  });

  test("a start whose answer got lost is not sent, and runs once in the end", async () => {
    const target = await receiver();
    const queue = fixture.anotherQueue();
    const of = webhookJob(target.url);
    let failures = 1;
    worker({
      queue: {
        ...claimingOnly(queue),
        start: async (runs) => {
          const started = await queue.start(runs);
          if (failures > 0) {
            failures -= 1;
            throw new Error("connection lost during commit");
          }
          return started;
        },
      },
    });
    await create({ of });
    expect(await fixture.executions(of, 1)).toMatchObject([{ status: "success", attempt: 1 }]);
    expect(failures).toBe(0);
    expect(target.received).toHaveLength(1);
  });

  test("a claim that starts and whose answer got lost is undone, and the run is sent once", async () => {
    const target = await receiver();
    const queue = fixture.anotherQueue();
    const of = webhookJob(target.url);
    let failures = 1;
    worker({
      queue: {
        ...queue,
        claim: async (request) => {
          const runs = await queue.claim(request);
          if (failures > 0 && runs.some(({ started }) => started)) {
            failures -= 1;
            throw new Error("connection lost during commit");
          }
          return runs;
        },
      },
    });
    await create({ of });
    expect(await fixture.executions(of, 1)).toMatchObject([{ status: "success", attempt: 1 }]);
    expect(failures).toBe(0);
    expect(target.received).toHaveLength(1);
  });

  test("a claim that is taken up after it was given back is given back again, and the run is sent once", async () => {
    const target = await receiver();
    const queue = fixture.anotherQueue();
    const of = webhookJob(target.url);
    await create({ of });
    let late: (() => Promise<ClaimedRun[]>) | undefined;
    let taken: ClaimedRun[] | undefined;
    worker({
      timing: { poll: 100, afterError: 50 },
      queue: {
        ...queue,
        claim: async (request) => {
          if (taken !== undefined) return queue.claim(request);
          late = () => queue.claim(request);
          throw new DependencyUnavailable("postgres");
        },
        unclaim: async (tokens) => {
          await queue.unclaim(tokens);
          taken ??= await late?.();
        },
      },
    });
    expect(await fixture.executions(of, 1)).toMatchObject([{ status: "success", attempt: 1 }]);
    expect(taken).toMatchObject([{ jobUid: of.uid, started: true }]);
    expect(target.received).toHaveLength(1);
  });

  test("a claim that PostgreSQL takes up too late has not looked for anything", async () => {
    const target = await receiver();
    const queue = fixture.anotherQueue();
    const of = webhookJob(target.url);
    // So long ago that only a claim that looks at the whole queue finds it.
    await create({ of, at: Date.now() - 60_000 });
    const looks: unknown[] = [];
    worker({
      timing: { takeUp: 200 },
      queue: {
        ...queue,
        // There is no second announcement.
        onWake: () => () => undefined,
        claim: async (request) => {
          looks.push(request.from);
          if (looks.length === 1) await pause(600, timers);
          return queue.claim(request);
        },
      },
    });
    await fixture.executions(of, 1);
    // These claims looked at the whole queue.
    expect(looks.slice(0, 2)).toEqual([null, null]);
  });

  test("a claim that hangs does not hold up what was claimed before", async () => {
    const target = await receiver();
    const queue = fixture.anotherQueue();
    const of = webhookJob(target.url);
    const answer = Promise.withResolvers<undefined>();
    let prepared = false;
    worker({
      queue: {
        ...queue,
        claim: async (request) => {
          if (prepared) await answer.promise;
          const runs = await queue.claim(request);
          prepared ||= runs.length > 0;
          return runs;
        },
      },
    });
    await create({ of, at: Date.now() + 1_500 });
    await target.count(1).finally(() => {
      // The worker waits for the answer before it ends.
      answer.resolve(undefined);
    });
    expect(prepared).toBe(true);
  });

  test("what a claim without an answer took is handed back by a worker that ends", async () => {
    const target = await receiver();
    const queue = fixture.anotherQueue();
    const of = webhookJob(target.url);
    const lost = Promise.withResolvers<undefined>();
    const ending = worker({
      // It ends before it would look for the run again.
      timing: { poll: 60_000, afterError: 60_000 },
      queue: {
        ...queue,
        claim: async (request) => {
          const runs = await queue.claim(request);
          if (!runs.some(({ started }) => started)) return runs;
          lost.resolve(undefined);
          throw new Error("connection lost during commit");
        },
      },
    });
    await create({ of });
    await lost.promise;
    await ending.stop();
    expect(await fixture.runsOf(of)).toMatchObject([{ state: "queued", attempts: 0 }]);
    expect(target.received).toEqual([]);
  });
});
