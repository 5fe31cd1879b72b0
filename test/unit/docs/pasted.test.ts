import { glob, readFile } from "node:fs/promises";
import { expect, test } from "vitest";

test("what is pasted has no comments: at zsh's prompt they are arguments, and `;` in them begins a command", async () => {
  const found: string[] = [];
  for await (const file of glob(["*.md", "docs/**/*.md"])) {
    const text = await readFile(file, "utf8");
    for (const [, block = ""] of text.matchAll(/^```sh\n(.*?)^```/gms))
      for (const line of block.split("\n"))
        if (/(?:^|\s)#/.test(line)) found.push(`${file}: ${line}`);
  }
  expect(found).toEqual([]);
});
