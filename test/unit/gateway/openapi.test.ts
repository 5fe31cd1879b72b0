import { describe, expect, test } from "vitest";
import { openApiDocument } from "../../../src/gateway/openapi.ts";
import { docsPage } from "../../../src/gateway/docs-page.ts";
import { ERROR_CODES } from "../../../src/gateway/error-codes.ts";
import { readFile } from "node:fs/promises";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { specFromRest } from "../../../src/domain/rest-job.ts";
import type { SendRequest } from "../../../src/gateway/schema/mail.ts";
import { mailMessage } from "../../../src/gateway/mail-message.ts";
import type { RestJobCreate } from "../../../src/domain/schema/rest-job.ts";

const document = openApiDocument({ version: "1.2.3" });

const spec = [
  { route: "post /send", statuses: [200, 400, 401, 422, 500] },
  { route: "post /send/otp", statuses: [200, 400, 401, 422, 429, 500] },
  { route: "post /verify/otp", statuses: [200, 400, 401, 422] },
  { route: "get /logs", statuses: [200, 400, 401] },
  { route: "post /jobs", statuses: [201, 400, 401, 409] },
  { route: "get /jobs", statuses: [200, 401] },
  { route: "get /jobs/{id}", statuses: [200, 401, 404] },
  { route: "patch /jobs/{id}", statuses: [200, 400, 401, 404, 409] },
  { route: "delete /jobs/{id}", statuses: [200, 401, 404, 409] },
  { route: "get /jobs/{id}/executions", statuses: [200, 400, 401, 404] },
];
test.each(spec)("$route is there, with the statuses it answers", ({ route, statuses }) => {
  const [method = "", path = ""] = route.split(" ");
  const responses = document.paths[path]?.[method]?.responses ?? {};
  expect(Object.keys(responses).map(Number)).toEqual(expect.arrayContaining(statuses));
});

const operations = Object.values(document.paths).flatMap((each) => Object.values(each));
test.each(operations)("$operationId says what any request may be answered with", (of) => {
  // 429: too many requests wait on a connection, or too many lists are being read.
  const any = ["400", "408", "417", "429", "431", "500"];
  expect(Object.keys(of.responses)).toEqual(expect.arrayContaining(any));
  expect(of.responses["429"]?.headers).toHaveProperty("Retry-After");
});

test.each([
  { route: "post /send", says: "24 hours", replays: true },
  { route: "post /send/otp", says: "24 hours", replays: true },
  { route: "post /jobs", says: "24 hours", replays: true },
  { route: "post /jobs/{id}/run", says: "7 days", replays: false },
  { route: "post /jobs/{id}/pause", says: undefined, replays: false },
])("$route: an Idempotency-Key counts for $says, replays: $replays", (of) => {
  const [method = "", path = ""] = of.route.split(" ");
  const { parameters = [], responses = {} } = document.paths[path]?.[method] ?? {};
  const key = parameters.find(({ name }) => name === "Idempotency-Key");
  expect(key?.description?.match(/\d+ (hours|days)/)?.[0]).toBe(of.says);
  const [success] = Object.values(responses);
  expect("Idempotency-Replayed" in (success?.headers ?? {})).toBe(of.replays);
  expect(JSON.stringify(responses).includes("idempotency_mismatch")).toBe(of.replays);
});

describe("what a job of one kind needs and refuses is in the document too", () => {
  const ajv = new Ajv2020({ strict: false });
  addFormats.default(ajv);
  ajv.addSchema({ $id: "doc", components: document.components });
  const check = ajv.compile({ $ref: "doc#/components/schemas/JobCreate" });
  const cron = { name: "a", schedule_type: "cron", cron_expression: "* * * * *" };
  const once = { schedule_type: "one_time", run_at: "2030-01-01T00:00:00Z" };
  const webhook = { type: "webhook", webhook_url: "https://example.com" };
  const email = { type: "email", email_to: "a@example.com", email_subject: "s", email_body: "b" };
  const cases = [
    { job: "webhook", body: { ...cron, ...webhook }, valid: true },
    { job: "email", body: { ...cron, ...email }, valid: true },
    { job: "one-time", body: { name: "a", ...once, ...webhook }, valid: true },
    { job: "both, one null", body: { ...cron, ...email, webhook_url: null }, valid: true },
    { job: "both", body: { ...cron, ...webhook, ...email }, valid: false },
    { job: "no target", body: { ...cron, type: "webhook" }, valid: false },
    { job: "no body", body: { ...cron, ...email, email_body: null }, valid: false },
    { job: "no run_at", body: { ...cron, ...webhook, schedule_type: "one_time" }, valid: false },
    { job: "run_at for cron", body: { ...cron, ...webhook, run_at: once.run_at }, valid: false },
    { job: "no address", body: { ...cron, ...email, email_to: "ada" }, valid: false },
    { job: "no URL", body: { ...cron, ...webhook, webhook_url: "example.com" }, valid: false },
  ];
  test.each(cases)("$job: $valid", ({ body, valid }) => {
    expect(check(body)).toBe(valid);
  });
});

