import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { maintain } from "../../../cmd/maintenance.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("after an outage it is tried again within minutes, and it ends as soon as it is to", async () => {
  const warnings: unknown[] = [];
  const end = new AbortController();
  const done = maintain(
    { name: "history", run: () => Promise.reject(new Error("away")) },
    { ...createLogger({ level: "silent" }), warn: (line: unknown) => warnings.push(line) },
    end.signal,
  );
  await vi.advanceTimersByTimeAsync(16 * 60_000);
  expect(warnings.length).toBe(4);
  end.abort();
  await done;
});
