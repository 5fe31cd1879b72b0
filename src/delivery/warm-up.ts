import type { Instant } from "../domain/instant.ts";
import type { CircuitBreakers } from "./circuit-breakers.ts";
import type { HeldRuns } from "./held-runs.ts";
import type { WebhookSender } from "./webhook.ts";

/**
 * Milliseconds before a run is due. Enough for a name, a connection and TLS; less than a receiver waits for the first
 * request of a connection, and than signing secrets are kept.
 */
const AHEAD = 500;
/** Milliseconds between two looks at what becomes due, however many runs are due one after another. */
const APART = 100;

/**
 * Does for the webhooks of a herd, shortly before their second, what takes time and calls nobody: opens connections and
 * reads signing secrets. Whatever fails is left to the deliveries, which try again and report it.
 */
export interface WarmUp {
  /** Looks at the runs that become due within `AHEAD` and were not looked at before. */
  look(now: Instant): void;
  /** When to look again; null: when there are more runs. */
  next(): Instant | null;
}

export function createWarmUp(options: {
  held: Pick<HeldRuns, "soon" | "nextDue">;
  breakers: Pick<CircuitBreakers, "notClosed">;
  webhook: Pick<WebhookSender, "warmUp">;
  signingKeys: (account: string) => Promise<unknown>;
}): WarmUp {
  const { held, breakers, webhook, signingKeys } = options;
  /** Runs due until then were looked at. */
  let looked = -Infinity;

  return {
    look: (now) => {
      const until = now + AHEAD;
      // The clock may have stepped back.
      if (looked > until) looked = now;
      if (looked > until - APART) return;
      // One whose circuit is not closed may be down, and a half-open circuit lets only one call through.
      const soon = held.soon(Math.max(now, looked), until, breakers.notClosed);
      for (const { run, calls } of soon) {
        signingKeys(run.account).catch(() => undefined);
        webhook.warmUp(run, calls);
      }
      looked = until;
    },
    next: () => {
      const due = held.nextDue(looked);
      return due === null ? null : Math.max(looked + APART, due) - AHEAD;
    },
  };
}
