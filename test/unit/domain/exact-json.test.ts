import { expect, test } from "vitest";
import { canonicalJson, parseExactJson } from "../../../src/domain/exact-json.ts";

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
