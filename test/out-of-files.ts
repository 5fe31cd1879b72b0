import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** What `code` finds at its disposal: opens files until no more can be opened. */
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
 * Runs `code`, a module in JavaScript that calls `useUpFiles()` when it has what it needs, in a process of its own, since
 * files are a whole process' to run out of. It imports from `./src/…`. Resolves with what it wrote to standard output.
 */
export async function outOfFiles(code: string): Promise<string> {
  const limited = `ulimit -n 64 && exec "$0" --input-type=module --eval "$1"`;
  const { stdout } = await run("sh", ["-c", limited, process.execPath, `${USE_UP}${code}`], {
    cwd: join(import.meta.dirname, ".."),
  });
  return stdout.trim();
}
