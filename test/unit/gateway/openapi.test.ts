import { describe, expect, test } from "vitest";
import { openApiDocument } from "../../../src/gateway/openapi.ts";
import { docsPage } from "../../../src/gateway/docs-page.ts";
import { ERROR_CODES } from "../../../src/gateway/error-codes.ts";
import { readFile } from "node:fs/promises";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

const document = openApiDocument({ version: "1.2.3" });

test("every route of the spec is there, with its success and its documented errors", () => {
  const statuses = Object.fromEntries(
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => [
        `${method.toUpperCase()} ${path}`,
        Object.keys(operation.responses).map(Number),
      ]),
    ),
  );
  const spec: Record<string, number[]> = {
    "POST /send": [200, 400, 401, 422, 500],
    "POST /send/otp": [200, 400, 401, 422, 429, 500],
    "POST /verify/otp": [200, 400, 401, 422],
    "GET /logs": [200, 400, 401],
    "POST /jobs": [201, 400, 401, 409],
    "GET /jobs": [200, 401],
    "GET /jobs/{id}": [200, 401, 404],
    "PATCH /jobs/{id}": [200, 400, 401, 404, 409],
    "DELETE /jobs/{id}": [200, 401, 404, 409],
    "GET /jobs/{id}/executions": [200, 400, 401, 404],
  };
  for (const [route, expected] of Object.entries(spec))
    expect(statuses[route], route).toEqual(expect.arrayContaining(expected));
});

test("every reference points at a schema of the document", () => {
  const text = JSON.stringify(document);
  const references = [...text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)];
  expect(references.length).toBeGreaterThan(20);
  for (const [, name = ""] of references) expect(document.components.schemas).toHaveProperty(name);
  expect(text).not.toContain("x-rule");
});

describe("examples are valid", () => {
  const ajv = new Ajv2020({ strict: false });
  addFormats.default(ajv);
  ajv.addSchema({ $id: "doc", components: document.components });
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    const { examples = [] } = schema as { examples?: unknown[] };
    if (examples.length === 0) continue;
    test(name, () => {
      const check = ajv.compile({ $ref: `doc#/components/schemas/${name}` });
      for (const example of examples) {
        check(example);
        expect(check.errors).toBeNull();
      }
    });
  }
});

test("the docs page names every route and code, and its policy lets nothing in", () => {
  const page = docsPage(document);
  for (const path of Object.keys(document.paths)) expect(page.html).toContain(path);
  for (const code of Object.keys(ERROR_CODES)) expect(page.html).toContain(`id="error-${code}"`);
  expect(page.html).not.toMatch(/<script|<link|<img|src=/);
  expect(page.contentSecurityPolicy).toContain("default-src 'none'");
});

test("docs/errors.md is the table of codes", async () => {
  const written = await readFile(new URL("../../../docs/errors.md", import.meta.url), "utf8");
  // The formatter pads the columns.
  const text = written.replaceAll(/ +/g, " ");
  for (const [code, { status, meaning }] of Object.entries(ERROR_CODES))
    expect(text).toContain(`| \`${code}\` | ${status} | ${meaning} |`);
});
