import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { maintain } from "../../../cmd/maintenance.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { FakeTime } from "../controller/controller-world.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const away = () => Promise.reject(new Error("away"));

test("after an outage it is tried again within minutes, and it ends as soon as it is to", async () => {
  const warnings: unknown[] = [];
  const end = new AbortController();
  const done = maintain(
    {
      pool: { query: away, connect: away } as unknown as Pool,
      clock: new FakeTime(Date.UTC(2026, 0)),
      retentionDays: 30,
      log: { ...createLogger({ level: "silent" }), warn: (line: unknown) => warnings.push(line) },
    },
    end.signal,
  );
  await vi.advanceTimersByTimeAsync(16 * 60_000);
  expect(warnings.length).toBe(4);
  end.abort();
  await done;
});
