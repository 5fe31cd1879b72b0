import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { VARIABLES } from "../../../src/configuration/variables.ts";
import { parseAddress } from "../../../src/domain/address.ts";
import { ACCOUNT_NAME } from "../../../src/postgres/accounts.ts";

const CHART = join(import.meta.dirname, "../../../charts/carillon");
const read = (file: string) => readFile(join(CHART, file), "utf8");

interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  additionalProperties?: boolean;
  required?: string[];
  pattern?: string;
  minimum?: number;
  maximum?: number;
}

/** Values whose content is up to the user. */
const FREE = (path: string) =>
  /(resources|annotations|podAnnotations|podLabels|labels|nodeSelector|affinity)$/.test(path);

function paths(value: unknown, at = ""): string[] {
  if (value === null || typeof value !== "object" || Array.isArray(value) || FREE(at)) return [at];
  return Object.entries(value).flatMap(([key, inner]) =>
    paths(inner, at === "" ? key : `${at}.${key}`),
  );
}

function schemaPaths(schema: Schema, at = ""): string[] {
  if (!schema.properties) return [at];
  return Object.entries(schema.properties).flatMap(([key, inner]) =>
    schemaPaths(inner, at === "" ? key : `${at}.${key}`),
  );
}

function objects(schema: Schema, at = ""): [string, Schema][] {
  return [
    [at, schema],
    ...Object.entries(schema.properties ?? {}).flatMap(([key, inner]) =>
      objects(inner, at === "" ? key : `${at}.${key}`),
    ),
  ];
}

describe("values.schema.json", async () => {
  const values = parse(await read("values.yaml")) as unknown;
  const schema = JSON.parse(await read("values.schema.json")) as Schema;

  test("has every value of values.yaml, and no other", () => {
    // Allowed for charts of which this one is a part: Helm's `global`, and `enabled` as their condition.
    const ofParents = ["global", "enabled"];
    const inSchema = schemaPaths(schema).filter((path) => !ofParents.includes(path));
    expect(inSchema.sort()).toEqual(paths(values).sort());
  });

  test("refuses what it does not know", () => {
    const open = objects(schema).filter(
      ([path, { type, properties, additionalProperties }]) =>
        type === "object" &&
        !FREE(path) &&
        path !== "global" &&
        (!properties || additionalProperties !== false),
    );
    expect(open.map(([path]) => path)).toEqual([]);
  });

  test("asks for every section: helm takes one that is null away, and templates look into it", () => {
    for (const [, { properties = {}, required = [] }] of objects(schema)) {
      const sections = Object.entries(properties).filter(([, inner]) => inner.properties);
      expect(required).toEqual(sections.map(([key]) => key));
    }
  });

  test.each([
    { path: "database.connections", variable: VARIABLES.databaseConnections },
    { path: "retentionDays", variable: VARIABLES.retentionDays },
    { path: "finishedJobsDays", variable: VARIABLES.finishedJobsDays },
    { path: "controller.deliveryConcurrency", variable: VARIABLES.deliveryConcurrency },
    { path: "gateway.rateLimit.perSecond", variable: VARIABLES.rateLimit },
    { path: "gateway.rateLimit.burst", variable: VARIABLES.rateLimitBurst },
  ])("$path has the bounds of $variable.name", ({ path, variable }) => {
    const [, found] = objects(schema).find(([at]) => at === path) ?? [];
    const { minimum = Number.NaN, maximum = Number.NaN } = found ?? {};
    for (const good of [minimum, maximum]) expect(variable.parse(String(good))).toBe(good);
    expect(() => variable.parse(String(maximum + 1))).toThrow(String(maximum));
    expect(() => variable.parse(String(minimum - 1))).toThrow(String(minimum));
  });
});

describe("bootstrap", async () => {
  const { properties = {} } = JSON.parse(await read("values.schema.json")) as Schema;
  const pattern = (key: string) =>
    new RegExp(properties["bootstrap"]?.properties?.[key]?.pattern ?? "(?!)");

  test("an account's name is what the program takes, which trims it", () => {
    expect(pattern("account").source).toBe(
      `^\\s*${ACCOUNT_NAME.source.replaceAll(/^\^|\$$/g, "")}\\s*$`,
    );
  });

  test.each([
    "admin@example.com",
    "a@localhost",
    "first.last+tag@sub.example.co",
    "o'brien_{x}@example.com",
    "admin@bücher.example",
    "admin@例え。テスト",
    "admin@3com.com",
    "admin@example.x1",
    `${"l".repeat(64)}@example.com`,
    `a@${`${"d".repeat(60)}.`.repeat(4)}example`,
  ])("the address %s passes both the schema and the program", (email) => {
    expect(parseAddress(email).kind).toBe("valid");
    for (const given of [email, ` ${email}\n`]) expect(given).toMatch(pattern("email"));
  });

  test.each([
    "admin",
    "@",
    "@example.com",
    "admin@",
    "a b@example.com",
    "a@b@example.com",
    "Ada <ada@example.com>",
    "a@example.com, b@example.com",
    ".a@example.com",
    "a..b@example.com",
    "a@example..com",
    "a@.example.com",
    "a@example.com.",
    "a@example_.com",
    "a@127.0.0.1",
    "a@[127.0.0.1]",
    `${"l".repeat(65)}@example.com`,
  ])("the address %s passes neither", (email) => {
    expect(parseAddress(email).kind).toBe("invalid");
    expect(email).not.toMatch(pattern("email"));
  });

  test("no address is no user", () => {
    expect("").toMatch(pattern("email"));
  });
});

test("the chart carries the definition as it is in crds/", async () => {
  const name = "scheduledjobs.carillon.dev.yaml";
  const source = await readFile(join(CHART, "../../crds", name), "utf8");
  expect(await read(`files/${name}`)).toBe(source);
});

test("chart and program have one version", async () => {
  const { version } = JSON.parse(await readFile(join(CHART, "../../package.json"), "utf8")) as {
    version: string;
  };
  expect(parse(await read("Chart.yaml"))).toMatchObject({ version, appVersion: version });
});
