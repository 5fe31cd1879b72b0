/** Longer lists of names help nobody. */
const MOST_NAMES = 12;

/** The longest unknown name for which a similar one is looked for: a name may be as long as a body. */
const MOST_LETTERS = 64;

/** Advice for an unknown name: the known one that was probably meant, or else a list of them. */
export function suggestName(unknown: string, known: readonly string[]): string {
  const meant = closest(unknown, known);
  if (meant !== undefined) return `did you mean ${meant}?`;
  if (known.length === 0) return "there are none here";
  const shown = known.slice(0, MOST_NAMES).join(", ");
  if (known.length > MOST_NAMES) return `known are ${shown} and more`;
  return `known ${known.length === 1 ? "is" : "are"} ${shown}`;
}

/** Finds the name behind camelCase for snake_case, a part of it (`url` for `webhook_url`), or a slip or two. */
function closest(unknown: string, known: readonly string[]): string | undefined {
  if (unknown.length > MOST_LETTERS) return undefined;
  const name = plain(unknown);
  if (name === "") return undefined;
  const same = known.find((each) => plain(each) === name);
  if (same !== undefined) return same;
  const parts = known.filter((each) => each.split("_").includes(name));
  if (parts.length === 1) return parts[0];
  const slips = name.length <= 4 ? 1 : 2;
  return known.find((each) => {
    const other = plain(each);
    // The length rules out most of them, without the slow comparison.
    return Math.abs(other.length - name.length) <= slips && distance(name, other) <= slips;
  });
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

/** Levenshtein distance. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [i, left] of Array.from(a).entries()) {
    const next = [i + 1];
    for (const [j, right] of Array.from(b).entries())
      next.push(
        Math.min(
          (next[j] ?? 0) + 1,
          (row[j + 1] ?? 0) + 1,
          (row[j] ?? 0) + (left === right ? 0 : 1),
        ),
      );
    row = next;
  }
  return row.at(-1) ?? 0;
}
