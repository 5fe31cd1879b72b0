import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readlinkSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  holdFileLock,
  lastHolder,
  whereabouts,
  type HeldFileLock,
} from "../../../src/standalone/file-lock.ts";
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

/** The file descriptors of this process for this file. */
function descriptorsOf(path: string): string[] {
  return readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === path;
    } catch {
      return false;
    }
  });
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
    // A second release must not close a descriptor that may be another file's by now.
    first.release();
    expect(descriptorsOf(path)).toEqual([]);
    const next = await hold(path);
    expect(await holdFileLock(path)).toMatchObject({ kind: "taken", by: { pid: process.pid } });
    expect(descriptorsOf(path)).toEqual([String(next.fd)]);
    next.release();
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

  test.each(["", "nonsense", "{}", '{"pid":"7","host":"h","place":"p"}', '{"pid":7,"host":"h"}'])(
    "of whom the file says %j is not known",
    async (said) => {
      const path = join(directory, "said");
      await writeFile(path, said);
      expect(lastHolder(path)).toBeUndefined();
    },
  );

  test.each([
    { what: "without the flock program", program: undefined, why: /flock.*ENOENT/ },
    {
      what: "where the file system does not lock",
      program: "echo 'flock: 3: Bad file descriptor' >&2; exit 1",
      why: /Bad file/,
    },
  ])("cannot be had $what, which is said", async ({ program, why }) => {
    const path = process.env["PATH"];
    const bin = await mkdtemp(join(directory, "bin-"));
    if (program !== undefined)
      await writeFile(join(bin, "flock"), `#!/bin/sh\n${program}\n`, { mode: 0o755 });
    process.env["PATH"] = bin;
    try {
      const lock = await holdFileLock(join(bin, "without"));
      expect(lock).toMatchObject({ kind: "impossible", why: expect.stringMatching(why) });
    } finally {
      process.env["PATH"] = path;
    }
  });
});
