import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { createMetrics } from "../../../src/telemetry/metrics.ts";

const FILES = join(import.meta.dirname, "../../../charts/carillon/files");
const { descriptions } = createMetrics({ version: "0.0.0", nodeMetrics: false });

/** All series that the programs expose, with their labels. */
const series = new Map<string, Set<string>>();
for (const { name, type, labels } of descriptions) {
  const own = new Set<string>([...labels, "le", "job", "instance", "pod", "namespace"]);
  series.set(name, own);
  if (type === "histogram")
    for (const suffix of ["_bucket", "_sum", "_count"]) series.set(`${name}${suffix}`, own);
}

/** What is wrong with an expression: unknown series, or unknown labels in their matchers and groupings. */
function problems(expression: string): string[] {
  const found: string[] = [];
  const used = [...expression.matchAll(/\b(carillon_[a-z_]+)(?:\{([^}]*)\})?/g)];
  if (used.length === 0) found.push("names no series of Carillon");
  const labels = new Set<string>();
  for (const [, name = "", matchers = ""] of used) {
    const own = series.get(name);
    if (!own) found.push(`no series ${name}`);
    for (const label of own ?? []) labels.add(label);
    for (const [, label = ""] of matchers.matchAll(/([a-z_]+)\s*(?:=~|!~|!=|=)/g))
      if (!own?.has(label)) found.push(`${name} has no label ${label}`);
  }
  for (const [, list = ""] of expression.matchAll(/\bby\s*\(([^)]*)\)/g))
    for (const label of list.split(",").map((each) => each.trim()))
      if (!labels.has(label)) found.push(`nothing here has the label ${label}`);
  return found;
}

interface Rules {
  groups: {
    rules: {
      alert: string;
      expr: string;
      labels: { severity: string };
      annotations: { summary: string; description: string };
    }[];
  }[];
}
interface Dashboard {
  uid: string;
  templating: { list: { name: string; allValue?: string }[] };
  panels: {
    id: number;
    title: string;
    gridPos: { x: number; y: number; w: number; h: number };
    targets: { refId: string; expr: string }[];
  }[];
}

describe("alerts", async () => {
  const { groups } = parse(await readFile(join(FILES, "alerts.yaml"), "utf8")) as Rules;
  const rules = groups.flatMap((group) => group.rules);

  test.each(rules)("$alert asks for series that exist, and tells what to do", (rule) => {
    expect(problems(rule.expr)).toEqual([]);
    expect(["critical", "warning"]).toContain(rule.labels.severity);
    expect(rule.annotations.summary).toMatch(/\.$/);
    expect(rule.annotations.description.length).toBeGreaterThan(40);
    const mentioned = rule.annotations.description.match(/\bcarillon_[a-z_]+/g) ?? [];
    expect(mentioned.filter((name) => !series.has(name))).toEqual([]);
  });

  test.each(rules)("$alert of one installation is not hidden by another's health", ({ expr }) => {
    expect(expr).toMatch(/\bby \(namespace\b/);
  });

  test.each([
    { alert: "CarillonRunsMissed", counter: "carillon_runs_missed_total" },
    { alert: "CarillonRunsInterrupted", counter: "carillon_runs_reaped_total" },
  ])(
    "$alert hears of what a counter begins with: increase() sees nothing of it",
    ({ alert, counter }) => {
      const { expr } = rules.find((rule) => rule.alert === alert) ?? {};
      expect(expr).toContain(`unless last_over_time(${counter}[1d] offset 15m)`);
    },
  );

  test("failing emails are compared with those that went to a server, not with those turned away", () => {
    const { help = "" } = descriptions.find(({ name }) => name === "carillon_emails_total") ?? {};
    const [, outcomes = ""] = /outcome \((.+)\)/.exec(help) ?? [];
    // A new outcome must be added here deliberately.
    expect(outcomes.split(", ").map((outcome) => outcome.replace(/:.*/, ""))).toEqual([
      "sent",
      "failed",
      "queue_full",
      "unconfigured",
    ]);
    const expr = rules.find(({ alert }) => alert === "CarillonEmailsFailing")?.expr ?? "";
    const [failed, all] = expr.split(" / ");
    expect(failed).toContain('carillon_emails_total{outcome="failed"}');
    expect(all).toContain('carillon_emails_total{outcome=~"sent|failed"}');
  });

  test("failing runs are those that failed, not those that somebody ended on purpose", () => {
    const { help = "" } = descriptions.find(({ name }) => name === "carillon_runs_total") ?? {};
    const outcomes = /outcome \((.+)\)/.exec(help)?.[1]?.split(", ") ?? [];
    const expr = rules.find(({ alert }) => alert === "CarillonRunsFailing")?.expr ?? "";
    const [, matcher = ""] = /outcome=~"([^"]+)"/.exec(expr) ?? [];
    // A new outcome must be added here deliberately.
    expect(outcomes.filter((each) => !matcher.split("|").includes(each))).toEqual([
      "delivered",
      "gone",
      "replaced",
      "deleted",
    ]);
    expect(matcher.split("|").filter((each) => !outcomes.includes(each))).toEqual([]);
  });

  test("have a first look each in docs/operations.md", async () => {
    const page = await readFile(join(FILES, "../../../docs/operations.md"), "utf8");
    const looks = [...page.matchAll(/^\| (Carillon\w+)/gm)].map(([, alert]) => alert);
    expect(new Set(looks)).toEqual(new Set(rules.map(({ alert }) => alert)));
  });
});

describe("the Grafana dashboard", async () => {
  const dashboard = JSON.parse(
    await readFile(join(FILES, "grafana-dashboard.json"), "utf8"),
  ) as Dashboard;

  test.each(dashboard.panels)("$title asks for series that exist", (panel) => {
    expect(panel.targets.length).toBeGreaterThan(0);
    for (const { expr } of panel.targets) expect(problems(expr)).toEqual([]);
  });

  test.each(dashboard.panels)(
    "$title shows the installations of the chosen namespaces",
    (panel) => {
      for (const { expr } of panel.targets)
        for (const [selector] of expr.matchAll(/\bcarillon_[a-z_]+(?:\{[^}]*\})?/g))
          expect(selector).toContain('namespace=~"$namespace"');
      const chosen = dashboard.templating.list.find(({ name }) => name === "namespace");
      // Includes processes that are scraped without that label.
      expect(chosen?.allValue).toBe(".*");
    },
  );

  test("its panels have ids of their own and do not lie on each other", () => {
    const { panels } = dashboard;
    expect(new Set(panels.map((panel) => panel.id)).size).toBe(panels.length);
    for (const a of panels) {
      expect(a.gridPos.x + a.gridPos.w).toBeLessThanOrEqual(24);
      for (const b of panels) {
        if (a === b) continue;
        const apart =
          a.gridPos.x + a.gridPos.w <= b.gridPos.x ||
          b.gridPos.x + b.gridPos.w <= a.gridPos.x ||
          a.gridPos.y + a.gridPos.h <= b.gridPos.y ||
          b.gridPos.y + b.gridPos.h <= a.gridPos.y;
        if (!apart) throw new Error(`${a.title} lies on ${b.title}`);
      }
    }
  });
});