const isTaken = (mail: SendRequest) => {
  try {
    return mailMessage(mail).to === mail.to;
  } catch {
    return false;
  }
};

describe("a header that a mail cannot have is none in the document either", () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema({ $id: "doc", components: document.components });
  const check = ajv.compile({ $ref: "doc#/components/schemas/SendRequest" });
  test.each([
    { value: "spring", valid: true },
    { value: " spring ", valid: true },
    { value: " ", valid: false },
    { value: "\u00a0\u3000", valid: false },
    { value: `a${" ".repeat(70)}b`, valid: false },
    { value: "a\u0085b", valid: false },
  ])("$value: $valid", ({ value, valid }) => {
    const mail = { to: "ada@example.com", subject: "s", body: "b", headers: { "X-A": value } };
    expect(check(mail)).toBe(valid);
    expect(isTaken(mail)).toBe(valid);
  });
});

const specOf = (fields: RestJobCreate) =>
  specFromRest({ fields, payloadText: undefined, now: Date.UTC(2029, 0) });

describe("a client that fills in the document's defaults says the same", () => {
  const ajv = new Ajv2020({ strict: false, useDefaults: true, validateFormats: false });
  ajv.addSchema({ $id: "doc", components: document.components });
  const filled = (schema: string, body: object) => {
    const copy = structuredClone(body);
    ajv.compile({ $ref: `doc#/components/schemas/${schema}` })(copy);
    return copy;
  };
  const once = { name: "a", schedule_type: "one_time", run_at: "2030-01-01T00:00:00Z" } as const;
  const email = { email_to: "a@example.com", email_subject: "s", email_body: "b" };
  const url = "https://example.com";
  const cron = { name: "a", schedule_type: "cron", cron_expression: "* * * * *" } as const;
  test.each<{ job: string; body: RestJobCreate }>([
    { job: "one-time email", body: { ...once, type: "email", ...email } },
    { job: "one-time webhook", body: { ...once, type: "webhook", webhook_url: url } },
    { job: "recurring email", body: { ...cron, type: "email", ...email } },
    { job: "recurring webhook", body: { ...cron, type: "webhook", webhook_url: url } },
  ])("$job", ({ body }) => {
    expect(specOf(body).ok).toBe(true);
    expect(specOf(filled("JobCreate", body) as RestJobCreate)).toEqual(specOf(body));
  });
  test("a patch", () => {
    expect(filled("JobPatch", { name: "b" })).toEqual({ name: "b" });
  });
});

test("objects of any members say so: generated types would have none", () => {
  const schemas = document.components.schemas as Record<string, { properties: object }>;
  for (const name of ["JobCreate", "JobPatch", "Job"])
    expect(schemas[name]?.properties).toMatchObject({
      webhook_payload: { additionalProperties: true },
    });
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
  const named = Object.entries(document.components.schemas).map(([name, schema]) => ({
    name,
    examples: (schema as { examples?: unknown[] }).examples ?? [],
  }));
  test.each(named)("$name", ({ name, examples }) => {
    const check = ajv.compile({ $ref: `doc#/components/schemas/${name}` });
    for (const example of examples) {
      check(example);
      expect(check.errors).toBeNull();
    }
    expect.assertions(examples.length);
  });
});

test("the docs page names every route and code, and its policy lets nothing in", () => {
  const page = docsPage(document, { perSecond: 1_500, burst: 30 });
  for (const path of Object.keys(document.paths))
    expect(page.html.includes(path)).toBe(!path.startsWith("/dashboard/"));
  expect(page.html).toContain("attachments[].content_type");
  expect(page.html).toContain("1,500 requests a second, 30 at once");
  for (const code of Object.keys(ERROR_CODES)) expect(page.html).toContain(`id="error-${code}"`);
  expect(page.html).not.toMatch(/at most (\d+)\. At most \1/i);
  expect(page.html).not.toMatch(/<script|<link|<img|src=/);
  expect(page.contentSecurityPolicy).toContain("default-src 'none'");
});

test("docs/errors.md is the table of codes", async () => {
  const written = await readFile(new URL("../../../docs/errors.md", import.meta.url), "utf8");
  // The formatter pads the columns.
  const text = written.replaceAll(/ +/g, " ");
  for (const [code, { status, meaning }] of Object.entries(ERROR_CODES))
    expect(text).toContain(`| \`${code}\` | ${status} | ${meaning} |`);
  expect(text.match(/^\| `/gm)).toHaveLength(Object.keys(ERROR_CODES).length);
});
