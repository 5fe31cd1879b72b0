/** The compiler does not know it here. */
const { rawJSON } = JSON as typeof JSON & { rawJSON: (text: string) => unknown };

/** A number as it is written. Of a class: what is loaded again is put together from plain objects, field by field. */
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
 * JSON.parse; a number that would change stays as it is written, and is written so again. kubectl takes some that
 * the API does not, and a copy of their job would quietly have another payload. A browser that does not tell how a
 * number was written changes it.
 */
export function parseExactly(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown, context?: { source?: string }) => {
    const written = context?.source;
    return written !== undefined && typeof value === "number" && wouldChange(written)
      ? new ExactNumber(written)
      : value;
  });
}

/** Whether a number of a JSON text is another one when it is read and written again. */
export function wouldChange(number: string): boolean {
  return digitsOf(number) !== digitsOf(String(Number(number)));
}

/** Of a number without its sign, point, exponent and outer zeros: they stay when it is read and written again. */
function digitsOf(number: string): string {
  return number
    .replace(/e.*/i, "")
    .replace(/\D/g, "")
    .replace(/^0+|0+$/g, "");
}
