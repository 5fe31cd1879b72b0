/** How many runs a worker takes on, in all and of one account or destination. */
export interface DeliveryLimits {
  /** Attempts in flight. */
  concurrency: number;
  perAccount: number;
  perDestination: number;
  /**
   * Of an account's mails: enough for its ten connections (`createMailer`) not to wait for the next starts. Not more: a
   * started mail that waits for a connection when the process dies counts as perhaps sent.
   */
  perMailServer: number;
  /** Claimed runs that wait for a slot. */
  buffer: number;
  /** Runs of one claim. */
  claimBatch: number;
  /** About how many characters of payloads and mails are held. One claim may go beyond it; see `HeldRuns.room`. */
  characters: number;
  /**
   * Circuits that are not closed, beyond which claims start nothing: a claim would have to name them all as
   * exceptions.
   */
  notClosed: number;
  /** Attempts done but not recorded, beyond which no more are claimed. */
  unrecorded: number;
  /**
   * The same for those that somebody's lock keeps from being recorded. More, because each account's own share ends
   * long before: the locks of a few must not stop all others.
   */
  lockedOut: number;
  /** Of an account: jobs and mails with such records, beyond which none of its runs are claimed. */
  lockedOutPerAccount: number;
}

const DELIVERY_LIMITS: Omit<DeliveryLimits, "perAccount" | "perDestination"> = {
  concurrency: 512,
  perMailServer: 32,
  buffer: 2_048,
  claimBatch: 512,
  characters: 32 * 1024 * 1024,
  notClosed: 500,
  unrecorded: 2_000,
  lockedOut: 10_000,
  lockedOutPerAccount: 256,
};

/** What a receiver can be expected to bear, however large the process is (docs/decisions/0018). */
const MOST_PER_DESTINATION = 160;

/**
 * The given limits, completed. A share that is not given is a part of `concurrency`, whatever that is:
 * shares as large as the whole would let one account fill the process.
 */
export function deliveryLimits(given: Partial<DeliveryLimits> = {}): DeliveryLimits {
  const limits = { ...DELIVERY_LIMITS, ...given };
  const perAccount = given.perAccount ?? part(limits.concurrency, 1 / 2);
  const perDestination =
    given.perDestination ?? Math.min(MOST_PER_DESTINATION, part(perAccount, 5 / 8));
  return { ...limits, perAccount, perDestination };
}

/** At least one slot. */
function part(whole: number, share: number): number {
  return Math.max(1, Math.floor(whole * share));
}
