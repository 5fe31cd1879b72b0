import { describe, expect, test } from "vitest";
import {
  canonicalJson,
  parseExactJson,
  survivesRoundTrip,
} from "../../../src/domain/exact-json.ts";

test("a payload of more than a million values, which is too large, is written within a moment", () => {
  const payload: unknown = JSON.parse(`[${"1,".repeat(1_500_000)}1]`);
  const before = process.cpuUsage();
  expect(canonicalJson(payload)).toHaveLength(3_000_003);
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(700);
});

// After a first key that no other object has, JSON.parse alone takes the second key for that of `before`
// (nodejs/node#63785).
test.each([
  { before: '{"a1":1,"\\\\":1}', text: '{"a1":1,"\\"":1}', is: '{"\\"":1,"a1":1}' },
  { before: '{"a2":1,"\\\\":1}', text: '{"a2":1,"\\n" :1}', is: '{"\\n":1,"a2":1}' },
  { before: '{"a3":1,"\\\\":1}', text: '{"a3":1,"\\u003c":1}', is: '{"<":1,"a3":1}' },
  { before: '{"a4":1,"\\\\":1}', text: '{"a4":1,"\\ud800":1}', is: '{"a4":1,"\\ud800":1}' },
  {
    before: '{"a5":1,"\\\\u005f_pr":1}',
    text: '{"a5":1,"\\u005f_proto__":1}',
    is: '{"__proto__":1,"a5":1}',
  },
  {
    before: '{"a6":"","\\\\":1}',
    text: '{"a6":"{\\"b\\":1}","\\"":2}',
    is: '{"\\"":2,"a6":"{\\"b\\":1}"}',
  },
  {
    before: '{"a7":[],"\\\\":1}',
    text: '[{"a7":[],"\\"":{"\\t":12345678901234567}}]',
    is: '[{"\\"":{"\\t":12345678901234567},"a7":[]}]',
  },
  {
    before: '{"k:{\\"type\\":\\"Ready\\"}":{},"\\\\":1}',
    text: '{"k:{\\"type\\":\\"Ready\\"}":{},"\\"":1}',
    is: '{"\\"":1,"k:{\\"type\\":\\"Ready\\"}":{}}',
  },
])("a key that is written with an escape stays what it is: $text", ({ before, text, is }) => {
  JSON.parse(before);
  expect(canonicalJson(parseExactJson(text))).toBe(is);
});

test("a flood of keys with escapes changes none, and no number", () => {
  JSON.parse('{"a8":1,"\\\\":1}');
  const flood = Array.from({ length: 30_000 }, (_, n) => `"\\"${n}":${n}`).join(",");
  const text = `[{"a8":1,"\\"":1},{${flood}},{"a8":1,"\\"":1},{"n":12345678901234567}]`;
  const [first, flooded, behind, last] = parseExactJson(text) as Record<string, unknown>[];
  expect(first).toEqual({ a8: 1, '"': 1 });
  expect(behind).toEqual({ a8: 1, '"': 1 });
  expect(Object.keys(flooded ?? {})).toHaveLength(30_000);
  expect(flooded).toMatchObject({ '"0': 0, '"19999': 19_999, '"20000': 20_000, '"29999': 29_999 });
  expect(JSON.stringify(last)).toBe('{"n":12345678901234567}');
});

test("numbers that a double cannot hold stay what they are, however many there are", () => {
  const numbers = Array.from({ length: 20_001 }, (_, n) => `123456789012345${n}`).join(",");
  const text = `{"a":[${numbers}],"b":"12345678901234567, \\" 12345678901234567","c":1.5,"d":[-9223372036854775808]}`;
  expect(JSON.stringify(parseExactJson(text))).toBe(text);
});

describe("survivesRoundTrip", () => {
  const cases = [
    { number: "0", survives: true },
    { number: "-0", survives: true },
    { number: "1.0", survives: true },
    { number: "1e2", survives: true },
    { number: "1E+2", survives: true },
    { number: "0.1", survives: true },
    { number: "123.4500", survives: true },
    { number: "1e-7", survives: true },
    { number: "5e-324", survives: true },
    { number: "1.7976931348623157e308", survives: true },
    { number: "9007199254740991", survives: true },
    { number: "9007199254740992", survives: true },
    { number: "9007199254740993", survives: false },
    { number: "12345678901234567890", survives: false },
    { number: "10000000000000000000000", survives: true },
    { number: "0.1000000000000000055511151231257827", survives: false },
    { number: "1e400", survives: false },
    { number: "-1e400", survives: false },
    { number: "1e-400", survives: false },
    { number: "0e99999999999", survives: true },
  ];
  test.each(cases)("$number: $survives", ({ number, survives }) => {
    expect(survivesRoundTrip(number)).toBe(survives);
  });
  test("a number of a million digits takes no longer than to read it", () => {
    // If it took quadratic time, this would take a quarter of an hour.
    const zeros = "0".repeat(1_000_000);
    expect(survivesRoundTrip(`0.1${zeros}1`)).toBe(false);
    expect(survivesRoundTrip(`0.1${zeros}`)).toBe(true);
  });
});

test("a number that only looks different stays a number", () => {
  const text = '{"a":100000000000000000000000,"b":1e23,"c":-9007199254740992}';
  expect(canonicalJson(parseExactJson(text))).toBe('{"a":1e+23,"b":1e+23,"c":-9007199254740992}');
});
