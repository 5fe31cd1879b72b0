import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { isRunning, waitForExit } from "../../../src/standalone/postmaster.ts";

test.runIf(process.platform === "linux")(
  "a process that has ended and that nobody collects does not run",
  async () => {
    // Its parent becomes a program that does not know that it has children.
    const parent = spawn("sh", ["-c", "sleep 60 & echo $!; exec sleep 60"]);
    onTestFinished(() => {
      parent.kill();
    });
    const [line] = (await once(parent.stdout, "data")) as [Buffer];
    const pid = Number(line);
    expect(await isRunning(pid)).toBe(true);
    process.kill(pid);
    expect(await waitForExit(pid, 15_000)).toBe(true);
    expect(() => process.kill(pid, 0)).not.toThrow();
    expect(await isRunning(parent.pid ?? 0)).toBe(true);
  },
);

test.runIf(process.platform === "linux")(
  "a process runs on while this one has no file descriptor left to look",
  () => {
    const module = new URL("../../../src/standalone/postmaster.ts", import.meta.url).href;
    const program = `import { isRunning } from "${module}";
      import { openSync } from "node:fs";
      let full;
      while (full === undefined) {
        try {
          openSync("/dev/null");
        } catch (error) {
          full = error.code;
        }
      }
      console.log(full, await isRunning(process.ppid));`;
    const limited = ["-c", 'ulimit -n 64; exec "$@"', "sh"];
    const { stdout } = spawnSync(
      "sh",
      [...limited, process.execPath, "--input-type=module", "-e", program],
      { encoding: "utf8" },
    );
    expect(stdout).toBe("EMFILE true\n");
  },
);
