import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { holdFileLock, whereabouts, type HeldFileLock } from "../../../src/standalone/file-lock.ts";
import { until } from "../../until.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "carillon-lock-"));
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function hold(path: string): Promise<HeldFileLock> {
  const lock = await holdFileLock(path);
  if (lock.kind !== "held") throw new Error(`the lock is ${lock.kind}`);
  return lock;
}

describe.skipIf(process.platform !== "linux")("a lock on a file", () => {
  test("keeps a second one out, and says who has it", async () => {
    const path = join(directory, "two");
    const first = await hold(path);
    expect(await holdFileLock(path)).toMatchObject({
      kind: "taken",
      by: { pid: process.pid, place: whereabouts() },
    });
    first.release();
    (await hold(path)).release();
  });

  test("of many at the same time, one has it", async () => {
    const path = join(directory, "many");
    const locks = await Promise.all(Array.from({ length: 8 }, () => holdFileLock(path)));
    const held = locks.filter((lock) => lock.kind === "held");
    expect(held).toHaveLength(1);
    held[0]?.release();
  });

  test("lives on in a child that inherited it, and dies with it", async () => {
    const path = join(directory, "inherited");
    const lock = await hold(path);
    const child = spawn("sleep", ["60"], { stdio: ["ignore", "ignore", "ignore", lock.fd] });
    await once(child, "spawn");
    lock.release();
    expect((await holdFileLock(path)).kind).toBe("taken");
    child.kill("SIGKILL");
    (
      await until("the lock is free", async () => {
        const again = await holdFileLock(path);
        return again.kind === "held" && again;
      })
    ).release();
  });

  test("dies with a holder that was killed", async () => {
    const path = join(directory, "killed");
    const source = new URL("../../../src/standalone/file-lock.ts", import.meta.url).href;
    const script = `
      import { holdFileLock } from ${JSON.stringify(source)};
      process.stdout.write((await holdFileLock(${JSON.stringify(path)})).kind);
      setInterval(() => undefined, 1_000);`;
    const holder = spawn(process.execPath, ["--input-type=module-typescript", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    expect(String((await once(holder.stdout, "data"))[0])).toBe("held");
    expect(await holdFileLock(path)).toMatchObject({ kind: "taken", by: { pid: holder.pid } });
    holder.kill("SIGKILL");
    await once(holder, "exit");
    (await hold(path)).release();
  });

  test("cannot be had without the flock program, which is said", async () => {
    const path = process.env["PATH"];
    process.env["PATH"] = directory;
    try {
      const lock = await holdFileLock(join(directory, "without"));
      expect(lock).toMatchObject({
        kind: "impossible",
        why: expect.stringMatching(/flock.*ENOENT/),
      });
    } finally {
      process.env["PATH"] = path;
    }
  });
});
