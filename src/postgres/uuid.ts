const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Whether PostgreSQL would take the text as a uuid: ids come from callers, and others are unknown ids, not errors. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** Before every other. */
export const NIL_UUID = "00000000-0000-0000-0000-000000000000";
