import { expect, test } from "vitest";
import { pages, shellBlocks } from "./pages.ts";

test("what is pasted has no comments: at zsh's prompt they are arguments, and `;` in them begins a command", () => {
  const found: string[] = [];
  for (const { file, text } of pages)
    for (const block of shellBlocks(text))
      for (const line of block.split("\n"))
        if (/(?:^|\s)#/.test(line)) found.push(`${file}: ${line}`);
  expect(found).toEqual([]);
});
