/** Not in the compiler's types for a browser. */
const { rawJSON } = JSON as typeof JSON & { rawJSON: (text: string) => unknown };

/**
 * A number as it is written. It is a class because the query cache merges plain objects of an old and a new answer
 * field by field.
 */
class ExactNumber {
  readonly written: string;
  constructor(written: string) {
    this.written = written;
  }
  toJSON(): unknown {
    return rawJSON(this.written);
  }
}

/**
 * JSON.parse, but a number that would change is kept as it is written, and JSON.stringify writes it so again. kubectl
 * accepts such numbers, which the REST API refuses; without this a copy of such a job would have another payload
 * without anybody's notice. A browser without `context.source` still changes them.
 */
export function parseExactly(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown, context?: { source?: string }) => {
    const written = context?.source;
    return written !== undefined && typeof value === "number" && wouldChange(written)
      ? new ExactNumber(written)
      : value;
  });
}

/** Whether a number of a JSON text becomes another one when it is read and written again. */
export function wouldChange(number: string): boolean {
  return digitsOf(number) !== digitsOf(String(Number(number)));
}

/**
 * The digits of a number, without sign, point, exponent and outer zeros. They are the same before and after if the
 * number survives being read and written.
 */
function digitsOf(number: string): string {
  return number
    .replace(/e.*/i, "")
    .replace(/\D/g, "")
    .replace(/^0+|0+$/g, "");
}
