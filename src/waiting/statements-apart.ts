/**
 * Milliseconds from the start of one statement that requests share to that of the next, at most, when somebody
 * waits for it (docs/decisions/0010).
 */
export const STATEMENTS_APART = 5;
