import { expect, test } from "vitest";
import { BadHeader, headerLine } from "../../../src/delivery/request-text.ts";

test.each([
  { name: "X-A", value: "a", line: "X-A: a\r\n" },
  { name: "!#$%&'*+.^_`|~-", value: "", line: "!#$%&'*+.^_`|~-: \r\n" },
  { name: "X-A", value: "a\tcaf\xe9", line: "X-A: a\tcaf\xe9\r\n" },
])("$name: $value", ({ name, value, line }) => {
  expect(headerLine(name, value)).toBe(line);
});

test.each([
  { is: "ends its line", name: "X-A", value: "a\r\nX-B: b" },
  { is: "has a line feed", name: "X-A", value: "a\nb" },
  { is: "has NUL", name: "X-A", value: "a\0" },
  { is: "has DEL", name: "X-A", value: "a\x7f" },
  { is: "is not latin1", name: "X-A", value: "\u0100" },
  { is: "has no name", name: "", value: "a" },
  { is: "has a name with a space", name: "X A", value: "a" },
  { is: "has a name that ends its line", name: "X:\r\nY", value: "a" },
  { is: "has a name that is not ASCII", name: "X-\u00dc", value: "a" },
])("a header that $is has no line", ({ name, value }) => {
  expect(() => headerLine(name, value)).toThrow(BadHeader);
});
