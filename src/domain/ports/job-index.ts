import type { ListedJob } from "../listed-job.ts";

/**
 * The jobs of one account for lists that people look at again and again: kept between two looks and
 * brought up to date, instead of read anew. One conformance suite, test/conformance, holds the indexes
 * of both job stores to this contract.
 */
export interface JobIndex {
  /**
   * Every job of the account, oldest first, the id as tie-break. What this process wrote before the call
   * is in it; what others wrote is too, on Kubernetes as soon as the watch has told of it. A job that has
   * not changed is the same object as the last time, so that callers can keep what they made of it.
   */
  jobs(account: string): Promise<readonly ListedJob[]>;
}
