import { Type } from "typebox";
import { LIMITS, oneOf } from "../../domain/schema/fields.ts";
import { ERROR_CODES } from "../error-codes.ts";
import { MAX_DETAILS } from "../errors.ts";

/** Parts that several answers share. Answers are documented, not validated at run time. */

export function timestamp(description: string) {
  return Type.String({ format: "date-time", description: `${description} ISO 8601, UTC.` });
}

/** For free text, in the document only: the readers of queries and bodies refuse NUL before any schema is asked. */
export const NO_NUL = { pattern: "^[^\\u0000]*$" };

/** The query parameters of a list that has pages. */
export function paging(limit: { default: number; description: string }) {
  return {
    limit: Type.Integer({ minimum: 1, maximum: LIMITS.pageSize, ...limit }),
    offset: Type.Integer({
      minimum: 0,
      maximum: LIMITS.offset,
      default: 0,
      description: "Pagination offset.",
    }),
  };
}

/** The shape of every answer that is not a success. */
export const errorAnswer = Type.Object(
  {
    error: Type.String({ description: "What is wrong, for people." }),
    code: oneOf(Object.keys(ERROR_CODES), { description: "What is wrong, for programs." }),
    details: Type.Optional(
      Type.Array(
        Type.Object({
          field: Type.String({
            description: "Path of the field or parameter; empty for the request as a whole.",
          }),
          message: Type.String(),
        }),
        { description: `Only with validation errors: up to ${MAX_DETAILS} findings.` },
      ),
    ),
  },
  {
    examples: [
      {
        error: "to: is required",
        code: "invalid_request",
        details: [{ field: "to", message: "is required" }],
      },
    ],
  },
);

export const messageAnswer = Type.Object({ message: Type.String() });

export const emptyQuery = Type.Object({}, { additionalProperties: false });

export const healthAnswer = Type.Object(
  { status: Type.String() },
  { examples: [{ status: "ok" }] },
);

export const readyAnswer = Type.Object(
  {
    status: oneOf(["ready", "degraded", "starting"], {
      description:
        "`degraded`: a dependency does not answer now, but the process has been ready before and keeps serving.",
    }),
    dependencies: Type.Unsafe<Record<string, string>>({
      type: "object",
      additionalProperties: { type: "string", enum: ["up", "down"] },
    }),
  },
  { examples: [{ status: "ready", dependencies: { postgres: "up", jobs: "up" } }] },
);
