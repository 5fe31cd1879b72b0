import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import type { Static, TSchema } from "typebox";
import type { Finding } from "../domain/findings.ts";
import { OWN_KEYWORDS } from "../domain/schema/fields.ts";
import { invalid, MAX_DETAILS } from "./errors.ts";
import { suggestName } from "./suggest-name.ts";

const ajv = new Ajv2020({
  strict: true,
  // All findings in one answer. What they can cost is bounded before: the body reader counts values.
  allErrors: true,
  allowUnionTypes: true,
  // Messages need the parent schema; no data leaves this file.
  verbose: true,
  $data: false,
  useDefaults: false,
  coerceTypes: false,
});
ajv.addVocabulary([...OWN_KEYWORDS]);

/**
 * Call it once, at start. The function that it makes returns the value typed, or throws ApiError 400 with the
 * findings. `member`: what the findings call a member of the value.
 */
export function validator<S extends TSchema>(
  schema: S,
  member = "field",
): (value: unknown) => Static<S> {
  const check: ValidateFunction = ajv.compile(schema);
  return (value) => {
    if (check(value)) return value as Static<S>;
    const errors = (check.errors ?? []).filter((error) => !saidOfEmpty(error));
    // Otherwise the validator keeps the refused value, megabytes of a request, until its next call.
    check.errors = null;
    // Only those that are shown: to find the name that was meant takes long, for thousands of them.
    throw invalid(
      errors.slice(0, MAX_DETAILS).map((error) => finding(error, member)),
      errors.length,
    );
  };
}

/** A text that must not be empty, and is: its form says nothing more. */
function saidOfEmpty({ keyword, data, parentSchema }: ErrorObject): boolean {
  return keyword === "pattern" && data === "" && parentSchema?.["minLength"] !== undefined;
}

function finding(error: ErrorObject, member: string): Finding {
  const path = error.instancePath.slice(1).split("/").map(unescapePointer);
  const params = error.params as Record<string, unknown>;
  const extra = params["missingProperty"] ?? params["additionalProperty"];
  if (typeof extra === "string") path.push(extra);
  return { field: path.filter((part) => part !== "").join("."), message: message(error, member) };
}

function unescapePointer(part: string): string {
  return part.replaceAll("~1", "/").replaceAll("~0", "~");
}

function message(
  { keyword, params, parentSchema, schema, data }: ErrorObject,
  member: string,
): string {
  const limit = String((params as Record<string, unknown>)["limit"]);
  switch (keyword) {
    case "required":
      return "is required";
    case "additionalProperties": {
      const name = String((params as Record<string, unknown>)["additionalProperty"]);
      const elsewhere = new Map(
        Object.entries((parentSchema?.["x-elsewhere"] ?? {}) as Record<string, string>),
      );
      const known = Object.keys((parentSchema?.["properties"] ?? {}) as object);
      const advice = elsewhere.get(name) ?? suggestName(name, known);
      return `is not a known ${member}; ${advice}`;
    }
    case "type":
      return `must be ${typeName(schema)}`;
    case "enum":
      return `must be one of ${(schema as (string | null)[]).filter((value) => value !== null).join(", ")}`;
    case "minLength":
      return data === "" ? "must not be empty" : `must have at least ${limit} characters`;
    case "maxLength":
      return `must have at most ${limit} characters`;
    case "minimum":
      return `must be at least ${limit}`;
    case "maximum":
      return `must be at most ${limit}`;
    case "minItems":
      return `must have at least ${limit} items`;
    case "maxItems":
      return `must have at most ${limit} items`;
    case "minProperties":
      return "must have at least one field";
    case "maxProperties":
      return `must have at most ${limit} fields`;
    case "pattern": {
      const rule = parentSchema?.["x-rule"] as unknown;
      return typeof rule === "string" ? rule : "has a form that is not accepted";
    }
    default:
      return "is not acceptable";
  }
}

function typeName(schema: unknown): string {
  const types = (Array.isArray(schema) ? schema : [schema]) as string[];
  return types
    .map((type) => (type === "null" ? type : /^[aeio]/.test(type) ? `an ${type}` : `a ${type}`))
    .join(" or ");
}
