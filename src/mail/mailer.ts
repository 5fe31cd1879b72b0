import { randomUUID } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { MailMessage, MailResult } from "../domain/mail.ts";
import type { SmtpSettingsStore } from "../domain/ports/accounts.ts";
import type { Monotonic, Timer, Timers } from "../domain/ports/clock.ts";
import type { Mailer, MailOptions } from "../domain/ports/mail.ts";
import type { Dial } from "../network/guarded-dial.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { createCoalescer } from "./coalescer.ts";
import { testSettings } from "./smtp-test.ts";
import { MailTimedOut, ServerBusy } from "./smtp-failure.ts";
import { createTransportPool, type TimeLimit, type TransportPool } from "./transport-pool.ts";

/** Most accounts with open connections; the one idle for longest gives way. */
const MAX_POOLS = 1_000;
/** Milliseconds without a mail after which an account's pool is retired. */
const POOL_IDLE = 5 * 60_000;

/**
 * Mail through each account's own SMTP server, over pooled connections. Before every mail the revision of the
 * settings is read, unless the caller has just done that, so that a change takes effect at once; mails at the same
 * time share one read. A mail waits for one of its account's connections. If the caller has a signal, only that
 * ends the wait; otherwise the wait counts as part of the mail's time, and the mail is refused when too many wait
 * already.
 */
export function createMailer(options: {
  settings: SmtpSettingsStore;
  dial: Dial;
  timers: Timers;
  monotonic: Monotonic;
  metrics: Metrics;
  log: Logger;
  /** See `smtpOptions`. */
  ehloName?: string | undefined;
  /** Connections per account. */
  poolSize?: number;
  /** Milliseconds that one mail may take: a server that trickles defeats the other limits. */
  sendTimeoutMs?: number;
}): Mailer {
  const {
    settings,
    dial,
    timers,
    monotonic,
    metrics,
    log,
    ehloName,
    poolSize = 10,
    sendTimeoutMs = 60_000,
  } = options;
  const pools = new LRUCache<string, TransportPool>({
    max: MAX_POOLS,
    ttl: POOL_IDLE,
    updateAgeOnGet: true,
    ttlAutopurge: true,
    dispose: (pool) => {
      pool.retire();
    },
  });
  const currentPool = createCoalescer(
    async (account: string): Promise<TransportPool | null> => {
      const revision = await settings.revision(account);
      const known = pools.get(account);
      if (known !== undefined && known.revision === revision) return known;
      const current = revision === undefined ? undefined : await settings.get(account);
      if (current === undefined || closed) {
        pools.delete(account);
        return null;
      }
      const pool = createTransportPool({
        account,
        settings: current,
        dial,
        ehloName,
        connections: poolSize,
      });
      pools.set(account, pool);
      return pool;
    },
    { timers, monotonic },
  );
  let closed = false;

  async function send(
    account: string,
    message: MailMessage,
    { signal, maySend, smtpRevision }: MailOptions = {},
  ): Promise<MailResult> {
    return withTimeLimit({ timers, ms: sendTimeoutMs, signal }, async (limit) => {
      const open = pools.get(account);
      let known = open?.revision === smtpRevision ? open : undefined;
      for (; ; known = undefined) {
        if (closed) throw new Error("the mailer is closed");
        const pool = known ?? (await currentPool(account));
        // Closed meanwhile: nobody would close a new pool.
        if (closed) throw new Error("the mailer is closed");
        if (pool === null) return { kind: "unconfigured" };
        const messageId = messageIdOf(message.messageId, pool.from);
        const result = await pool.send({ ...message, messageId }, limit, maySend);
        if (result.kind !== "retired") return result;
        if (closed) return CLOSED;
        // The settings changed while the mail waited, or the pool gave way: again with the current pool.
      }
    });
  }

  return {
    send: async (account, message, options) => {
      const kind = message.kind ?? "email";
      const started = monotonic();
      const result = await send(account, message, options);
      const queueFull = result.kind === "failed" && result.queueFull === true;
      metrics.emails.inc({ kind, outcome: queueFull ? "queue_full" : OUTCOME[result.kind] });
      // The mail server was not contacted: no duration.
      if (queueFull || result.kind === "unconfigured") return result;
      metrics.emailDuration.observe({ kind }, (monotonic() - started) / 1_000);
      if (result.kind === "failed") {
        if (result.refused) metrics.destinationsRefused.inc({ protocol: "smtp" });
        log.info({ account, kind, outcomeUnknown: result.outcomeUnknown }, "email not accepted");
      }
      return result;
    },
    configured: async (account) => (await settings.revision(account)) !== undefined,
    test: (account, candidate, to) =>
      withTimeLimit({ timers, ms: sendTimeoutMs }, ({ signal, begin }) => {
        begin();
        return testSettings({
          account,
          settings: candidate,
          to,
          dial,
          ehloName,
          signal,
          messageId: messageIdOf(undefined, candidate.from),
        });
      }),
    close: async () => {
      closed = true;
      for (const pool of pools.values()) pool.close();
      pools.clear();
    },
  };
}

/** The result of mails that waited for their turn when the mailer was closed. */
const CLOSED: MailResult = {
  kind: "failed",
  error: "Carillon was stopped before the mail was sent",
  retryable: true,
  outcomeUnknown: false,
  serverFault: false,
};

const OUTCOME = { accepted: "sent", failed: "failed", unconfigured: "unconfigured" } as const;

/** RFC 5322, 3.6.4. The sender's own domain, as spam filters expect. Without angle brackets. */
function messageIdOf(given: string | undefined, from: string): string {
  if (given?.includes("@")) return given;
  return `${given ?? randomUUID()}@${from.slice(from.lastIndexOf("@") + 1) || "localhost"}`;
}

/**
 * The part of an awaited mail's time in which it no longer begins. While more mails come than the server takes, those
 * with the least time left have the next turns: begun with none, all of them would be cut off on their way, some after
 * the server had taken them.
 */
const KEPT_FOR_SENDING = 1 / 6;

/**
 * Runs `work` with a signal that aborts with the caller's, or `ms` after `work` calls `begin`. Without a signal
 * somebody waits for the answer: then it aborts after `ms` in all, and earlier if `begin` has not been called by then.
 */
async function withTimeLimit<T>(
  { timers, ms, signal }: { timers: Timers; ms: number; signal?: AbortSignal | undefined },
  work: (limit: TimeLimit) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const abort = (): void => {
    controller.abort(signal?.reason);
  };
  let begun = false;
  let timer: Timer | undefined;
  const endAfter = (left: number): void => {
    timer = timers.after(left, () => {
      controller.abort(new MailTimedOut(ms));
    });
  };
  if (signal === undefined) {
    const kept = ms * KEPT_FOR_SENDING;
    timer = timers.after(ms - kept, () => {
      if (begun) endAfter(kept);
      else controller.abort(new ServerBusy(ms - kept));
    });
  }
  signal?.addEventListener("abort", abort, { once: true });
  if (signal?.aborted) abort();
  try {
    return await work({
      signal: controller.signal,
      awaited: signal === undefined,
      begin: () => {
        begun = true;
        if (timer === undefined) endAfter(ms);
      },
    });
  } finally {
    timer?.cancel();
    signal?.removeEventListener("abort", abort);
  }
}
