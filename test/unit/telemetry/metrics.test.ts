import { describe, expect, onTestFinished, test, vi } from "vitest";
import { createMetrics } from "../../../src/telemetry/metrics.ts";

const metrics = createMetrics({ version: "1.2.3" });
const { text } = await metrics.render();
const types = new Map(
  Array.from(text.matchAll(/^# TYPE (\S+) (\S+)$/gm), (m) => [m[1] ?? "", m[2] ?? ""]),
);

/** The rules of `promtool check metrics` (promlint in prometheus/client_golang) that apply here. */
describe.each([...types].map(([name, type]) => ({ name, type })))("$name", ({ name, type }) => {
  test("begins with carillon_ and is snake_case", () => {
    expect(name).toMatch(/^carillon_[a-z0-9_]+$/);
  });
  test("ends in _total exactly when it is a counter", () => {
    expect(name.endsWith("_total")).toBe(type === "counter");
  });
  test("uses base units and does not name its type", () => {
    expect(name).not.toMatch(/_(ms|milliseconds|minutes|hours|kb|mb|kilobytes|megabytes)(_|$)/);
    expect(name).not.toMatch(/_(counter|gauge|histogram|summary)(_|$)/);
    expect(name).not.toMatch(/_(count|sum|bucket)$/);
  });
  test("has a help text", () => {
    expect(text).toMatch(new RegExp(`^# HELP ${name} \\S`, "m"));
  });
});

describe("metrics", () => {
  test("describes every metric of its own", () => {
    const own = [...types.keys()].filter((name) => !/^carillon_(process|nodejs)_/.test(name));
    expect(metrics.descriptions.map((d) => d.name).toSorted()).toEqual(own.toSorted());
  });

  test("asks collectors at each scrape, and a broken one does not fail the scrape", async () => {
    const mine = createMetrics({ version: "0", nodeMetrics: false });
    mine.beforeScrape("queue", () => {
      mine.queueDepth.set({ state: "queued" }, 7);
    });
    mine.beforeScrape("broken", () => Promise.reject(new Error("database away")));
    const scrape = await mine.render();
    expect(scrape.text).toContain('carillon_run_queue_depth{state="queued"} 7');
    expect(scrape.text).toContain('carillon_metrics_collection_errors_total{collector="broken"} 1');
  });

  test("a collector that never ends is given up before the scraper gives us up", async () => {
    vi.useFakeTimers();
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const mine = createMetrics({ version: "0", nodeMetrics: false });
    mine.beforeScrape("endless", () => new Promise(() => undefined));
    const scrape = mine.render();
    await vi.advanceTimersByTimeAsync(9_000);
    expect((await scrape).text).toContain('errors_total{collector="endless"} 1');
  });
});
