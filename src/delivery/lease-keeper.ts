import type { Monotonic } from "../domain/ports/clock.ts";
import type { RunQueue } from "../domain/ports/run-queue.ts";

export interface LeaseKeeper {
  /** `askedAt`: monotonic time before the claim was sent, so that we never think we have longer. */
  add(ids: readonly string[], askedAt: number): void;
  remove(id: string): void;
  /** On monotonic time, with a second in hand: whether the run is still this worker's. */
  holds(id: string): boolean;
  /** Extends the leases; those that turn out to be somebody else's are reported to `onLost`. */
  renew(): Promise<void>;
}

/** Milliseconds between our idea of a lease's end and PostgreSQL's, in our disfavour. */
const MARGIN = 1_000;

export function createLeaseKeeper(options: {
  queue: Pick<RunQueue, "renew">;
  worker: string;
  leaseMs: number;
  monotonic: Monotonic;
  onLost: (id: string) => void;
}): LeaseKeeper {
  const { queue, worker, leaseMs, monotonic, onLost } = options;
  const ends = new Map<string, number>();
  return {
    add: (ids, askedAt) => {
      for (const id of ids) ends.set(id, askedAt + leaseMs);
    },
    remove: (id) => {
      ends.delete(id);
    },
    holds: (id) => {
      const end = ends.get(id);
      return end !== undefined && monotonic() < end - MARGIN;
    },
    renew: async () => {
      if (ends.size === 0) return;
      const asked = monotonic();
      const before = new Set(ends.keys());
      const held = await queue.renew(worker, leaseMs);
      for (const id of before) {
        // Closed or handed back in the meantime.
        if (!ends.has(id)) continue;
        if (held.has(id)) ends.set(id, asked + leaseMs);
        else {
          ends.delete(id);
          onLost(id);
        }
      }
    },
  };
}
