/** Whether this process may schedule. Efficiency only: the cursor is what makes runs unique. */
export interface Leadership {
  /** True while leadership is held by the local monotonic clock; checked before each batch of runs. */
  holds(): boolean;
  /** Rises with every change of leader. */
  readonly epoch: number;
  /** Calls back on each change, and once at subscription. Returns the unsubscribe. */
  onChange(listener: (leading: boolean) => void): () => void;
  /** Runs the election until the signal aborts, then releases. Never rejects for an outage. */
  run(signal: AbortSignal): Promise<void>;
}
