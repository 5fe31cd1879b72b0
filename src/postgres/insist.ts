/** What a statement fails with whose condition does not hold (invalid_text_representation). */
export const UNMET = "22P02";

/**
 * SQL: true, or the statement fails with `UNMET`, and all of it is undone: by a value that cannot be cast, the one means
 * that SQL has without a function of our own. PostgreSQL's log says `text`, which has no quotes.
 */
export function insist(condition: string, text: string): string {
  return `case when ${condition} then 'true' else '${text}' end::boolean`;
}
