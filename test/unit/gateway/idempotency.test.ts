import { expect, test } from "vitest";
import type { IdempotencyKeys } from "../../../src/domain/ports/idempotency-keys.ts";
import type { ApiAnswer, ApiRequest } from "../../../src/gateway/endpoint.ts";
import { ApiError } from "../../../src/gateway/errors.ts";
import { EffectUncertain, idempotently } from "../../../src/gateway/idempotency.ts";

const request: ApiRequest = {
  account: "a",
  requestId: "r",
  params: {},
  query: {},
  body: {},
  json: undefined,
  gone: () => false,
  idempotencyKey: "k",
};
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
    request,
    scope: "POST /send",
    work,
    repeatable: false,
    report: (error) => reported.push(error),
  }).catch((error: unknown) => error);
  expect(await outcome).toBe(told);
  expect(reported).toHaveLength(1);
});

test.each([
  { forMs: 59_999, repeatable: false, code: "idempotency_in_flight" },
  { forMs: 60_000, repeatable: false, code: "outcome_unknown" },
  // Its time came after the store had tried to take the key over.
  { forMs: 60_000, repeatable: true, code: "idempotency_in_flight" },
])(
  "in flight for $forMs ms, repeatable $repeatable: $code",
  async ({ forMs, repeatable, code }) => {
    const begun = async () => ({ kind: "in_flight", forMs }) as const;
    const outcome = idempotently({
      keys: { begin: begun, complete: away, abandon: away } satisfies IdempotencyKeys,
      request,
      scope: "POST /jobs",
      work: () => Promise.reject(new Error("worked on twice")),
      repeatable,
      report: () => undefined,
    });
    await expect(outcome).rejects.toMatchObject({ code });
  },
);
