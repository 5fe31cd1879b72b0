const LINE_FEED = 10;

/** Says where a text stops being JSON and what to do about it, for the person who typed it. */
export function jsonProblem(text: string, at: number): string {
  if (at >= text.length)
    return "the text ends too early: a quote, bracket or brace is not closed, or was lost on the way";
  const before = text.slice(0, at);
  // Counted one by one: a list of lines takes eight times the memory of a body that is all line feeds.
  let line = 1;
  for (let place = 0; place < at; place += 1) if (text.charCodeAt(place) === LINE_FEED) line += 1;
  const column = at - before.lastIndexOf("\n");
  return `line ${line}, column ${column}: ${advice(text, at, before)}`;
}

function advice(text: string, at: number, before: string): string {
  const found = String.fromCodePoint(text.codePointAt(at) ?? 0);
  const last = before.trimEnd().at(-1) ?? "";
  if (found === "'") return "strings and names stand in double quotes, not in single ones";
  if (/["\u201c-\u201f\u00ab\u00bb]/.test(found) && found !== '"')
    return `strings and names stand in straight double quotes, not in ${found}`;
  if ((found === "}" || found === "]") && last === ",") return `remove the comma before ${found}`;
  if (found === "/" || found === "#") return "JSON has no comments";
  if (found === "\n" || found === "\r") return "a line break in a string is written as \\n";
  if (found === "\t") return "a tab in a string is written as \\t";
  if (found < " ") return "a control character: JSON has them in strings only, written as \\u….";
  if (found === "\\")
    return 'after a backslash come ", \\, /, b, f, n, r, t or u and four hex digits';
  const word = /^[A-Za-z_$][\w$-]*/.exec(text.slice(at, at + 40))?.[0];
  if (word !== undefined)
    return last === "{" || last === ","
      ? `the name ${word} must stand in double quotes`
      : `${word} is not JSON: a string stands in double quotes, and the only words are true, false and null`;
  if (found === '"') return "a comma or colon is missing before this string";
  return `${JSON.stringify(found)} is not expected here`;
}
