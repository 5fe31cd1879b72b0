/** What Prometheus itself says about the alerting rules and the metrics. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, inject, test } from "vitest";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { clientProgram } from "../kubernetes/binaries.ts";
import { announce } from "../kubernetes/control-plane.ts";
import { run } from "../kubernetes/run.ts";
import { CHART } from "./chart.ts";

async function check(what: "rules" | "metrics", input: string): Promise<string> {
  const program = await clientProgram("prometheus-check", announce);
  if (program === undefined) throw new Error("Go is needed to build Prometheus' checks");
  return run(program, [what], { input });
}

// Skipped without a control plane: then there is no Go either, and the setup has said so loudly.
describe.runIf(inject("kubeconfig") !== "")("Prometheus", () => {
  test("takes the alerting rules", async () => {
    const rules = await readFile(join(CHART, "files/alerts.yaml"), "utf8");
    expect(await check("rules", rules)).toBe("");
    const broken = rules.replace("(carillon_leader) < 1", "(carillon_leader < 1");
    await expect(check("rules", broken)).rejects.toThrow("could not parse expression");
  });

  test("has nothing to say against the names and texts of the metrics", async () => {
    const metrics = createMetrics({ version: "0.0.0", nodeMetrics: false });
    expect(await check("metrics", (await metrics.render()).text)).toBe("");
  });
});
