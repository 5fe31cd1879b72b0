import { afterEach } from "vitest";
import { monotonic, timers } from "../../../cmd/system.ts";
import type { SmtpSettings } from "../../../src/domain/account.ts";
import type { EmailTarget, Job, JobSpec, WebhookTarget } from "../../../src/domain/job.ts";
import type { Clock, Monotonic, Timers } from "../../../src/domain/ports/clock.ts";
import type { RunQueue } from "../../../src/domain/ports/run-queue.ts";
import type { Execution } from "../../../src/domain/run.ts";
import { createCircuitBreakers } from "../../../src/delivery/circuit-breakers.ts";
import { createDeliveryWorker } from "../../../src/delivery/delivery-worker.ts";
import { createWebhookSender } from "../../../src/delivery/webhook.ts";
import { createMailer } from "../../../src/mail/mailer.ts";
import { parseDestinationRules } from "../../../src/network/destination-rules.ts";
import { createGuardedDial } from "../../../src/network/guarded-dial.ts";
import { createPostgresClock } from "../../../src/postgres/clock.ts";
import { createEmailLog } from "../../../src/postgres/email-log.ts";
import { createLogger, type Logger } from "../../../src/telemetry/logger.ts";
import { createMetrics, type Metrics } from "../../../src/telemetry/metrics.ts";
import { until } from "../../until.ts";
import {
  change,
  job,
  runsFixture,
  scheduled,
  spec,
  type RunsFixture,
} from "../postgres/runs-fixture.ts";
import { startReceiver, type Receiver } from "../../receiver.ts";

export const SECRET = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;

export interface WorkerFixture extends RunsFixture {
  /** Shared by all workers. */
  metrics: Metrics;
  /** PostgreSQL's clock, shared by all workers. */
  clock: Clock;
  smtp: { current: SmtpSettings | undefined };
  /** Every account's mails go to the server on this port from now on. */
  mailThrough(port: number): void;
  /** Starts one more worker, with a queue of its own, as if in another process. */
  worker(options?: {
    id?: string;
    timing?: Parameters<typeof createDeliveryWorker>[0]["timing"];
    limits?: Parameters<typeof createDeliveryWorker>[0]["limits"];
    queue?: RunsFixture["queue"];
    resetMs?: number;
    /** Default: the fixture's clock. */
    clock?: Clock;
    monotonic?: Monotonic;
    timers?: Timers;
    signingSecrets?: Parameters<typeof createDeliveryWorker>[0]["signingSecrets"];
    log?: Logger;
  }): { stop(): Promise<void>; done: Promise<void>; transitions: string[] };
  executions(of: Job, count: number): Promise<Execution[]>;
}

