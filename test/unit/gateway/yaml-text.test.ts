import { describe, expect, test } from "vitest";
import { parse, parseDocument } from "yaml";
import { assert, dictionary, jsonValue, property, string } from "fast-check";
import { yamlText } from "../../../src/gateway/dashboard/yaml-text.ts";

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
  { name: "keys that need quotes", value: { "X-Own: key": "1", yes: 2, "": 3 } },
];
test.each(cases)("$name come back as they were", ({ value }) => {
  for (const version of ["1.1", "1.2"] as const)
    expect(parse(yamlText(value), { version })).toEqual(value);
});

test("undefined members are left out; a number too large for a double keeps its digits", () => {
  const text = yamlText({ a: undefined, b: JSON.rawJSON("12345678901234567890") });
  expect(text).toBe("b: 12345678901234567890\n");
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
