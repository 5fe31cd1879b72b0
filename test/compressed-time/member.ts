import { setTimeout as delay } from "node:timers/promises";
import { monotonic, timers } from "../../cmd/system.ts";
import { createController } from "../../src/controller/controller.ts";
import { createCircuitBreakers } from "../../src/delivery/circuit-breakers.ts";
import { createDeliveryWorker } from "../../src/delivery/delivery-worker.ts";
import { createWebhookSender } from "../../src/delivery/webhook.ts";
import type { Random } from "../../src/domain/ports/clock.ts";
import type { Leadership } from "../../src/domain/ports/leadership.ts";
import type { LedgerChange, RunLedger } from "../../src/domain/ports/run-ledger.ts";
import { createPostgresClock } from "../../src/postgres/clock.ts";
import { createLedgerNews } from "../../src/postgres/job-notifications.ts";
import { createNotifications } from "../../src/postgres/notifications.ts";
import { createPool, type Pool } from "../../src/postgres/pool.ts";
import { createPostgresJobStore } from "../../src/postgres/postgres-job-store.ts";
import { createRunLedger } from "../../src/postgres/run-ledger.ts";
import { createRunQueue } from "../../src/postgres/run-queue.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { between } from "../faults/seeded-random.ts";
import type { Decided } from "./evidence.ts";
import type { Receiver } from "./receiver.ts";
import { shaken, type Fate } from "./shaky-pool.ts";

/** What would be one process: a controller and a delivery worker, with connections of their own. */
export interface Member {
  readonly name: string;
  readonly leading: boolean;
  /** Whether its statements fail now and then. */
  failing: boolean;
  lead(leading: boolean): void;
  /** For so many ms its statements do not get to PostgreSQL, nor the answers back. */
  cutOff(ms: number): void;
  /** Like SIGTERM. */
  stop(): Promise<void>;
  /** Like SIGKILL: it does nothing more, and its connections are closed. */
  kill(): Promise<void>;
}

/** Signs the calls. Other tests check that receivers can verify them. */
const SECRET = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;

/**
 * The product's times, in ms, shortened as the fire times are. A lease lasts ten to twenty fire times, and longer than
 * the slowest answer and the slowest statement together.
 */
const WORKER_TIMING = {
  lease: 2_200,
  renew: 250,
  poll: 60,
  lookahead: 60,
  reap: 200,
  unwanted: 80,
  afterError: 30,
  takeUp: 400,
  unanswered: 1_500,
  filling: 20,
  collect: 1,
  grace: 400,
  flush: 400,
  signingKeys: 100,
};
/** Less than the shortest period: as with a minute between fire times, there is a decision for each of them. */
const PREPARE_AHEAD_MS = 40;
const RESYNC_MS = 4_000;

