/** The tables of docs/scheduledjob.md are written by hand: they must match the definition and the API's document. */
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { parse } from "yaml";

interface Schema {
  type?: string;
  default?: unknown;
  properties?: Record<string, Schema>;
}

const page = await readFile("docs/scheduledjob.md", "utf8");
const definition = parse(await readFile("crds/scheduledjobs.carillon.dev.yaml", "utf8")) as {
  spec: { versions: { schema: { openAPIV3Schema: Required<Schema> } }[] };
};
const { spec, status } = definition.spec.versions[0]?.schema.openAPIV3Schema.properties ?? {};

/** The cells of each row of the table under a heading. */
function rows(heading: string): string[][] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split("\n## ")[0] ?? "";
  return [...section.matchAll(/^\| (?=`|condition)(.*) \|$/gm)].map(([, row = ""]) =>
    row.split(" | ").map((cell) => cell.trim()),
  );
}

/** The path of each field without subfields, with its default. */
function fields(schema: Schema | undefined, at = ""): [string, unknown][] {
  if (!schema?.properties) return [[schema?.type === "array" ? `${at}[]` : at, schema?.default]];
  return Object.entries(schema.properties).flatMap(([name, inner]) =>
    fields(inner, at === "" ? name : `${at}.${name}`),
  );
}

const names = (cell = "") => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);

test("has every field of the spec, with its default", () => {
  const known = new Map(fields(spec));
  const told = rows("spec").map(([field, , , usual = ""]): [string, string] => [
    names(field)[0] ?? "",
    usual.replaceAll("`", ""),
  ]);
  expect(new Set(told.map(([field]) => field))).toEqual(new Set(known.keys()));
  // The definition has no default where it is computed, or where there is none.
  const stated = told.filter(([field]) => known.get(field) !== undefined);
  expect(stated).toEqual(
    stated.map(([field]) => [field, JSON.stringify(known.get(field)).replaceAll('"', "")]),
  );
});

test("has every field that REST creates a job with", async () => {
  const { components } = JSON.parse(await readFile("docs/openapi.json", "utf8")) as {
    components: { schemas: { JobCreate: Required<Schema> } };
  };
  // `type: webhook` is a value of the field `type`, and `POST …/pause` is a call.
  const told = rows("spec")
    .flatMap(([, field]) => names(field))
    .filter((name) => !name.includes("…"))
    .map((name) => name.split(":")[0]);
  expect(new Set(told)).toEqual(new Set(Object.keys(components.schemas.JobCreate.properties)));
});

test("has every field of the status", () => {
  const told = rows("status").flatMap(([field]) => names(field));
  const conditions = ["Ready", "Scheduled", "LastRunSucceeded", "Stalled", "DestinationReachable"];
  const known = Object.keys(status?.properties ?? {}).filter((name) => name !== "conditions");
  expect(new Set(told)).toEqual(new Set([...known, ...conditions]));
});
