import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";

const source = await readFile(
  createRequire(import.meta.url).resolve("axe-core/axe.min.js"),
  "utf8",
);

interface AxeResult {
  violations: { id: string; help: string; nodes: { target: unknown; html: string }[] }[];
}

const EVERYTHING = {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
};
/** The rules whose outcome depends on the colour scheme. */
const COLOURS = { runOnly: { type: "rule", values: ["color-contrast"] } };

/** What axe-core finds wrong by WCAG 2.2 AA with the page as it is, one line each. */
export async function violations(
  page: Page,
  look: "everything" | "colours" = "everything",
): Promise<string[]> {
  const options = look === "everything" ? EVERYTHING : COLOURS;
  // Evaluated through the debugger, because the page's policy forbids foreign scripts.
  await page.evaluate(source);
  const result = (await page.evaluate(
    `axe.run(document, ${JSON.stringify(options)})`,
  )) as AxeResult;
  return result.violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html }) => `${id} (${help}): ${html.slice(0, 200)}`),
  );
}
