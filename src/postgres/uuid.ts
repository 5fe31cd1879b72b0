const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * Whether the text is a uuid. Ids come from callers: any other text is an unknown id, and must not make a statement
 * fail.
 */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** Sorts before every other uuid. */
export const NIL_UUID = "00000000-0000-0000-0000-000000000000";
