import { glob, readFile } from "node:fs/promises";

/** All pages in Markdown. */
export const pages = await Promise.all(
  (await Array.fromAsync(glob(["*.md", "docs/**/*.md", "test/**/*.md"]))).map(async (file) => ({
    file,
    text: await readFile(file, "utf8"),
  })),
);

/** The blocks of a page that readers paste into a shell. */
export function shellBlocks(text: string): string[] {
  return [...text.matchAll(/^```sh\n(.*?)^```/gms)].map(([, block = ""]) => block);
}
