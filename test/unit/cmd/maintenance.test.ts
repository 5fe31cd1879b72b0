import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { maintain } from "../../../cmd/maintenance.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("after an outage it is tried again within minutes, and it ends as soon as it is to", async () => {
  const warnings: unknown[] = [];
  const log = {
    ...createLogger({ level: "silent" }),
    warn: (line: unknown) => warnings.push(line),
  };
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  const succeeded = async () =>
    (await metrics.retentionLastSuccess.get()).values.map(({ labels, value }) => [
      labels.of,
      value * 1_000,
    ]);
  const began = Date.now();
  let away = true;
  const end = new AbortController();
  const done = maintain(
    {
      name: "history",
      run: async () => {
        if (away) throw new Error("away");
      },
    },
    { log, metrics },
    end.signal,
  );
  await vi.advanceTimersByTimeAsync(16 * 60_000);
  expect(warnings.length).toBe(4);
  expect(await succeeded()).toEqual([["history", began]]);
  away = false;
  await vi.advanceTimersByTimeAsync(5 * 60_000);
  expect(await succeeded()).toEqual([["history", began + 20 * 60_000]]);
  end.abort();
  await done;
});
