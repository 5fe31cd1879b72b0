import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

const root = new URL("../../../", import.meta.url);
const textOf = (path: string) => readFileSync(new URL(path, root), "utf8");

const FOLDERS: Record<string, string> = {
  decide: "test/unit/domain/",
  "scheduled-job": "test/unit/kubernetes/",
};

/** Whether a test or a group of tests in the file has a title that begins so; `$` and what follows may be anything. */
function isIn(file: string, name: string): boolean {
  const text = textOf(`${FOLDERS[file] ?? "test/integration/postgres/"}${file}.test.ts`);
  return [...text.matchAll(/(["`])(.*?)\1/g)].some(([, , title = ""]) => {
    const [begin = "", filledIn] = title.split("$");
    return title.startsWith(name) || (filledIn && begin.length > 8 && name.startsWith(begin));
  });
}

/** Names in the column of tests: "`file`: describe > test; another test (all of it)". */
function namesIn(cell: string): { file: string; name: string }[] {
  let file = "";
  return cell.split(";").flatMap((entry) => {
    const [, given, names = ""] = /^\s*(?:`(.*)`: )?(.*?)(?: \(all of it\))?\s*$/.exec(entry) ?? [];
    file = given ?? file;
    return names.split(" > ").map((name) => ({ file, name }));
  });
}

describe("the states of a one-time job", () => {
  const rows = textOf("docs/decisions/0023-states-of-a-one-time-job.md")
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .map((line) => line.split("|").map((cell) => cell.trim()));
  const proved = rows.filter(
    ([, row = "", , , tests = "", end]) =>
      end === "" && row !== "Row" && !row.startsWith("-") && tests.includes("`:"),
  );

  test("each row has its name", () => {
    const names = proved.map(([, row]) => row);
    expect(names.length).toBeGreaterThan(40);
    expect(new Set(names).size).toBe(names.length);
  });

  test.each(proved.map(([, row = "", , , tests = ""]) => ({ row, tests })))(
    "$row: the tests that are named exist",
    ({ tests }) => {
      const missing = namesIn(tests).filter(({ file, name }) => !isIn(file, name));
      expect(missing).toEqual([]);
    },
  );

  test.each([
    "src/domain/decide.ts",
    "src/domain/timing.ts",
    "src/postgres/already-run.ts",
    "src/postgres/cancel-account-runs.ts",
    "src/postgres/close-runs.ts",
    "src/postgres/drop-runs.ts",
    "src/postgres/hide-last-executions.ts",
    "src/postgres/lift-halt.ts",
    "src/postgres/start-runs.ts",
    "src/postgres/store-revisions.ts",
  ])("%s names rows, and only such as exist", (file) => {
    const text = textOf(file).replaceAll(/\n\s*(?:\*|\/\/) /g, " ");
    const named = [...text.matchAll(/docs\/decisions\/0023((?:(?:,| and|) "[^"]+")*)/g)].flatMap(
      ([, list = ""]) => [...list.matchAll(/"([^"]+)"/g)].map(([, name]) => name),
    );
    const rows = proved.map(([, row]) => row);
    expect(named.filter((name) => !rows.includes(name))).toEqual([]);
    expect(named).not.toEqual([]);
  });
});
