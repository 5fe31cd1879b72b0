import type { TSchema } from "typebox";
import type { Finding } from "../domain/findings.ts";
import { invalid } from "./errors.ts";

/** Plain decimal: no plus, leading zero, exponent or space. */
const INTEGER = /^(?:0|-?[1-9][0-9]{0,15})$/;

/**
 * The query string as an object for the schema to judge, with the schema's defaults for what is not given: the
 * schema need not call that optional. Integers of the schema are read from plain decimals; what is not one stays a
 * string, which the schema refuses. Throws ApiError 400 for a parameter given twice, NUL, or bytes that are not UTF-8.
 */
export function queryObject(querystring: string, schema: TSchema): Record<string, unknown> {
  const properties =
    (schema as { properties?: Record<string, { type?: unknown; default?: unknown }> }).properties ??
    {};
  const found = new Map<string, unknown>();
  const findings: Finding[] = [];
  for (const pair of querystring.split("&")) {
    if (pair === "") continue;
    const [name, value] = decoded(pair);
    // Refused at the first one: each costs an exception, and a query string has room for thousands.
    if (name === undefined || value === undefined)
      throw invalid([
        { field: "", message: "the query string is not valid percent-encoded UTF-8" },
      ]);
    if (found.has(name)) findings.push({ field: name, message: "is given twice" });
    if (value.includes("\u0000")) findings.push({ field: name, message: "must not contain NUL" });
    const integer = properties[name]?.type === "integer" && INTEGER.test(value);
    found.set(name, integer ? Number(value) : value);
  }
  if (findings.length > 0) throw invalid(findings);
  for (const [name, property] of Object.entries(properties))
    if (!found.has(name) && property.default !== undefined) found.set(name, property.default);
  return Object.fromEntries(found);
}

function decoded(pair: string): [string | undefined, string | undefined] {
  const equals = pair.indexOf("=");
  const [name, value] =
    equals === -1 ? [pair, ""] : [pair.slice(0, equals), pair.slice(equals + 1)];
  try {
    return [
      decodeURIComponent(name.replaceAll("+", " ")),
      decodeURIComponent(value.replaceAll("+", " ")),
    ];
  } catch {
    return [undefined, undefined];
  }
}
