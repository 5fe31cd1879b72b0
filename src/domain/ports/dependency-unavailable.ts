/**
 * Something that this process shares with others (PostgreSQL, the API server, its machine's sockets) cannot be used
 * right now. The gateway answers 503; loops try again later. The caller's input is not at fault.
 */
export class DependencyUnavailable extends Error {
  override name = "DependencyUnavailable";
  /** For messages, health bodies and metrics: `postgres`, `kubernetes`, `machine`. */
  readonly dependency: string;
  /** How long the dependency itself asked us to stay away, when it said so. */
  readonly retryAfterSeconds: number | undefined;
  constructor(
    dependency: string,
    options?: ErrorOptions & { retryAfterSeconds?: number | undefined },
  ) {
    super(`${dependency} is unavailable`, options);
    this.dependency = dependency;
    this.retryAfterSeconds = options?.retryAfterSeconds;
  }
}

/** Milliseconds after which a statement without an answer is surely over on PostgreSQL, which gives it 10 s. */
export const STATEMENT_OVER_MS = 16_000;

/**
 * Somebody holds a lock that was waited for in vain: the dependency works, and what does not need the lock can go
 * on.
 */
export class LockHeld extends DependencyUnavailable {
  override name = "LockHeld";
}
