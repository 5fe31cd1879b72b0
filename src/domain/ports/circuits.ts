import type { Instant } from "../instant.ts";

export type CircuitState = "open" | "half_open" | "closed";

/** One process's breaker for one destination of an account. */
export interface Circuit {
  account: string;
  /** The breaker's key, for instance the origin of a webhook URL. */
  destination: string;
  state: CircuitState;
  /** When this process's breaker came into this state. */
  since: Instant;
  worker: string;
}

/** Breakers live in each delivering process; what they publish is for REST, conditions and people. */
export interface Circuits {
  /** Records a transition. Closed circuits are forgotten. */
  publish(circuit: Omit<Circuit, "since">): Promise<void>;
  /** The process runs, and what it published last still holds. To be called every minute: see `list`. */
  confirm(worker: string): Promise<void>;
  /**
   * Open and half-open circuits, by destination, of processes that published or confirmed within the last five
   * minutes.
   */
  list(account: string): Promise<Circuit[]>;
  /** The same for all accounts. */
  listAll(): Promise<Circuit[]>;
  /** The process ends: its breakers are gone. */
  forget(worker: string): Promise<void>;
}
