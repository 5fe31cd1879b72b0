/** Whether this process may schedule. Efficiency only: the cursor is what makes runs unique. */
export interface Leadership {
  /** True while leadership is held by the local monotonic clock; checked before each batch of runs. */
  holds(): boolean;
  /** Calls back on each change, and once at subscription. Returns the unsubscribe. */
  onChange(listener: (leading: boolean) => void): () => void;
  /**
   * Runs the election until the signal aborts, then releases. Never rejects for an outage. `fit` says whether this
   * process can do a leader's work (default: always). While it cannot, it does not stand and gives leadership up,
   * because renewing it would keep the others from that work.
   */
  run(signal: AbortSignal, fit?: () => boolean): Promise<void>;
}
