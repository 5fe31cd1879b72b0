import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { isRunning, waitForExit } from "../../../src/standalone/postmaster.ts";

test.runIf(process.platform === "linux")(
  "a process that has ended and that nobody collects does not run",
  async () => {
    // Its parent becomes a program that knows of no children.
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
