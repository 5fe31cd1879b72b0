import { ApiError } from "./api.ts";

type Fields = Readonly<Record<string, unknown>>;

/** How much of a value a message shows. */
const MOST_CHARACTERS = 100;

const text = (value: unknown) => JSON.stringify(value);

/**
 * The fields that somebody else has changed since they were `seen`. `mine` are those that are to be saved, `now` is
 * what is saved at present. A field that somebody else has set to the same value is none of them.
 */
export function changedMeanwhile(mine: Fields, seen: Fields, now: Fields): string[] {
  return Object.keys(mine).filter(
    (field) => text(now[field]) !== text(seen[field]) && text(now[field]) !== text(mine[field]),
  );
}

/** The error that says what has changed. After it, saving again replaces the other's values: it is shown once. */
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

/** Empty for anything but a text or a number: headers are secret, and a payload is long. */
function inWords(value: unknown): string {
  if (value === null || value === "") return ", to nothing";
  if (typeof value !== "string" && typeof value !== "number") return "";
  const characters = Array.from(String(value));
  const rest = characters.length > MOST_CHARACTERS ? " …" : "";
  return `, to “${characters.slice(0, MOST_CHARACTERS).join("")}${rest}”`;
}
