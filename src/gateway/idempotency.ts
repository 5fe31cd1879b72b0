import { LIMITS } from "../domain/schema/fields.ts";
import type { IdempotencyKeys } from "../domain/ports/idempotency-keys.ts";
import { answerText, JsonText, type ApiAnswer, type ApiRequest } from "./endpoint.ts";
import { ApiError, invalid } from "./errors.ts";

/** After this a request in flight is taken for dead: its process died or lost the database. */
const GIVEN_UP_AFTER_MS = 60_000;

/** Stored in place of a 2xx: the effect may have happened. */
const UNCERTAIN = 409;

/** Visible ASCII: what survives every proxy and log. */
export const IDEMPOTENCY_KEY = "^[!-~]([ -~]*[!-~])?$";
const FORM = new RegExp(IDEMPOTENCY_KEY);

/** Throws ApiError 400 when the header is there and not 1 to 256 visible characters. */
export function readIdempotencyKey(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  if (header.length > LIMITS.idempotencyKey || !FORM.test(header))
    throw invalid([
      {
        field: "Idempotency-Key",
        message: `must be 1 to ${LIMITS.idempotencyKey} visible ASCII characters`,
      },
    ]);
  return header;
}

/** Says that the work may have had its effect although it failed: the key must not be freed. */
export class EffectUncertain extends Error {
  override name = "EffectUncertain";
  readonly answer: ApiError;
  constructor(answer: ApiError) {
    super(answer.message, { cause: answer });
    this.answer = answer;
  }
}

export interface IdempotentWork {
  keys: IdempotencyKeys;
  request: ApiRequest;
  /** The endpoint: the same key at another endpoint is another key. */
  scope: string;
  work: () => Promise<ApiAnswer>;
  /** Whether the work may be done again when the first request died; if not, the answer is `outcome_unknown`. */
  repeatable: boolean;
  /** Called when a key could not be completed or freed; the answer stands all the same. */
  report: (error: unknown) => void;
}

/**
 * Runs `work` once per key. Only a 2xx is kept and replayed; any other outcome frees the key, except
 * one that leaves open whether the effect happened: that is kept, and answers `outcome_unknown`.
 */
export async function idempotently(options: IdempotentWork): Promise<ApiAnswer> {
  const { keys, request, work, report } = options;
  const key = request.idempotencyKey;
  if (key === undefined) return unwrapped(work);
  const begun = await keys.begin({
    account: request.account,
    scope: options.scope,
    key,
    fingerprint: request.json?.fingerprint() ?? "",
    retakeAfterMs: options.repeatable ? GIVEN_UP_AFTER_MS : undefined,
  });
  switch (begun.kind) {
    case "fresh":
      return first(begun.token);
    case "replay":
      if (begun.status === UNCERTAIN) throw outcomeUnknown();
      return {
        status: begun.status,
        body: new JsonText(begun.body),
        headers: { "Idempotency-Replayed": "true" },
      };
    case "mismatch":
      throw new ApiError(
        "idempotency_mismatch",
        "the Idempotency-Key was used with a different body: use another key for this one",
      );
    case "in_flight":
      // The time of one that may be repeated can have come since the store tried to take its key over.
      if (options.repeatable || begun.forMs < GIVEN_UP_AFTER_MS)
        throw new ApiError(
          "idempotency_in_flight",
          "a request with this Idempotency-Key is being worked on: try again in a second",
          { retryAfterSeconds: 1 },
        );
      throw outcomeUnknown();
    default:
      throw new Error("unknown answer of the idempotency store", { cause: begun satisfies never });
  }

  async function first(token: string): Promise<ApiAnswer> {
    let answer: ApiAnswer;
    try {
      answer = await work();
    } catch (error) {
      if (!(error instanceof EffectUncertain)) {
        await keys.abandon(token).catch(report);
        throw error;
      }
      await keys.complete(token, { status: UNCERTAIN, body: "" }).catch(report);
      throw error.answer;
    }
    // The effect has happened: a failure here must not turn the answer into an error that invites a
    // second try. The key then stays in flight, and a retry is answered accordingly.
    await keys.complete(token, { status: answer.status, body: answerText(answer) }).catch(report);
    return answer;
  }
}

function outcomeUnknown(): ApiError {
  return new ApiError(
    "outcome_unknown",
    "it is not known whether the mail of an earlier request with this Idempotency-Key was sent, or to all of its recipients. To send it, perhaps again, use another key",
  );
}

async function unwrapped(work: () => Promise<ApiAnswer>): Promise<ApiAnswer> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof EffectUncertain ? error.answer : error;
  }
}
