import { access, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { parseCommandLine } from "../../../src/admin/command-line.ts";
import { pages, shellBlocks } from "./pages.ts";

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** The anchors that GitHub gives the headings of a page. */
function anchors(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replace(/\s/g, "-"),
  );
}

test("a link leads to a file that is there, and to a heading of it", async () => {
  const dead: string[] = [];
  for (const { file, text } of pages)
    for (const [, target = ""] of text.matchAll(/\]\((?!https?:)([^)\s]+)\)/g)) {
      const [path = "", anchor] = target.split("#");
      const page = path === "" ? file : join(dirname(file), path);
      const there = await exists(page);
      const found = there && anchor !== undefined ? anchors(await readFile(page, "utf8")) : [];
      if (!there || (anchor !== undefined && !found.includes(anchor)))
        dead.push(`${file}: ${target}`);
    }
  expect(dead).toEqual([]);
});

test("a promise names tests that are there", async () => {
  const missing: string[] = [];
  for (const { file, text } of pages)
    for (const [, name = ""] of text.matchAll(
      /`(?:test\/)?((?:unit|integration|e2e)\/[\w/-]+)`/g,
    )) {
      const found = await Promise.all([exists(`test/${name}`), exists(`test/${name}.test.ts`)]);
      if (!found.includes(true)) missing.push(`${file}: ${name}`);
    }
  expect(missing).toEqual([]);
});

test("the admin commands that are pasted are understood", () => {
  const refused: string[] = [];
  let pasted = 0;
  for (const { file, text } of pages)
    for (const block of shellBlocks(text))
      for (const [, line = ""] of block
        .replaceAll(/\\\n\s*/g, "")
        .matchAll(/\bcarillon(?: --)? (admin [^<)\n]*)/g)) {
        pasted += 1;
        try {
          parseCommandLine(line.trim().split(/\s+/));
        } catch (error) {
          refused.push(`${file}: ${line}: ${String(error)}`);
        }
      }
  expect(refused).toEqual([]);
  expect(pasted).toBeGreaterThan(10);
});

test("an admin command that a text speaks of is one", () => {
  const unknown: string[] = [];
  for (const { file, text } of pages)
    for (const [, words = ""] of text.matchAll(/`carillon admin ([a-z-]+\s[a-z-]+)[^`]*`/g)) {
      const help = parseCommandLine(["admin", ...words.split(/\s/), "--help"]);
      const usage = `Usage: carillon admin ${words.replace(/\s/, " ")}`;
      if (help.kind !== "help" || !help.text.startsWith(usage)) unknown.push(`${file}: ${words}`);
    }
  expect(unknown).toEqual([]);
});
