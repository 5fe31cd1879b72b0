import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalJson, parseExactJson } from "../../../src/domain/exact-json.ts";
import { scanJsonObject } from "../../../src/gateway/json-text.ts";

const scan = (text: string) => scanJsonObject(text, { depth: 64 });

const nested = (levels: number) => `{"a":${"[".repeat(levels)}${"]".repeat(levels)}}`;

describe("scanJsonObject refuses", () => {
  const cases = [
    { name: "nothing", text: "", problem: "the body is empty, and must be a JSON object" },
    { name: "an array", text: "[]", problem: "the body must be a JSON object" },
    { name: "a string", text: '"a"', problem: "the body must be a JSON object" },
    { name: "null", text: "null", problem: "the body must be a JSON object" },
    { name: "a byte order mark", text: "\ufeff{}", problem: "begins with a byte order mark" },
    { name: "text after the object", text: "{} x", problem: "line 1, column 4: x is not JSON" },
    { name: "two objects", text: "{}{}", problem: 'column 3: "{" is not expected here' },
    { name: "an end in the middle", text: '{"a":1', problem: "the text ends too early" },
    { name: "an open string", text: '{"a', problem: "the text ends too early" },
    { name: "a trailing comma", text: '{"a":1,}', problem: "column 8: remove the comma before }" },
    { name: "a comma first", text: '{,"a":1}', problem: 'column 2: "," is not expected' },
    { name: "an array's trailing comma", text: '{"a":[1,]}', problem: "remove the comma before ]" },
    { name: "the wrong bracket", text: '{"a":[1}', problem: 'column 8: "}" is not expected' },
    {
      name: "single quotes",
      text: "{'a':1}",
      problem: "column 2: strings and names stand in double quotes",
    },
    {
      name: "a bare key",
      text: "{a:1}",
      problem: "column 2: the name a must stand in double quotes",
    },
    { name: "a comment", text: '{/**/"a":1}', problem: "column 2: JSON has no comments" },
    { name: "typographic quotes", text: "{\u201ca\u201d:1}", problem: "straight double quotes" },
    { name: "a forgotten comma", text: '{"a":1\n"b":2}', problem: "line 2, column 1: a comma" },
    { name: "a tab in a string behind an escape", text: '{"a":"\\n\t"}', problem: "column 9: a" },
    { name: "NaN", text: '{"a":NaN}', problem: "column 6: NaN is not JSON" },
    { name: "a leading zero", text: '{"a":01}', problem: 'column 7: "1" is not expected' },
    { name: "a plus sign", text: '{"a":+1}', problem: 'column 6: "+" is not expected' },
    { name: "a bare point", text: '{"a":1.}', problem: 'column 7: "." is not expected' },
    {
      name: "a control character outside of strings",
      text: '{"a":1}\u0000',
      problem: "column 8: a control character: JSON has them in strings only",
    },
    {
      name: "a raw tab",
      text: '{"a":"\t"}',
      problem: "column 7: a tab in a string is written as \\t",
    },
    { name: "a raw newline in a string", text: '{"a":"\n"}', problem: "column 7: a line break" },
    { name: "a raw newline in a key", text: '{"a\n":1}', problem: "column 4: a line break" },
    {
      name: "a key whose quote was forgotten",
      text: '{"a": 1,\n"b: 2,\n"c": 3}',
      problem: "line 2, column 7: a line break",
    },
    {
      name: "a raw newline behind a number's escape",
      text: '{"a":"\\u00e9\n"}',
      problem: "column 13: a line break",
    },
    {
      name: "a raw newline far behind an escape",
      text: `{"a":"\\n${"b".repeat(100)}\n"}`,
      problem: "column 109: a line break",
    },
    {
      name: "the first of two mistakes, in a string",
      text: '{"a":"\n", b:1}',
      problem: "column 7: a line break",
    },
    { name: "an unknown escape", text: '{"a":"\\x"}', problem: "column 7:" },
    { name: "an escape beyond ASCII", text: '{"a":"\\\u0161"}', problem: "column 7:" },
    { name: "an escape that ends", text: '{"a":"\\', problem: "column 7:" },
    { name: "a number's escape of three digits", text: '{"a":"\\u00e"}', problem: "column 7:" },
    { name: "a number's escape that ends", text: '{"a":"\\u00', problem: "column 7:" },
    { name: "a no-break space outside", text: '{\u00a0"a":1}', problem: "column 2:" },
    { name: "a key twice", text: '{"a":1,"a":2}', problem: 'the key "a" is given twice' },
    { name: "a key twice, once escaped", text: '{"a":1,"\\u0061":2}', problem: "given twice" },
    { name: "a key twice deep inside", text: '{"a":[{"b":1,"b":1}]}', problem: "given twice" },
    { name: "NUL in a value", text: '{"a":"\\u0000"}', problem: "NUL in a string at offset 5" },
    { name: "NUL in a key", text: '{"\\u0000":1}', problem: "NUL in a string at offset 1" },
    { name: "a high surrogate alone", text: '{"a":"\\ud800"}', problem: "lone surrogate" },
    { name: "a low surrogate alone", text: '{"a":"\\udc00x"}', problem: "lone surrogate" },
    { name: "surrogates reversed", text: '{"a":"\\udc00\\ud800"}', problem: "lone surrogate" },
    { name: "65 levels", text: nested(64), problem: "nesting must be at most 64 levels deep" },
    { name: "a million levels", text: nested(1_000_000), problem: "nesting must be at most 64" },
  ];
  test.each(cases)("$name", ({ text, problem }) => {
    expect(scan(text)).toMatchObject({ ok: false, problem: expect.stringContaining(problem) });
  });

  test("but not 64 levels", () => {
    expect(scan(nested(63)).ok).toBe(true);
  });
  test("but not a pair of surrogates", () => {
    expect(scan('{"a":"\\ud83d\\ude00"}').ok).toBe(true);
  });
});