export async function startMember(options: {
  url: string;
  name: string;
  random: Random;
  receiver: Receiver;
  /** A pool that is not shaken; it closes the connections of a killed process. */
  server: Pool;
  decided: Decided[];
  crashed: (what: string) => void;
  statementFailed: () => void;
}): Promise<Member> {
  const { url, name, random, receiver, server } = options;
  const fate: Fate = {
    dead: false,
    failing: true,
    cutOff: Promise.resolve(),
    onFailed: options.statementFailed,
  };
  const shakyPool = (max: number): Pool =>
    shaken(createPool({ url, applicationName: name, max, plans: "fixed", lockTimeoutMs: 300 }), {
      fate,
      random,
    });
  const pool = shakyPool(6);
  const leasePool = shakyPool(1);
  const clockPool = createPool({ url, applicationName: `${name} clock`, max: 1 });
  const notifications = createNotifications({ url, applicationName: `${name} news` });
  const clock = createPostgresClock({ pool: clockPool, monotonic, intervalMs: 1_000 });
  await clock.start();
  const log = createLogger({ level: "silent" });
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  const leadership = createGivenLeadership();
  const controller = createController({
    jobs: createPostgresJobStore({ pool, notifications, timers }),
    ledger: recordingLedger(createRunLedger({ pool }), { member: name, decided: options.decided }),
    news: createLedgerNews({ notifications }),
    clock,
    leadership,
    timers,
    monotonic,
    random,
    metrics,
    log,
    prepareAheadMs: PREPARE_AHEAD_MS,
    resyncMs: RESYNC_MS,
  });
  const breakers = createCircuitBreakers({
    clock,
    monotonic,
    timers,
    metrics,
    onTransition: () => undefined,
    windowMs: 600,
    resetMs: 250,
  });
  const caller = receiver.caller();
  const webhook = createWebhookSender({
    dial: caller.dial,
    clock,
    monotonic,
    metrics,
    version: "test",
  });
  const worker = createDeliveryWorker({
    queue: createRunQueue({ pool, leasePool, notifications, random }),
    clock,
    mailer: { send: () => Promise.reject(new Error("no job here sends mail")) },
    emailLog: {
      append: () => Promise.reject(new Error("no job here sends mail")),
      locked: async () => new Set(),
    },
    webhook,
    signingSecrets: {
      // Sometimes slow: between a run's start and its sending it may be cancelled, which the worker must notice.
      current: async () => {
        if (random() < 0.05) await delay(between(random, 5, 180));
        return [SECRET];
      },
    },
    smtpSettings: { revision: () => Promise.reject(new Error("no job here sends mail")) },
    breakers,
    random,
    timers,
    monotonic,
    metrics,
    log,
    workerId: name,
    timing: WORKER_TIMING,
  });

  const stopping = new AbortController();
  const running = [controller.run(stopping.signal), worker.run(stopping.signal)].map((part) =>
    part.catch((error: unknown) => {
      if (!fate.dead)
        options.crashed(`${name}: ${error instanceof Error ? error.stack : String(error)}`);
    }),
  );

  async function closeOthers(): Promise<void> {
    clock.stop();
    breakers.close();
    await notifications.close();
  }

  return {
    name,
    get leading() {
      return leadership.holds();
    },
    get failing() {
      return fate.failing;
    },
    set failing(failing) {
      fate.failing = failing;
    },
    lead: (leading) => {
      leadership.give(leading);
    },
    cutOff: (ms) => {
      fate.cutOff = delay(ms);
    },
    stop: async () => {
      leadership.give(false);
      stopping.abort();
      await Promise.all(running);
      await closeOthers();
      await webhook.close();
      await Promise.all([pool, leasePool, clockPool].map((each) => each.end()));
    },
    kill: async () => {
      fate.dead = true;
      caller.cut();
      leadership.give(false);
      // Only to end its timers: it cannot reach anything any more.
      stopping.abort();
      // An open transaction ends with its connection, and so do its locks.
      await server.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and split_part(application_name, ' ', 1) = $1`,
        [name],
      );
      await closeOthers();
      await clockPool.end();
    },
  };
}

/** Leadership that the suite gives and takes, also to two at a time, as happens when the electors' clocks disagree. */
function createGivenLeadership(): Leadership & { give(leading: boolean): void } {
  const listeners = new Set<(leading: boolean) => void>();
  let leading = false;
  return {
    holds: () => leading,
    onChange: (listener) => {
      listeners.add(listener);
      listener(leading);
      return () => listeners.delete(listener);
    },
    run: async () => undefined,
    give: (now) => {
      leading = now;
      for (const listener of listeners) listener(now);
    },
  };
}

/** The same ledger, but adds each change that it applies to `decided`, with its outcome. */
function recordingLedger(
  ledger: RunLedger,
  { member, decided }: { member: string; decided: Decided[] },
): RunLedger {
  return {
    ...ledger,
    apply: async (changes) => {
      const from = Date.now();
      const note = (outcomeOf: (change: LedgerChange) => Decided["outcome"]): void => {
        for (const change of changes)
          decided.push({
            jobUid: change.job.uid,
            member,
            from,
            until: Date.now(),
            outcome: outcomeOf(change),
            generation: change.to.generation,
            position: change.to.position,
            wasStartable: change.from?.startable,
            startable: change.to.startable,
            once: change.to.once,
            created: change.create.map(({ trigger, scheduledAt }) => ({ trigger, scheduledAt })),
            missed: change.missed.map(({ first, last, reason }) => ({ first, last, reason })),
          });
      };
      try {
        const result = await ledger.apply(changes);
        const lost = new Set(result.conflicts);
        note(({ job }) => (lost.has(job.uid) ? "lost" : "won"));
        return result;
      } catch (error) {
        note(() => "unknown");
        throw error;
      }
    },
  };
}
