import { beforeAll, expect, test } from "vitest";
import { startScriptedServer } from "../mail/scripted-server.ts";
import {
  emailJob,
  endingWithTest,
  webhookJob,
  workerFixture,
  type WorkerFixture,
} from "./worker-fixture.ts";
import { unfinishedRuns } from "../../postgres/unfinished-runs.ts";

let fixture: WorkerFixture;
beforeAll(async () => {
  fixture = await workerFixture();
  return () => fixture.close();
});
const { receiver, worker, create, onEnd } = endingWithTest(() => fixture);

test("hands unstarted runs back and lets started ones finish", async () => {
  let release: (() => void) | undefined;
  const target = await receiver((_call, response) => {
    release = () => response.end();
  });
  const started = webhookJob(target.url);
  const running = worker({ timing: { lookahead: 120_000 } });
  await create({ of: started });
  await target.count(1);
  const waiting = webhookJob(target.url);
  await create({ of: waiting, at: Date.now() + 60_000 });
  await expect.poll(async () => (await fixture.runsOf(waiting))[0]?.state).toBe("claimed");
  const stopped = running.stop();
  await expect.poll(async () => (await fixture.runsOf(waiting))[0]?.state).toBe("queued");
  release?.();
  await stopped;
  expect(await fixture.executions(started, 1)).toMatchObject([{ status: "success" }]);
  expect(target.received).toHaveLength(1);
});

test("closes what does not finish in time as interrupted", async () => {
  const target = await receiver(() => undefined);
  const of = webhookJob(target.url);
  const running = worker({ timing: { grace: 200 } });
  await create({ of });
  await target.count(1);
  await running.stop();
  expect(await fixture.executions(of, 1)).toMatchObject([
    { status: "failed", httpStatus: 500, errorMessage: "interrupted: outcome unknown" },
  ]);
});

test("what waits for a connection to the mail server is handed back: nothing of it has left", async () => {
  const server = await startScriptedServer({ END: "hang" });
  onEnd(() => server.close());
  fixture.mailThrough(server.port);
  const account = crypto.randomUUID();
  const letter = {
    kind: "email",
    to: "you@there.example",
    subject: "S",
    body: "x",
    isHtml: false,
  } as const;
  const mails = Array.from({ length: 13 }, () => ({ ...emailJob(letter), account }));
  const runs = () => unfinishedRuns(fixture.pool, ...mails.map(({ uid }) => uid));
  const running = worker({ timing: { grace: 200 } });
  await create(...mails.map((of) => ({ of })));
  await expect.poll(() => server.seen.mails).toBe(10);
  await expect
    .poll(async () => (await runs()).map(({ state }) => state))
    .toEqual(Array(13).fill("started"));
  await running.stop();
  const back = { state: "queued", attempts: 0 };
  expect(await runs()).toMatchObject([back, back, back]);
  // Nobody knows whether the server has accepted the ten mails that it was sent.
  const { rows } = await fixture.pool.query(
    "select error_message, count(*) from executions where account = $1 group by 1",
    [account],
  );
  expect(rows).toEqual([{ error_message: "interrupted: outcome unknown", count: 10 }]);
});

test("started runs have their time from the signal on, however long the database takes", async () => {
  const target = await receiver(() => undefined);
  const of = webhookJob(target.url);
  const queue = fixture.anotherQueue();
  const answer = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  let past = 0;
  const running = worker({
    monotonic: () => performance.now() + past,
    // A grace period that is longer than a test may take.
    timing: { grace: 60_000 },
    queue: {
      ...queue,
      claim: async (request) => {
        if (target.received.length === 0) return queue.claim(request);
        asked.resolve();
        await answer.promise;
        return [];
      },
    },
  });
  await create({ of });
  await target.count(1);
  await asked.promise;
  const stopped = running.stop();
  past = 60_000;
  answer.resolve();
  await stopped;
  expect(await fixture.executions(of, 1)).toMatchObject([
    { errorMessage: "interrupted: outcome unknown" },
  ]);
});