test("what is wrong behind ten million lines is told without a list of them", () => {
  const text = `{"a":1${"\n".repeat(10_000_000)}x}`;
  const before = process.memoryUsage().heapUsed;
  expect(scan(text)).toMatchObject({
    problem: expect.stringContaining("line 10000001, column 1:"),
  });
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(40_000_000);
});

test("a member's span is its value as it stood in the text", () => {
  const text = ' { "a" : { "z": 1.0, "1": [ ] } , "b":"x" }\n';
  const result = scan(text);
  if (!result.ok) throw new Error(result.problem);
  const a = result.members.get("a");
  expect(text.slice(a?.start, a?.end)).toBe('{ "z": 1.0, "1": [ ] }');
  expect(a?.values).toBe(3);
});

test("a string ends at the next quote behind an even number of backslashes, near or far", () => {
  for (const before of [0, 1, 29, 30, 31, 32, 33, 100])
    for (const end of ["", '"', "\\", '\\"', '"\\', '\\\\"\\', '"x"'.repeat(50)]) {
      const text = JSON.stringify({ a: "x".repeat(before) + end, b: 1 });
      const result = scan(text);
      if (!result.ok) throw new Error(`${text}: ${result.problem}`);
      expect([...result.members.keys()]).toEqual(["a", "b"]);
      expect(result.members.get("a")?.end).toBe(text.indexOf(',"b"'));
    }
});

test("whatever JSON.stringify writes is accepted, with the spans of its members", () => {
  const objects = fc.dictionary(fc.string({ unit: "grapheme" }), fc.jsonValue());
  const same = fc.property(objects, (value) => {
    const text = JSON.stringify(value, null, 1);
    fc.pre(!text.includes("\\u0000"));
    const result = scan(text);
    if (!result.ok) return false;
    return [...result.members].every(
      ([name, { start, end }]) =>
        canonicalJson(parseExactJson(text.slice(start, end))) ===
        canonicalJson((value as Record<string, unknown>)[name]),
    );
  });
  expect(fc.check(same).failed).toBe(false);
});

test("it accepts no text that JSON.parse refuses", () => {
  const parts = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"a"',
    '"b"',
    "1",
    "-",
    ".",
    "e",
    "true",
    "nul",
    " ",
    '"',
    "\\u0061",
    "\n",
  ];
  const texts = fc.array(fc.constantFrom(...parts), { maxLength: 12 });
  const stricter = fc.property(texts, (chosen) => {
    const text = `{${chosen.join("")}`;
    return !scan(text).ok || typeof JSON.parse(text) === "object";
  });
  expect(fc.check(stricter, { numRuns: 20_000 }).failed).toBe(false);
});

test("reports the first number in the member that would change", () => {
  const result = scan('{"a":1,"p":{"x":[1.5,9007199254740993,1e999]}}');
  if (!result.ok) throw new Error(result.problem);
  expect(result.members.get("a")?.inexact).toBeNull();
  expect(result.members.get("p")?.inexact).toBe("9007199254740993");
});
