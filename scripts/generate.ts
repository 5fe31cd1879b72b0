/**
 * Writes every generated file of the repository; with `--check` it writes nothing, names those that are
 * out of date and exits 1.
 */
import { readFile, writeFile } from "node:fs/promises";
import { format, resolveConfig } from "prettier";
import manifest from "../package.json" with { type: "json" };
import { configurationPage } from "../src/configuration/configuration-page.ts";
import { openApiDocument } from "../src/gateway/openapi.ts";
import { generateCrd } from "../src/kubernetes/crd.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import { metricsPage } from "../src/telemetry/metrics-page.ts";

const GENERATED: Readonly<Record<string, () => string>> = {
  "docs/configuration.md": configurationPage,
  "docs/metrics.md": () =>
    metricsPage(createMetrics({ version: "0.0.0", nodeMetrics: false }).descriptions),
  "docs/openapi.json": () => JSON.stringify(openApiDocument({ version: manifest.version })),
  "crds/scheduledjobs.carillon.dev.yaml": generateCrd,
  // Helm reads nothing outside the chart.
  "charts/carillon/files/scheduledjobs.carillon.dev.yaml": generateCrd,
};

const check = process.argv.includes("--check");
let stale = 0;
for (const [path, generate] of Object.entries(GENERATED)) {
  const url = new URL(`../${path}`, import.meta.url);
  const wanted = await format(generate(), { ...(await resolveConfig(url)), filepath: path });
  const present = await readFile(url, "utf8").catch(() => "");
  if (present === wanted) continue;
  if (check) {
    stale += 1;
    console.error(`${path} is out of date: run npm run generate`);
  } else {
    await writeFile(url, wanted);
    console.log(`wrote ${path}`);
  }
}
if (stale > 0) process.exitCode = 1;
else if (check) console.log(`generated: ${Object.keys(GENERATED).length} files up to date`);
