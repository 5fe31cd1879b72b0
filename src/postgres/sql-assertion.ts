/** SQLSTATE of a statement that `sqlAssertion` makes fail (invalid_text_representation). */
export const ASSERTION_FAILED = "22P02";

/**
 * SQL: true if the condition holds; otherwise the statement fails with `ASSERTION_FAILED`, and all of it is undone.
 * It fails by a cast that is impossible, since plain SQL has no other means. `text`, which must not have quotes,
 * appears in PostgreSQL's log.
 */
export function sqlAssertion(condition: string, text: string): string {
  return `case when ${condition} then 'true' else '${text}' end::boolean`;
}
