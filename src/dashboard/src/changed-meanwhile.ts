import { ApiError } from "./api.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Of a value that is named in a message, at most. */
const MOST_CHARACTERS = 100;

const text = (value: unknown) => JSON.stringify(value);

/**
 * Of the fields of `mine`, which are to be saved: those that are no longer as they were `seen`, nor as they are to be.
 * `now` is what is saved at present.
 */
export function changedMeanwhile(mine: Fields, seen: Fields, now: Fields): string[] {
  return Object.keys(mine).filter(
    (field) => text(now[field]) !== text(seen[field]) && text(now[field]) !== text(mine[field]),
  );
}

/** Why these fields are not saved yet. Whoever saves again has been told. */
export function refusal(fields: readonly string[], now: Fields): ApiError {
  return new ApiError(409, {
    error: "somebody else has changed the same meanwhile",
    code: "changed_meanwhile",
    details: fields.map((field) => ({
      field,
      message: `was changed meanwhile${inWords(now[field])}. Save again to replace that`,
    })),
  });
}

/** Nothing of what is no word or number: headers are secret, and a payload is long. */
function inWords(value: unknown): string {
  if (value === null || value === "") return ", to nothing";
  if (typeof value !== "string" && typeof value !== "number") return "";
  const characters = Array.from(String(value));
  const rest = characters.length > MOST_CHARACTERS ? " …" : "";
  return `, to “${characters.slice(0, MOST_CHARACTERS).join("")}${rest}”`;
}
