import { beginStatement, type Pace } from "./pace.ts";

/** Collects rows that arrive while a commit is in flight, or just after, and commits them together. */
export interface GroupCommit<Row, Result> {
  /** Resolves when the row is durable; rejects when its commit failed. */
  submit(row: Row): Promise<Result>;
}

interface Waiting<Row, Result> {
  row: Row;
  resolve(result: Result): void;
  reject(error: unknown): void;
}

/**
 * One commit is in flight at a time. A row that comes while none is goes at once; rows that come meanwhile are the next
 * group. With a pace, the next commit begins when three times the duration of the one before has passed since its
 * beginning, but at most 5 ms: a statement for one row costs the program as much as one for ten.
 */
export function createGroupCommit<Row, Result>({
  commit,
  pace,
  maxRows = 1_000,
  maxSize = Infinity,
  sizeOf = () => 0,
  isRowFault = () => false,
}: {
  /** Writes all rows in one transaction; one result a row, in the same order. */
  commit: (rows: readonly Row[]) => Promise<readonly Result[]>;
  pace?: Pace | undefined;
  maxRows?: number;
  /** A group ends with the row that makes its rows, by `sizeOf`, as large as this. */
  maxSize?: number;
  sizeOf?: (row: Row) => number;
  /**
   * True for an error that a row itself causes and that leaves nothing written: the rows are then
   * committed one by one, so that one bad row fails alone.
   */
  isRowFault?: (error: unknown) => boolean;
}): GroupCommit<Row, Result> {
  let waiting: Waiting<Row, Result>[] = [];
  let running: Promise<void> | undefined;

  async function commitGroup(group: readonly Waiting<Row, Result>[]): Promise<void> {
    let results: readonly Result[];
    try {
      results = await commit(group.map((w) => w.row));
    } catch (error) {
      if (group.length > 1 && isRowFault(error)) {
        for (const one of group) await commitGroup([one]);
        return;
      }
      for (const w of group) w.reject(error);
      return;
    }
    for (const [index, w] of group.entries()) {
      if (index < results.length) w.resolve(results[index] as Result);
      else w.reject(new Error("the group commit returned fewer results than rows"));
    }
  }

  function nextGroup(): readonly Waiting<Row, Result>[] {
    const first = waiting.slice(0, maxRows);
    let size = 0;
    const last = first.findIndex(({ row }) => (size += sizeOf(row)) >= maxSize);
    return last === -1 ? first : first.slice(0, last + 1);
  }

  async function drain(): Promise<void> {
    while (waiting.length > 0) {
      const group = nextGroup();
      waiting = waiting.slice(group.length);
      const untilNext = pace && beginStatement(pace);
      await commitGroup(group);
      if (waiting.length > 0) await untilNext?.();
    }
    running = undefined;
  }

  return {
    submit(row) {
      return new Promise((resolve, reject) => {
        waiting.push({ row, resolve, reject });
        // Rows submitted in the same turn go together: the first commit starts after it.
        running ??= Promise.resolve().then(drain);
      });
    },
  };
}
