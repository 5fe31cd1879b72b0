import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { findSurvivor } from "../../../src/standalone/surviving-postgres.ts";

test.runIf(process.platform === "linux")(
  "without a lock that keeps other containers off the data nothing is started",
  async () => {
    const directory = await mkdtemp(join(tmpdir(), "carillon-survivor-"));
    vi.stubEnv("PATH", directory);
    onTestFinished(async () => {
      vi.unstubAllEnvs();
      await rm(directory, { recursive: true });
    });
    const found = findSurvivor({
      lockFile: join(directory, "postgres.lock"),
      data: directory,
      urlAt: () => "",
      pgCtl: "",
      progress: () => undefined,
    });
    await expect(found).rejects.toThrow("install flock (util-linux)");
  },
);
