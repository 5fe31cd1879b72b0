import { wouldChange } from "../exact-json.ts";

/** Parses a typed payload, or says why it cannot be sent as typed: in the server's words, if it has any for that. */
export function parsePayload(
  text: string,
): { ok: true; value: Record<string, unknown> } | { ok: false; message: string } {
  if (text.trim() === "") return { ok: true, value: {} };
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return { ok: false, message: "must be a JSON object, in braces" };
    const message = lossIn(text);
    return message === undefined
      ? { ok: true, value: value as Record<string, unknown> }
      : { ok: false, message };
  } catch (error) {
    return { ok: false, message: `is not JSON: ${(error as Error).message}` };
  }
}

const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"/;
const NUMBER = /-?\d[\d.eE+-]*/;
const TOKEN = new RegExp(`${STRING.source}|${NUMBER.source}|[{}:]`, "g");

/**
 * What JSON.parse drops or rounds: a key that an object has twice, a number that a double cannot hold. The server would
 * refuse it, but would not get to see it.
 */
function lossIn(text: string): string | undefined {
  const tokens = text.match(TOKEN) ?? [];
  /** For each object that is still open, its keys so far. */
  const open: Set<string>[] = [];
  for (const [index, token] of tokens.entries()) {
    if (token === "{") open.push(new Set());
    else if (token === "}") open.pop();
    else if (token.startsWith('"')) {
      if (tokens[index + 1] !== ":") continue;
      const key = JSON.parse(token) as string;
      if (open.at(-1)?.has(key) === true) return `the key ${JSON.stringify(key)} is given twice`;
      open.at(-1)?.add(key);
    } else if (token !== ":" && wouldChange(token))
      return `the number ${token.slice(0, 40)} would change in a JSON round trip; send it as a string`;
  }
  return undefined;
}
