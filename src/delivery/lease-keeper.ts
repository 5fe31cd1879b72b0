import type { Monotonic } from "../domain/ports/clock.ts";
import type { Claim, RunQueue } from "../domain/ports/run-queue.ts";

/**
 * The claims of this worker. A run that was lost and claimed again has another token: what is known of the first claim
 * says nothing about the second.
 */
export interface LeaseKeeper {
  /** `askedAt`: monotonic time before the claim was sent, so that we never think we have longer. */
  add(claims: readonly Claim[], askedAt: number): void;
  remove(claim: Claim): void;
  /**
   * Ids of the claimed runs, as far as this worker knows. Their leases may be over, when a lock keeps them from
   * being renewed.
   */
  ids(): string[];
  /** Whether the claim is still this worker's; false from a second before its lease ends, by monotonic time. */
  holds(claim: Claim): boolean;
  /** Extends the leases; claims that turn out to be lost are reported to `onLost`. */
  renew(): Promise<void>;
}

/** Milliseconds that a lease ends earlier for us than for PostgreSQL. */
const MARGIN = 1_000;

export function createLeaseKeeper(options: {
  queue: Pick<RunQueue, "renew">;
  leaseMs: number;
  monotonic: Monotonic;
  onLost: (claim: Claim) => void;
}): LeaseKeeper {
  const { queue, leaseMs, monotonic, onLost } = options;
  /** By run id. */
  const held = new Map<string, { claim: Claim; end: number }>();

  function entryOf({ id, claimToken }: Claim): { claim: Claim; end: number } | undefined {
    const entry = held.get(id);
    return entry?.claim.claimToken === claimToken ? entry : undefined;
  }

  return {
    add: (claims, askedAt) => {
      for (const { id, claimToken } of claims)
        held.set(id, { claim: { id, claimToken }, end: askedAt + leaseMs });
    },
    remove: (claim) => {
      if (entryOf(claim)) held.delete(claim.id);
    },
    ids: () => Array.from(held.keys()),
    holds: (claim) => {
      const entry = entryOf(claim);
      return entry !== undefined && monotonic() < entry.end - MARGIN;
    },
    renew: async () => {
      if (held.size === 0) return;
      const asked = monotonic();
      const claims = Array.from(held.values(), ({ claim }) => claim);
      const still = await queue.renew(claims, leaseMs);
      for (const claim of claims) {
        const entry = entryOf(claim);
        // Closed or given back in the meantime.
        if (entry === undefined) continue;
        const answer = still.get(claim.id);
        if (answer === "renewed") entry.end = asked + leaseMs;
        else if (answer === undefined) {
          held.delete(claim.id);
          onLost(claim);
        }
      }
    },
  };
}
