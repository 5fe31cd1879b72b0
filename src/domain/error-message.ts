import { LIMITS } from "./schema/fields.ts";

/** An `error_message` as it is stored: cut to its limit, behind which the note stays whole. */
export function errorMessage(text: string, note = ""): string {
  // The cut may go through a character.
  return text.slice(0, LIMITS.errorMessage - note.length).toWellFormed() + note;
}
