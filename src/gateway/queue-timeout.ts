/**
 * How long a request waits for room or for its turn: a store that hangs must not build up a queue of hours. Well below
 * the time that a whole request may take to arrive.
 */
export const QUEUE_TIMEOUT_MS = 20_000;
