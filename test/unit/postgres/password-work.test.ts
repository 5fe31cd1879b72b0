import { expect, test } from "vitest";
import { PasswordsBusy } from "../../../src/domain/ports/accounts.ts";
import { createPasswordWork } from "../../../src/postgres/password-work.ts";

/** Work that ends when it is told to. */
function tasks() {
  const running: { name: string; end: () => void }[] = [];
  const task = (name: string) => () =>
    new Promise<string>((resolve) => {
      running.push({ name, end: () => resolve(name) });
    });
  return { task, running, names: () => running.map(({ name }) => name) };
}

test("two at a time, the others in the order in which they came, and no more than may wait", async () => {
  const work = createPasswordWork({ atOnce: 2, waiting: 1 });
  const { task, running, names } = tasks();
  const asked = ["a", "b", "c"].map((name) => work.admit(() => work.hash(task(name))));
  await expect.poll(names).toEqual(["a", "b"]);
  await expect(work.admit(() => work.hash(task("d")))).rejects.toThrow(PasswordsBusy);
  running[0]?.end();
  expect(await asked[0]).toBe("a");
  await expect.poll(names).toEqual(["a", "b", "c"]);
  // Somebody has gone: there is room again, behind those who are here.
  const later = work.admit(() => work.hash(task("e")));
  running[1]?.end();
  await expect.poll(names).toEqual(["a", "b", "c", "e"]);
  for (const { end } of running) end();
  expect(await Promise.all([...asked, later])).toEqual(["a", "b", "c", "e"]);
});

const failing = async () => {
  throw new Error("no hash today");
};

test("what fails makes room too", async () => {
  const work = createPasswordWork({ atOnce: 1, waiting: 0 });
  for (let round = 0; round < 3; round += 1)
    await expect(work.admit(() => work.hash(failing))).rejects.toThrow("no hash today");
  await expect(work.admit(failing)).rejects.toThrow("no hash today");
  expect(await work.admit(() => work.hash(async () => "done"))).toBe("done");
});
