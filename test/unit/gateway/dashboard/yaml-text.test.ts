import { describe, expect, test } from "vitest";
import { parse, parseDocument } from "yaml";
import { assert, dictionary, jsonValue, property, string } from "fast-check";
import { yamlText } from "../../../../src/gateway/dashboard/yaml-text.ts";

const cases = [
  { name: "plain words", value: { a: "Nightly report", b: "Europe/Paris" } },
  {
    name: "words that YAML 1.1 takes for booleans",
    value: { a: "yes", b: "No", c: "off", d: "y" },
  },
  {
    name: "numbers and dates in strings",
    value: { a: "12", b: "1e3", c: "2026-11-21", d: "0x1f" },
  },
  { name: "indicators", value: { a: "- x", b: "a: b", c: "#c", d: "* * * * *", e: "&x", f: "?" } },
  { name: "line breaks, quotes, emoji", value: { a: 'one\ntwo\t"three"', b: "🔔 ‮rtl" } },
  { name: "empty things", value: { a: "", b: {}, c: [], d: null } },
  { name: "lists of objects", value: { a: [{ b: 1, c: [true, { d: "e" }] }, "f"] } },
  {
    name: "keys longer than one may be without a mark",
    value: { ["k".repeat(1_025)]: "v", a: [{ ["é\u0085".repeat(500)]: { b: 1 }, c: 2 }] },
  },
  { name: "keys that need quotes", value: { "X-Own: key": "1", yes: 2, "": 3 } },
];
test.each(cases)("$name come back as they were", ({ value }) => {
  for (const version of ["1.1", "1.2"] as const)
    expect(parse(yamlText(value), { version })).toEqual(value);
});

test("what kubectl would refuse, or read as a line break, is escaped", () => {
  const value = { "a\u2028": "\u007f \u0085 \u009f \u2028 \u2029 \ufeff \ufffe \uffff" };
  const text = yamlText(value);
  expect(text).toMatch(/^[\n\x20-\x7e]*$/);
  expect(parse(text)).toEqual(value);
});

test("undefined members are left out; a number too large for a double keeps its digits", () => {
  const text = yamlText({ a: undefined, b: JSON.rawJSON("12345678901234567890") });
  expect(text).toBe("b: 12345678901234567890\n");
});

test("what nests deep is no longer for it", () => {
  let value: unknown = Array.from({ length: 1_000 }, () => [1, { "a\u2028": "x: y" }]);
  for (let level = 0; level < 60; level += 1) value = level % 2 === 0 ? [value] : { a: value };
  const text = yamlText(value);
  expect(text.length).toBeLessThan(2 * JSON.stringify(value).length);
  for (const version of ["1.1", "1.2"] as const) expect(parse(text, { version })).toEqual(value);
});

describe("whatever JSON can say", () => {
  test("YAML 1.2 reads the same", () => {
    assert(
      property(dictionary(string(), jsonValue()), (value) => {
        const wanted: unknown = JSON.parse(JSON.stringify(value));
        const document = parseDocument(yamlText(wanted), { uniqueKeys: false });
        expect(document.errors).toEqual([]);
        expect(document.toJS()).toEqual(wanted);
      }),
      { numRuns: 300 },
    );
  });
});
