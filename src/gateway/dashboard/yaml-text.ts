/** Text that YAML 1.1 and 1.2 both read as this very string without quotes. */
const PLAIN = /^[A-Za-z](?:[A-Za-z0-9_./ -]*[A-Za-z0-9_./-])?$/;
/** Characters that JSON does not escape, but kubectl refuses as control characters or reads as line breaks. */
const UNPRINTABLE = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;
/** Deeper values are written as JSON, which is YAML too: as blocks each level would add two spaces to every line. */
const MOST_INDENT = 24;
/** Characters of a written key before its colon (YAML 1.2.2, 7.4.2: 1024); a longer key is marked with `?`. */
const LONGEST_KEY = 1_000;
const WORDS = /^(?:null|true|false|yes|no|on|off|y|n|[.+-]?(?:inf|nan))$/i;

/**
 * A JSON-like value as block YAML that kubectl reads back as the same value. Strings are plain only where
 * no version of YAML could take them for something else; otherwise they are double-quoted, whose escapes
 * are JSON's. Undefined members are left out.
 */
export function yamlText(value: unknown): string {
  return `${lines(value, "").join("\n")}\n`;
}

function lines(value: unknown, indent: string): string[] {
  if (!isBlock(value) || indent.length >= MOST_INDENT) return [`${indent}${scalar(value)}`];
  if (Array.isArray(value))
    return value.flatMap((item: unknown) => {
      const [first = "", ...rest] = lines(item, `${indent}  `);
      return [`${indent}- ${first.trimStart()}`, ...rest];
    });
  return Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .flatMap(([key, member]) => {
      const start = indent + keyText(scalar(key), indent);
      return isBlock(member)
        ? [start, ...lines(member, `${indent}  `)]
        : [`${start} ${scalar(member)}`];
    });
}

function keyText(key: string, indent: string): string {
  return key.length > LONGEST_KEY ? `? ${key}\n${indent}:` : `${key}:`;
}

function isBlock(value: unknown): value is object {
  if (typeof value !== "object" || value === null || JSON.isRawJSON(value)) return false;
  return Object.keys(value).length > 0;
}

function scalar(value: unknown): string {
  if (typeof value === "string" && PLAIN.test(value) && !WORDS.test(value)) return value;
  return (JSON.stringify(value) ?? "null").replace(
    UNPRINTABLE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
