import { circuitStates } from "../domain/circuit-of.ts";
import type { Monotonic } from "../domain/ports/clock.ts";
import type { Circuits } from "../domain/ports/circuits.ts";

export interface OpenCircuits {
  /** Reads the circuits again when it is time. Resolves with the keys of those that opened or closed since. */
  refresh(): Promise<ReadonlySet<string>>;
  /** By `circuitKey`. */
  has(key: string | null): boolean;
}

const EVERY_MS = 3_000;
const NOTHING: ReadonlySet<string> = new Set();

/**
 * The circuits that some replica holds open. One that is being tried (half-open) counts as open: a status
 * that changed with every try would be a write for each of its jobs, twice a minute.
 */
export function createOpenCircuits(options: {
  circuits: Pick<Circuits, "listAll">;
  monotonic: Monotonic;
}): OpenCircuits {
  const { circuits, monotonic } = options;
  let open: ReadonlySet<string> = NOTHING;
  let readAt = -Infinity;
  return {
    async refresh() {
      if (monotonic() - readAt < EVERY_MS) return NOTHING;
      const before = open;
      const published = (await circuits.listAll()).filter(({ state }) => state !== "closed");
      open = new Set(circuitStates(published).keys());
      readAt = monotonic();
      return before.symmetricDifference(open);
    },
    has: (key) => key !== null && open.has(key),
  };
}
