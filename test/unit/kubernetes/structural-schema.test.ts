import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Type } from "typebox";
import { describe, expect, test } from "vitest";
import { generateCrd } from "../../../src/kubernetes/crd.ts";
import { structuralSchema } from "../../../src/kubernetes/structural-schema.ts";

describe("what has a structural form", () => {
  const CASES: { title: string; schema: unknown; expected: object }[] = [
    {
      title: "TypeBox's own marks and examples go, limits stay",
      schema: Type.Optional(Type.String({ minLength: 1, maxLength: 3, examples: ["a"] })),
      expected: { type: "string", minLength: 1, maxLength: 3 },
    },
    {
      title: "what kubectl explain would not show is said in the description",
      schema: { type: "integer", minimum: 0, maximum: 10, default: 0, description: "Retries." },
      expected: {
        type: "integer",
        minimum: 0,
        maximum: 10,
        default: 0,
        description: "Retries. From 0 to 10. Default: 0.",
      },
    },
    {
      title: "a closed object is an object",
      schema: Type.Object({ a: Type.Integer() }, { additionalProperties: false }),
      expected: { type: "object", required: ["a"], properties: { a: { type: "integer" } } },
    },
    {
      title: "a map keeps its values' schema",
      schema: { type: "object", additionalProperties: { type: "string", maxLength: 2 } },
      expected: { type: "object", additionalProperties: { type: "string", maxLength: 2 } },
    },
    {
      title: "a pattern becomes a rule with its meaning, code points in RE2's form",
      schema: { type: "string", pattern: "^[^\\u0000-\\u001f]*$", "x-rule": "must be one line" },
      expected: {
        type: "string",
        "x-kubernetes-validations": [
          { rule: "self.matches('^[^\\\\x{0000}-\\\\x{001f}]*$')", message: "must be one line" },
        ],
      },
    },
  ];
  test.each(CASES)("$title", ({ schema, expected }) => {
    expect(structuralSchema(schema)).toEqual(expected);
  });
});

describe("what has none is refused, with the place", () => {
  const CASES: { title: string; schema: unknown; message: RegExp }[] = [
    { title: "const", schema: { type: "string", const: "a" }, message: /"const"/ },
    {
      title: "$ref",
      schema: Type.Object({ a: { $ref: "#/x" } }),
      message: /^spec\.a: .*one type/,
    },
    { title: "a union", schema: Type.Union([Type.String(), Type.Null()]), message: /one type/ },
    { title: "two types", schema: { type: ["string", "null"] }, message: /one type/ },
    {
      title: "patternProperties",
      schema: { type: "object", patternProperties: {} },
      message: /"patternProperties"/,
    },
    {
      title: "exclusiveMinimum",
      schema: { type: "integer", exclusiveMinimum: 0 },
      message: /"exclusiveMinimum"/,
    },
    { title: "an array without items", schema: { type: "array" }, message: /needs items/ },
    {
      title: "a pattern nobody explains",
      schema: Type.Object({ a: { type: "string", pattern: "^a$" } }),
      message: /^spec\.a: .*x-rule/,
    },
    {
      title: "look-ahead, which RE2 does not know",
      schema: { type: "string", pattern: "^(?=a)", "x-rule": "…" },
      message: /RE2/,
    },
  ];
  test.each(CASES)("$title", ({ schema, message }) => {
    expect(() => structuralSchema(schema)).toThrow(message);
  });
});

test("crds/scheduledjobs.carillon.dev.yaml is what the schema source gives", async () => {
  const file = join(import.meta.dirname, "../../../crds/scheduledjobs.carillon.dev.yaml");
  expect(await readFile(file, "utf8")).toBe(generateCrd());
});
