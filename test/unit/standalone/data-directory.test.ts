import { execFile } from "node:child_process";
import {
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rm,
  rmdir,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { openDataDirectory } from "../../../src/standalone/data-directory.ts";

let path: string;
beforeEach(async () => {
  const parent = await realpath(await mkdtemp(join(tmpdir(), "carillon-directory-")));
  path = join(parent, "data");
  onTestFinished(() => rm(parent, { recursive: true }));
});

test("is its owner's alone, and so are its files", async () => {
  const directory = await openDataDirectory(path);
  expect((await stat(path)).mode & 0o777).toBe(0o700);
  expect(await readdir(path)).toEqual(["carillon.lock"]);
  expect(await directory.read("state.json")).toBeUndefined();
  for (const text of ["one", "two"]) {
    await directory.write("state.json", text);
    expect(await directory.read("state.json")).toBe(text);
  }
  expect((await stat(join(path, "state.json"))).mode & 0o777).toBe(0o600);
  expect((await readdir(path)).toSorted()).toEqual(["carillon.lock", "state.json"]);
  await directory.remove("state.json");
  await directory.remove("state.json");
  expect(await directory.read("state.json")).toBeUndefined();
  await directory.release();
});

test("what cannot be written leaves nothing behind", async () => {
  const directory = await openDataDirectory(path);
  await mkdir(join(path, "state.json"));
  await expect(directory.write("state.json", "one")).rejects.toThrow("EISDIR");
  expect((await readdir(path)).toSorted()).toEqual(["carillon.lock", "state.json"]);
  await directory.release();
});

test.runIf(process.platform === "linux")(
  "a write that fails, as on a full disk, says which file it was to",
  async () => {
    const file = join(path, "state.json");
    const lock = join(path, "postgres.lock");
    await mkdir(path);
    const sources = new URL("../../../src/standalone/", import.meta.url).href;
    const program = `import { writeAtomically } from "${sources}data-directory.ts";
      import { holdFileLock } from "${sources}file-lock.ts";
      const say = (error) => console.log(error.message);
      await writeAtomically("${file}", "one").catch(say);
      await holdFileLock("${lock}").catch(say);`;
    // No file may grow: a full disk for this process alone.
    const { stdout } = await promisify(execFile)("sh", [
      "-c",
      'ulimit -f 0; exec "$0" --input-type=module --eval "$1"',
      process.execPath,
      program,
    ]);
    expect(stdout.trimEnd().split("\n")).toEqual([
      `EFBIG: file too large, write '${file}'`,
      `EFBIG: file too large, write '${lock}'`,
    ]);
    expect(await readdir(path)).toEqual(["postgres.lock"]);
  },
);

test("what is missing above it is made, and where nothing can be made that is said", async () => {
  await (await openDataDirectory(join(path, "of", "ours"))).release();
  expect((await stat(join(path, "of"))).mode & 0o777).toBe(0o700);
  await writeFile(join(path, "file"), "");
  // Its lock can be had, and nothing can be written besides.
  await mkdir(join(path, "obstructed", ".writable"), { recursive: true });
  for (const [place, code] of [
    [join(path, "file"), "ENOTDIR"],
    [join(path, "file", "below"), "ENOTDIR"],
    [join(path, "obstructed"), "EISDIR"],
    ["/proc/carillon/data", ""],
  ] as const)
    await expect(openDataDirectory(place)).rejects.toThrow(
      `the data directory ${place} cannot be written (${code}`,
    );
});

test("a second one hears who has it, until it is released", async () => {
  const directory = await openDataDirectory(path);
  const second = () => openDataDirectory(path);
  await expect(second()).rejects.toThrow(`another Carillon (process ${process.pid}) is running`);
  const lock = join(path, "carillon.lock");
  const holder = JSON.parse(await readFile(lock, "utf8")) as object;
  await writeFile(lock, JSON.stringify({ ...holder, host: "pod-1", place: "elsewhere" }));
  const who = `(process ${process.pid} of another container or machine, pod-1)`;
  await expect(second()).rejects.toThrow(who);
  await writeFile(lock, "");
  await expect(second()).rejects.toThrow("another Carillon is running");
  // Of two that start at once, one may be in the middle of its trial of the directory.
  await mkdir(join(path, ".writable"));
  await expect(second()).rejects.toThrow("another Carillon is running");
  await rmdir(join(path, ".writable"));
  await directory.release();
  await (await second()).release();
});

test("is the same one by each name that leads to it", async () => {
  const directory = await openDataDirectory(path);
  const link = `${path}-link`;
  await symlink(path, link);
  await expect(openDataDirectory(link)).rejects.toThrow(
    `is running on the data directory ${path}:`,
  );
  await directory.release();
});