export async function workerFixture(
  ...database: Parameters<typeof runsFixture>
): Promise<WorkerFixture> {
  const runs = await runsFixture(...database);
  const clock = createPostgresClock({ pool: runs.pool, monotonic });
  await clock.start();
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  const log = createLogger({ level: "silent" });
  const rules = parseDestinationRules("127.0.0.0/8");
  const dial = createGuardedDial({ rules, accountRules: async () => parseDestinationRules("") });
  const smtp: WorkerFixture["smtp"] = { current: undefined };
  const smtpSettings = {
    get: async () => smtp.current,
    revision: async () => smtp.current?.revision,
    set: async () => undefined,
    delete: async () => undefined,
  };
  const mailer = createMailer({
    timers,
    monotonic,
    settings: smtpSettings,
    dial,
    metrics,
    log,
  });
  const webhook = createWebhookSender({
    dial,
    clock,
    monotonic,
    metrics,
    version: "9.9.9",
  });
  const emailLog = createEmailLog({ pool: runs.pool });
  const running: { stop(): Promise<void> }[] = [];
  let workers = 0;

  return {
    ...runs,
    metrics,
    clock,
    smtp,
    mailThrough: (port) => {
      smtp.current = {
        host: "127.0.0.1",
        port,
        username: null,
        password: null,
        from: "jobs@sender.example",
        tls: "none",
        revision: String(port),
      };
    },
    worker: (options = {}) => {
      workers += 1;
      const stopping = new AbortController();
      const transitions: string[] = [];
      const breakers = createCircuitBreakers({
        clock,
        monotonic,
        timers,
        metrics,
        onTransition: ({ state }) => transitions.push(state),
        resetMs: options.resetMs,
      });
      const worker = createDeliveryWorker({
        queue: options.queue ?? runs.anotherQueue(),
        clock: options.clock ?? clock,
        mailer,
        emailLog,
        webhook,
        signingSecrets: options.signingSecrets ?? { current: async () => [SECRET] },
        smtpSettings,
        breakers,
        random: Math.random,
        timers: options.timers ?? timers,
        monotonic: options.monotonic ?? monotonic,
        metrics,
        log: options.log ?? log,
        workerId: options.id ?? `worker-${workers}`,
        timing: options.timing,
        limits: options.limits,
      });
      const done = worker.run(stopping.signal);
      const handle = {
        transitions,
        done,
        stop: async () => {
          stopping.abort();
          await done;
          breakers.close();
        },
      };
      running.push(handle);
      return handle;
    },
    executions: async (of, count) => {
      let found: Execution[] = [];
      return until(
        () => `${count} executions of ${of.id}, not ${found.length}`,
        async () => {
          found = await runs.executionsOf(of);
          return found.length >= count && found;
        },
      );
    },
    close: async () => {
      await Promise.all(running.map((worker) => worker.stop()));
      await webhook.close();
      await mailer.close();
      clock.stop();
      await runs.close();
    },
  };
}

export function webhookJob(
  url: string,
  change: Omit<Partial<JobSpec>, "target"> & {
    target?: Partial<WebhookTarget>;
    account?: string;
  } = {},
): Job {
  const { target, account, ...rest } = change;
  const webhook: WebhookTarget = {
    kind: "webhook",
    url,
    payload: "{}",
    headers: {},
    headersFrom: [],
    // More than a test may take, so that no attempt ends by its own limit.
    timeoutSeconds: 60,
    ...target,
  };
  return job({ ...(account ? { account } : {}), spec: spec({ ...rest, target: webhook }) });
}

export function emailJob(target: EmailTarget): Job {
  return job({ spec: spec({ target }) });
}

/** A queue whose claims do not start runs, as if all of them were claimed ahead of time: `start` starts them. */
export function claimingOnly(queue: RunQueue): RunQueue {
  return { ...queue, claim: ({ start: _start, ...request }) => queue.claim(request) };
}

/** Ends with each test what it has started, the workers before what they call, and deletes all runs. */
export function endingWithTest(fixture: () => WorkerFixture) {
  let workers: { stop(): Promise<void> }[] = [];
  let ends: (() => Promise<void> | void)[] = [];
  afterEach(async () => {
    await Promise.all(workers.map((worker) => worker.stop()));
    for (const end of ends.toReversed()) await end();
    workers = [];
    ends = [];
    await fixture().pool.query("delete from runs");
  });

  return {
    onEnd: (end: () => Promise<void> | void): void => {
      ends.push(end);
    },
    receiver: async (...options: Parameters<typeof startReceiver>): Promise<Receiver> => {
      const started = await startReceiver(...options);
      ends.push(() => started.close());
      return started;
    },
    worker: (...options: Parameters<WorkerFixture["worker"]>) => {
      const started = fixture().worker(...options);
      workers.push(started);
      return started;
    },
    /** Creates runs; by default they have just become due. */
    create: (...jobs: { of: Job; at?: number }[]) =>
      fixture().ledger.apply(
        jobs.map(({ of, at = Date.now() - 50 }) => change(of, { create: [scheduled(at)] })),
      ),
  };
}
