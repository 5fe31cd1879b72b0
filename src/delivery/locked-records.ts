/** Of whom a record waits for somebody's lock: a job, or an account's part of the log of mails. */
export interface LockedOut {
  account: string;
  jobUid: string | undefined;
}

/**
 * Whose records somebody's lock keeps from being written, and whom claims exclude for it: such a job, and an account
 * with too many of them. A job counts once, however many of its records wait.
 */
export class LockedRecords {
  readonly #mostOfAccount: number;
  /**
   * How many records of the job wait, and the account that counts the job. Records of another account may follow, when
   * the namespace was bound to it meanwhile.
   */
  readonly #jobs = new Map<string, { records: number; account: string }>();
  /** Jobs of an account, and records of its own. */
  readonly #accounts = new Map<string, number>();

  constructor(options: { mostOfAccount: number }) {
    this.#mostOfAccount = options.mostOfAccount;
  }

  /** One more record waits, or one fewer. */
  change({ account, jobUid }: LockedOut, waits: boolean): void {
    const change = waits ? 1 : -1;
    if (jobUid === undefined) {
      this.#count(account, change);
      return;
    }
    const before = this.#jobs.get(jobUid) ?? { records: 0, account };
    const records = before.records + change;
    if (records > 0) this.#jobs.set(jobUid, { records, account: before.account });
    else this.#jobs.delete(jobUid);
    if (before.records === 0 || records === 0) this.#count(before.account, change);
  }

  jobs(): string[] {
    return [...this.#jobs.keys()];
  }

  /** Accounts that have as many as they may. */
  accounts(): string[] {
    const names: string[] = [];
    for (const [account, count] of this.#accounts)
      if (count >= this.#mostOfAccount) names.push(account);
    return names;
  }

  #count(account: string, change: number): void {
    const count = (this.#accounts.get(account) ?? 0) + change;
    if (count > 0) this.#accounts.set(account, count);
    else this.#accounts.delete(account);
  }
}
