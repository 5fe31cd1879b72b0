export interface AnswerRoom {
  /**
   * Counts an answer of `bytes` bytes as being in memory, until the function that it returns is called. Undefined:
   * there is no room for it.
   */
  take(answer: { account: string; bytes: number }): (() => void) | undefined;
}

/** Bytes. Smaller answers take no room: their connections cost as much. */
const SMALL = 8_192;

/**
 * Bounds the answers that a process has in its memory because their clients have not read them yet. No account has
 * more than is left free, so that there is room for the next account, however many read nothing; and each has a
 * single answer of any size.
 */
export function createAnswerRoom({ bytes: room }: { bytes: number }): AnswerRoom {
  const byAccount = new Map<string, number>();
  let used = 0;

  function change(account: string, by: number): void {
    used += by;
    const own = (byAccount.get(account) ?? 0) + by;
    if (own > 0) byAccount.set(account, own);
    else byAccount.delete(account);
  }

  return {
    take({ account, bytes }) {
      if (bytes < SMALL) return () => undefined;
      const own = byAccount.get(account) ?? 0;
      if (own > 0 && own + bytes > room - used - bytes) return undefined;
      change(account, bytes);
      return () => {
        change(account, -bytes);
      };
    },
  };
}
