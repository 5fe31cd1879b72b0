import { expect, test } from "vitest";
import type { IdempotencyKeys } from "../../../src/domain/ports/idempotency-keys.ts";
import type { ApiAnswer } from "../../../src/gateway/endpoint.ts";
import { ApiError } from "../../../src/gateway/errors.ts";
import { EffectUncertain, idempotently } from "../../../src/gateway/idempotency.ts";

const lost = new ApiError("smtp_failed", "lost after DATA");
const refused = new Error("refused");
const sent: ApiAnswer = { status: 200, body: {} };
const begin = async () => ({ kind: "fresh", token: "t" }) as const;
const away = () => Promise.reject(new Error("the database is away"));

test.each([
  { outcome: "an answer", work: async () => sent, told: sent },
  { outcome: "a failure", work: () => Promise.reject(refused), told: refused },
  {
    outcome: "a failure that leaves the effect open",
    work: () => Promise.reject(new EffectUncertain(lost)),
    told: lost,
  },
])("$outcome is told although the key cannot be written", async ({ work, told }) => {
  const reported: unknown[] = [];
  const outcome = idempotently({
    keys: { begin, complete: away, abandon: away } satisfies IdempotencyKeys,
    request: {
      account: "a",
      requestId: "r",
      params: {},
      query: {},
      body: {},
      json: undefined,
      gone: () => false,
      idempotencyKey: "k",
    },
    scope: "POST /send",
    work,
    repeatable: false,
    report: (error) => reported.push(error),
  }).catch((error: unknown) => error);
  expect(await outcome).toBe(told);
  expect(reported).toHaveLength(1);
});
