import { expect, test } from "vitest";
import { logOptions } from "../../../cmd/log-options.ts";
import type { Configuration } from "../../../src/configuration/configuration.ts";

test.each([
  { set: {}, isTTY: true, options: { level: "info", pretty: true } },
  { set: {}, isTTY: false, options: { level: "info", pretty: false } },
  { set: { logFormat: "pretty" }, isTTY: false, options: { level: "info", pretty: true } },
  { set: { logFormat: "json" }, isTTY: true, options: { level: "info", pretty: false } },
  { set: { logLevel: "debug" }, isTTY: false, options: { level: "debug", pretty: false } },
])("$set on a terminal ($isTTY): $options", ({ set, isTTY, options }) => {
  expect(logOptions(set as Configuration, { isTTY })).toEqual(options);
});
