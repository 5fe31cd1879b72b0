/** What fields of requests and answers are made of (RFC 9110, 5). Texts are latin1: a character is a byte. */

const [TAB, SPACE, ZERO, NINE, COLON] = [9, 32, 48, 57, 58];

/** By character code: 1 if a token may have it (5.6.2). */
const IN_TOKEN = codesOf((character) => /[!#$%&'*+.^_`|~0-9A-Za-z-]/.test(character));
/** By character code: 1 if a field's value, or a reason, may have it (5.5). */
const IN_VALUE = codesOf((character) => /[\t\x20-\x7e\x80-\xff]/.test(character));

function codesOf(has: (character: string) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, code) => (has(String.fromCharCode(code)) ? 1 : 0));
}

export function isToken(text: string): boolean {
  return text !== "" && tokenEnd(text, 0) === text.length;
}

/** The first position from `at` that is not in a token. */
function tokenEnd(text: string, at: number): number {
  let end = at;
  while (IN_TOKEN[text.charCodeAt(end)] === 1) end += 1;
  return end;
}

/**
 * The position of a field's colon; -1 when the line is not a field. A continuation of the line before (obs-fold) is
 * not.
 */
export function fieldColon(text: string, at: number, end: number): number {
  const colon = tokenEnd(text, at);
  const sound = colon > at && text.charCodeAt(colon) === COLON && isValue(text, colon + 1, end);
  return sound ? colon : -1;
}

/** No control character except the tab, so no line break, and nothing beyond latin1. */
export function isValue(text: string, at = 0, end = text.length): boolean {
  for (let next = at; next < end; next += 1)
    if (IN_VALUE[text.charCodeAt(next)] !== 1) return false;
  return true;
}

/** Without the spaces and tabs around it. `String.trim` removes more than these. */
export function trimmed(text: string, from: number, to: number): string {
  let [at, end] = [from, to];
  while (at < end && isBlank(text.charCodeAt(at))) at += 1;
  while (end > at && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(at, end);
}

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB;
}

/** The members of a list, in lower case. */
export function listOf(value: string): string[] {
  const lower = value.toLowerCase();
  if (!lower.includes(",")) return lower === "" ? [] : [lower];
  return lower
    .split(",")
    .map((member) => trimmed(member, 0, member.length))
    .filter((member) => member !== "");
}

/** The decimal number; -1 unless there is at least one digit, and nothing else. */
export function digits(text: string, at: number, end: number): number {
  let number = at < end ? 0 : -1;
  for (let next = at; next < end; next += 1) {
    const code = text.charCodeAt(next);
    if (!(code >= ZERO && code <= NINE)) return -1;
    number = number * 10 + (code - ZERO);
  }
  return number;
}

export function hexDigit(code: number): number {
  if (code >= ZERO && code <= NINE) return code - ZERO;
  const lower = code | 0x20;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}
