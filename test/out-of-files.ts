import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Source of `useUpFiles`, which opens files until no more can be opened. */
const USE_UP = `
import { openSync } from "node:fs";
function useUpFiles() {
  for (;;) {
    try {
      openSync("/dev/null");
    } catch (error) {
      if (error.code !== "EMFILE") throw error;
      return;
    }
  }
}
`;

/**
 * Runs `code`, a JavaScript module that imports from `./src/…`, and calls `useUpFiles()` when it has what it needs.
 * It runs in a process of its own, because a process runs out of files as a whole. Returns what it wrote to standard
 * output.
 */
export async function outOfFiles(code: string): Promise<string> {
  const limited = `ulimit -n 64 && exec "$0" --input-type=module --eval "$1"`;
  const { stdout } = await run("sh", ["-c", limited, process.execPath, `${USE_UP}${code}`], {
    cwd: join(import.meta.dirname, ".."),
  });
  return stdout.trim();
}
