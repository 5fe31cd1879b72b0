import { describe, expect, test } from "vitest";
import { jobCreate } from "../../../src/domain/schema/rest-job.ts";
import { DASHBOARD_ENDPOINTS } from "../../../src/gateway/dashboard/endpoints.ts";
import { queryObject } from "../../../src/gateway/query.ts";
import { ENDPOINTS } from "../../../src/gateway/schema/endpoints.ts";
import { executionsQuery } from "../../../src/gateway/schema/jobs.ts";
import { logsQuery } from "../../../src/gateway/schema/mail.ts";
import { validator } from "../../../src/gateway/validate.ts";

/** The bodies of all endpoints that have fields. */
const BODIES = Object.entries({ ...ENDPOINTS, ...DASHBOARD_ENDPOINTS }).flatMap(([id, endpoint]) =>
  "body" in endpoint && "properties" in endpoint.body
    ? [{ id, body: endpoint.body, fields: Object.keys(endpoint.body.properties) }]
    : [],
);

const checkLogs = validator(logsQuery, "query parameter");
const logs = (query: string) => checkLogs(queryObject(query, logsQuery));

describe("GET /logs takes", () => {
  const cases = [
    { name: "its defaults", query: "", value: { limit: 10, offset: 0 } },
    { name: "the largest page", query: "limit=1000", value: { limit: 1000, offset: 0 } },
    { name: "an offset", query: "offset=250&limit=1", value: { limit: 1, offset: 250 } },
    {
      name: "filters",
      query: "status=failed&kind=otp&to=a%2Bb@example.com",
      value: { limit: 10, offset: 0, status: "failed", kind: "otp", to: "a+b@example.com" },
    },
  ];
  test.each(cases)("$name", ({ query, value }) => {
    expect(logs(query)).toEqual(value);
  });
});

test("executions have a default limit of 20", () => {
  expect(queryObject("", executionsQuery)).toEqual({ limit: 20, offset: 0 });
});

test("a negative number is one that is too small", () => {
  expect(() => logs("offset=-1")).toThrow("offset: must be at least 0");
});

describe("GET /logs refuses", () => {
  const cases = [
    { query: "limit=0", field: "limit" },
    { query: "limit=1001", field: "limit" },
    { query: "limit=-1", field: "limit" },
    { query: "limit=1.5", field: "limit" },
    { query: "limit=1e2", field: "limit" },
    { query: "limit=+10", field: "limit" },
    { query: "limit=010", field: "limit" },
    { query: "limit=ten", field: "limit" },
    { query: "limit=", field: "limit" },
    { query: "limit=1&limit=2", field: "limit" },
    { query: "offset=-1", field: "offset" },
    { query: "offset=9999999999999999", field: "offset" },
    { query: "offset=99999999999999999999", field: "offset" },
    { query: "status=SENT", field: "status" },
    { query: "status=", field: "status" },
    { query: "state=sent", field: "state" },
    { query: "to=%00", field: "to" },
    { query: "to=%ff", field: "" },
    { query: "__proto__=1", field: "__proto__" },
  ];
  test.each(cases)("$query", ({ query, field }) => {
    expect(() => logs(query)).toThrow(
      expect.objectContaining({
        name: "ApiError",
        code: "invalid_request",
        details: expect.arrayContaining([expect.objectContaining({ field })]),
      }),
    );
  });
});

test("an empty name is told of once", () => {
  const empty = { name: "", type: "webhook", schedule_type: "cron" };
  expect(() => validator(jobCreate)(empty)).toThrow(
    expect.objectContaining({
      message: "name: must not be empty",
      details: [{ field: "name", message: "must not be empty" }],
    }),
  );
});

/** Measured in processor time, because the machine may be busy with other things. */
describe("what is refused at length is refused at once", () => {
  const cases = [
    { name: "what cannot be decoded", query: "%&".repeat(8_000), error: /percent-encoded/ },
    {
      name: "unknown parameters",
      query: Array.from({ length: 200 }, (_, index) => "unknown".repeat(8) + index).join("&"),
      error: /is not a known query parameter; .* \(and 199 more\)$/,
    },
  ];
  test.each(cases)("$name", ({ query, error }) => {
    const before = process.cpuUsage();
    for (let i = 0; i < 10; i += 1) expect(() => logs(query)).toThrow(error);
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(200);
  });

  test("a thousand names that a body does not know", () => {
    const names = Array.from({ length: 1_000 }, (_, index) => ["webhook_".repeat(7) + index, 1]);
    const check = validator(jobCreate);
    const before = process.cpuUsage();
    expect(() => check(Object.fromEntries(names))).toThrow(/more\)$/);
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(500);
  });

  test.each(BODIES)("a text far too long for each field: $id", ({ body, fields }) => {
    const check = validator(body);
    const text = `${"a".repeat(100_000)}\n`;
    const before = process.cpuUsage();
    expect(() => check(Object.fromEntries(fields.map((field) => [field, text])))).toThrow(/must /);
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(500);
  });
});
