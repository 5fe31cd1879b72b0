import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startStandalone, type Standalone } from "../test/e2e/program.ts";
import { endedWithUs } from "./ended-with-us.ts";

/** For programs that are asked as fast as they can answer. */
export const WITHOUT_RATE_LIMIT = {
  CARILLON_RATE_LIMIT: "1000000",
  CARILLON_RATE_LIMIT_BURST: "1000000",
};

/** A new standalone without a rate limit, and what its first account needs. */
export interface OwnProgram {
  program: Standalone;
  url: string;
  key: string;
  dataDir: string;
  databaseUrl: string;
}

/** Runs `work` beside a program that nobody else uses. */
export async function onOwnProgram<T>(work: (own: OwnProgram) => Promise<T>): Promise<T> {
  const dataDir = await mkdtemp(join(tmpdir(), "carillon-bench-"));
  const program = await startStandalone(dataDir, WITHOUT_RATE_LIMIT);
  return endedWithUs(
    async () => {
      program.signal("SIGTERM");
      await program.finished;
      await rm(dataDir, { recursive: true, force: true });
    },
    async () =>
      work({
        program,
        url: program.url,
        key: program.printed("API key") ?? "",
        dataDir,
        databaseUrl: (await readFile(join(dataDir, "database-url"), "utf8")).trim(),
      }),
  );
}
