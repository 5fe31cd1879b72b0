import { OWN_KEYWORDS } from "../domain/schema/fields.ts";

/** A CRD's `openAPIV3Schema`, or a part of it. */
export type StructuralSchema = Record<string, unknown>;

export interface Validation {
  rule: string;
  message: string;
}

/** Keywords that are copied as they are. */
const KEPT = new Set([
  "type",
  "description",
  "default",
  "enum",
  "format",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "minItems",
  "maxItems",
  "minProperties",
  "maxProperties",
  "required",
  "x-kubernetes-preserve-unknown-fields",
  "x-kubernetes-list-type",
  "x-kubernetes-list-map-keys",
  "x-kubernetes-map-type",
]);

/** Keywords of the REST API's documentation, which say nothing that the API server could check. */
const DROPPED = new Set<string>(["examples", ...OWN_KEYWORDS]);

const TYPES = new Set(["object", "array", "string", "integer", "number", "boolean"]);

/**
 * Turns JSON Schema, as TypeBox writes it, into the subset that Kubernetes accepts as structural. Throws for a
 * keyword that is not known here: the API server would drop or refuse it, and a rule of the REST API would
 * silently not hold for `kubectl apply`.
 */
export function structuralSchema(schema: unknown, path = "spec"): StructuralSchema {
  if (!isRecord(schema)) throw new Error(`${path}: not a schema`);
  if (typeof schema.type !== "string" || !TYPES.has(schema.type))
    throw new Error(
      `${path}: a structural schema needs one type, not ${JSON.stringify(schema.type)}`,
    );
  const result: StructuralSchema = {};
  const validations: Validation[] = [];
  for (const [keyword, value] of Object.entries(schema)) {
    if (KEPT.has(keyword)) result[keyword] = value;
    else if (DROPPED.has(keyword)) continue;
    else
      switch (keyword) {
        case "properties":
          result.properties = properties(value, path);
          break;
        case "items":
          result.items = structuralSchema(value, `${path}[]`);
          break;
        case "additionalProperties":
          // `false` needs no keyword: the API server prunes fields that no schema names.
          if (value !== false) result.additionalProperties = structuralSchema(value, `${path}.*`);
          break;
        case "pattern":
          validations.push(patternRule(value, schema["x-rule"], path));
          break;
        case "x-kubernetes-validations":
          validations.push(...(value as Validation[]));
          break;
        default:
          throw new Error(`${path}: no structural form is known for "${keyword}"`);
      }
  }
  if (result.type === "array" && !result.items) throw new Error(`${path}: an array needs items`);
  if (result.description !== undefined) result.description = explained(result);
  if (validations.length > 0) result["x-kubernetes-validations"] = validations;
  return result;
}

/** `kubectl explain` shows neither limits nor the default, unless the description does. */
function explained({ description, minimum, maximum, default: usual }: StructuralSchema): string {
  const said = [description];
  if (typeof minimum === "number" && typeof maximum === "number")
    said.push(`From ${minimum} to ${maximum}.`);
  if (typeof usual === "string" || typeof usual === "number" || typeof usual === "boolean")
    said.push(`Default: ${usual}.`);
  return said.join(" ");
}

function properties(value: unknown, path: string): Record<string, StructuralSchema> {
  if (!isRecord(value)) throw new Error(`${path}: properties must be an object`);
  return Object.fromEntries(
    Object.entries(value).map(([name, schema]) => [
      name,
      structuralSchema(schema, `${path}.${name}`),
    ]),
  );
}

/**
 * A pattern as a CEL rule: the API server's own message would show the expression, not what to do.
 * Go's RE2 writes code points as \x{…} and knows neither look-around nor back references.
 */
function patternRule(pattern: unknown, rule: unknown, path: string): Validation {
  if (typeof pattern !== "string") throw new Error(`${path}: pattern must be a string`);
  if (typeof rule !== "string") throw new Error(`${path}: a pattern needs x-rule, its meaning`);
  if (/\(\?[=!<]|\\[1-9kpP]/.test(pattern))
    throw new Error(`${path}: RE2 has no form for ${pattern}`);
  const re2 = pattern.replaceAll(/\\u([0-9a-fA-F]{4})/g, (_, code: string) => `\\x{${code}}`);
  return { rule: `self.matches(${celString(re2)})`, message: rule };
}

/** A CEL string literal. */
export function celString(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
