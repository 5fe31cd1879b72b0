import { LIMITS } from "./schema/fields.ts";

/** An `error_message` as it is stored: cut to its limit, with the note whole at its end. */
export function errorMessage(text: string, note = ""): string {
  // The cut may split a surrogate pair.
  return text.slice(0, LIMITS.errorMessage - note.length).toWellFormed() + note;
}
