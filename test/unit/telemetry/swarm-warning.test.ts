import { expect, test } from "vitest";
import { createSwarmWarning } from "../../../src/telemetry/swarm-warning.ts";

test("one warning for the errors of half a minute; the others are there for who debugs", () => {
  let now = 0;
  const lines: [level: string, error: unknown][] = [];
  const write = (level: string) => (fields: object | string) =>
    lines.push([level, Object.values(fields)[0]]);
  const warn = createSwarmWarning({
    log: { warn: write("warn"), debug: write("debug") },
    monotonic: () => now,
    message: "a connection failed",
  });
  for (const at of [0, 0, 29_999, 30_000, 45_000, 60_000]) {
    now = at;
    warn({ err: at });
  }
  expect(lines).toEqual([
    ["warn", 0],
    ["debug", 0],
    ["debug", 29_999],
    ["warn", 30_000],
    ["debug", 45_000],
    ["warn", 60_000],
  ]);
});
