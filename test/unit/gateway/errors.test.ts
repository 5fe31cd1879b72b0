import { setImmediate } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { InvalidInput } from "../../../src/domain/findings.ts";
import { ApiError, errorAnswer, invalid } from "../../../src/gateway/errors.ts";
import { validator } from "../../../src/gateway/validate.ts";
import { emptyQuery } from "../../../src/gateway/schema/answers.ts";
import { collectGarbage } from "../../collect-garbage.ts";

const LONG = "h".repeat(24_000_000);
/** A text of a size that V8 keeps on its heap, in one piece. */
const long = () => Buffer.alloc(500_000, "h").toString("latin1");

/** A newly compiled validator: of the same schema object there is only one. */
const freshValidator = () => validator({ ...emptyQuery });

function refusal(check: (value: unknown) => unknown, value: object): unknown {
  try {
    return check(value);
  } catch (error) {
    return error;
  }
}

test.each([
  { what: "a text", error: new ApiError("invalid_json", LONG) },
  { what: "a finding", error: invalid([{ field: LONG, message: LONG }]) },
  { what: "what the domain finds", error: new InvalidInput([{ field: LONG, message: LONG }]) },
  { what: "a field that no schema knows", error: refusal(freshValidator(), { [LONG]: "x" }) },
])("an answer is short, whatever it speaks of: $what", ({ error }) => {
  const { error: text, details = [] } = errorAnswer(error).body;
  expect(text.length).toBeGreaterThan(200);
  expect(text.length).toBeLessThanOrEqual(1_000);
  expect(text).toMatch(/^h+…/);
  for (const { field, message } of details) {
    expect(field).toBe(`${"h".repeat(199)}…`);
    expect(message.length).toBeLessThanOrEqual(1_000);
  }
});

test("what is short enough stays as it is, and all of it counts", () => {
  const finding = { field: "f".repeat(200), message: "m".repeat(798) };
  const { body } = errorAnswer(invalid([finding, finding], 3));
  expect(body.details).toEqual([finding, finding]);
  expect(body.error).toMatch(/m…$/);
  expect(errorAnswer(invalid([finding])).body.error).toBe(`${finding.field}: ${finding.message}`);
  expect(errorAnswer(invalid(Array.from({ length: 50 }, () => finding))).body.details).toHaveLength(
    20,
  );
});

test.each([
  { text: `${"a".repeat(198)}🔔b`, field: `${"a".repeat(198)}…` },
  { text: `${"a".repeat(197)}🔔bc`, field: `${"a".repeat(197)}🔔…` },
  { text: `${"a".repeat(198)}🔔`, field: `${"a".repeat(198)}🔔` },
])("no character is halved: $field", ({ text, field }) => {
  expect(invalid([{ field: text, message: "is wrong" }]).details?.[0]?.field).toBe(field);
});

test.each([
  { seconds: 0, header: "1" },
  { seconds: 0.2, header: "1" },
  { seconds: 1.2, header: "2" },
])("who is told to wait for $seconds s waits long enough: Retry-After $header", (wait) => {
  const { headers } = new ApiError("rate_limited", "later", { retryAfterSeconds: wait.seconds });
  expect(headers).toEqual({ "Retry-After": wait.header });
});

/** Collects twice, because names of members stay for a turn after their objects. */
async function garbageCollected(): Promise<void> {
  for (let turn = 0; turn < 2; turn += 1) {
    await setImmediate();
    collectGarbage();
  }
}

describe("what was cut off is not kept with the rest", () => {
  const validators = Array.from({ length: 20 }, freshValidator);
  test.each([
    {
      by: "an error",
      errors: () => Array.from({ length: 60 }, () => invalid([{ field: long(), message: long() }])),
    },
    {
      by: "a validator",
      errors: () => validators.map((check, id) => refusal(check, { [`${id}${long()}`]: "x" })),
    },
  ])("by $by", async ({ errors }) => {
    await garbageCollected();
    const before = process.memoryUsage().heapUsed;
    const kept = errors();
    await garbageCollected();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(5_000_000);
    expect(kept.length).toBeGreaterThan(0);
  });
});
