import { randomUUID } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { MailMessage, MailResult } from "../domain/mail.ts";
import type { SmtpSettingsStore } from "../domain/ports/accounts.ts";
import type { Timers } from "../domain/ports/clock.ts";
import type { Mailer } from "../domain/ports/mail.ts";
import type { Dial } from "../network/guarded-dial.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { createCoalescer } from "./coalescer.ts";
import { testSettings } from "./smtp-test.ts";
import { createTransportPool, type TransportPool } from "./transport-pool.ts";

/** Accounts with open connections at a time; the one idle longest gives way. */
const MAX_POOLS = 1_000;
/** Milliseconds without a mail after which an account's transport is let go. */
const POOL_IDLE = 5 * 60_000;

/**
 * Mail through each account's own SMTP server, over pooled connections. Whether the settings are still
 * the ones a pool was built from is asked before every mail, so that a change counts at once; mails that
 * ask at the same time share the question.
 */
export function createMailer(options: {
  settings: SmtpSettingsStore;
  dial: Dial;
  /** Questions that mails share begin milliseconds apart; without timers, one after the other. */
  timers?: Timers;
  metrics: Metrics;
  log: Logger;
  /** Connections per account. */
  poolSize?: number;
  /** Milliseconds that one mail may take in all: a server that trickles defeats the other limits. */
  sendTimeoutMs?: number;
  /** PEM certificates to trust besides the system's. */
  ca?: string;
}): Mailer {
  const { settings, dial, metrics, log, poolSize = 10, sendTimeoutMs = 60_000, ca } = options;
  const extra = ca === undefined ? {} : { ca };
  const pools = new LRUCache<string, TransportPool>({
    max: MAX_POOLS,
    ttl: POOL_IDLE,
    updateAgeOnGet: true,
    ttlAutopurge: true,
    dispose: (pool) => {
      pool.retire();
    },
  });
  const currentPool = createCoalescer(async (account: string): Promise<TransportPool | null> => {
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
      connections: poolSize,
      ...extra,
    });
    pools.set(account, pool);
    return pool;
  }, options.timers);
  let closed = false;

  async function send(
    account: string,
    message: MailMessage,
    signal?: AbortSignal,
    maySend?: () => boolean,
  ): Promise<MailResult> {
    if (closed) throw new Error("the mailer is closed");
    const pool = await currentPool(account);
    // Closed while it waited: nobody would close a new pool.
    if (closed) throw new Error("the mailer is closed");
    if (pool === null) return { kind: "unconfigured" };
    const messageId = messageIdOf(message.messageId, pool.from);
    return deadline(sendTimeoutMs, signal, (limited) =>
      pool.send({ ...message, messageId }, limited, maySend),
    );
  }

  return {
    send: async (account, message, signal, maySend) => {
      const kind = message.kind ?? "email";
      const started = performance.now();
      const result = await send(account, message, signal, maySend);
      metrics.emails.inc({ kind, outcome: OUTCOME[result.kind] });
      if (result.kind === "unconfigured") return result;
      metrics.emailDuration.observe({ kind }, (performance.now() - started) / 1_000);
      if (result.kind === "failed") {
        if (result.error.startsWith("destination refused"))
          metrics.destinationsRefused.inc({ protocol: "smtp" });
        log.info({ account, kind, outcomeUnknown: result.outcomeUnknown }, "email not accepted");
      }
      return result;
    },
    configured: async (account) => (await settings.revision(account)) !== undefined,
    test: (account, candidate, to) =>
      deadline(sendTimeoutMs, undefined, (signal) =>
        testSettings({
          account,
          settings: candidate,
          to,
          dial,
          signal,
          messageId: messageIdOf(undefined, candidate.from),
          ...extra,
        }),
      ),
    close: async () => {
      closed = true;
      for (const pool of pools.values()) pool.close();
      pools.clear();
    },
  };
}

const OUTCOME = { accepted: "sent", failed: "failed", unconfigured: "unconfigured" } as const;

/** RFC 5322, 3.6.4. The sender's own domain, as spam filters expect. Without angle brackets. */
function messageIdOf(given: string | undefined, from: string): string {
  if (given?.includes("@")) return given;
  return `${given ?? randomUUID()}@${from.slice(from.lastIndexOf("@") + 1) || "localhost"}`;
}

/** Runs `work` with a signal that aborts with the caller's, or when the time is up. */
async function deadline<T>(
  ms: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const abort = (): void => {
    controller.abort(signal?.reason);
  };
  const timer = setTimeout(() => {
    controller.abort(new Error(`not finished within ${ms} ms`));
  }, ms);
  signal?.addEventListener("abort", abort, { once: true });
  if (signal?.aborted) abort();
  try {
    return await work(controller.signal);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}
