import { expect, test } from "vitest";
import { PasswordsBusy } from "../../../src/domain/ports/accounts.ts";
import { createPasswordWork } from "../../../src/postgres/password-work.ts";
import { collectGarbage } from "../../collect-garbage.ts";

/** Work that ends when the test says so. */
function tasks() {
  const running: { name: string; end: () => void }[] = [];
  const task = (name: string) => () =>
    new Promise<string>((resolve) => {
      running.push({ name, end: () => resolve(name) });
    });
  return { task, running, names: () => running.map(({ name }) => name) };
}

test("two at a time, the others in the order in which they came, and no more than may wait", async () => {
  const work = createPasswordWork({ atOnce: 2, waiting: 1, ofOneParty: 2 });
  const { task, running, names } = tasks();
  const asked = ["a", "b", "c"].map((name) => work.admit(name, () => work.hash(task(name))));
  await expect.poll(names).toEqual(["a", "b"]);
  await expect(work.admit("d", () => work.hash(task("d")))).rejects.toThrow(PasswordsBusy);
  running[0]?.end();
  expect(await asked[0]).toBe("a");
  await expect.poll(names).toEqual(["a", "b", "c"]);
  // One has ended, so there is room again, behind the others.
  const later = work.admit("e", () => work.hash(task("e")));
  running[1]?.end();
  await expect.poll(names).toEqual(["a", "b", "c", "e"]);
  for (const { end } of running) end();
  expect(await Promise.all([...asked, later])).toEqual(["a", "b", "c", "e"]);
});

test("one party has a few places, and the others keep theirs", async () => {
  const work = createPasswordWork({ atOnce: 1, waiting: 3, ofOneParty: 2 });
  const { task, running, names } = tasks();
  const admit = (party: string, name: string) => work.admit(party, () => work.hash(task(name)));
  const one = admit("client", "one");
  const asked = [one, admit("client", "two")];
  await expect(admit("client", "three")).rejects.toThrow(PasswordsBusy);
  asked.push(admit("another", "four"));
  await expect.poll(names).toEqual(["one"]);
  running[0]?.end();
  await one;
  // Exactly one place of this client is free again.
  asked.push(admit("client", "five"));
  await expect(admit("client", "six")).rejects.toThrow(PasswordsBusy);
  for (let turn = 1; turn < 4; turn += 1) {
    await expect.poll(names).toHaveLength(turn + 1);
    running[turn]?.end();
  }
  expect(await Promise.all(asked)).toEqual(["one", "two", "four", "five"]);
});

test("nothing is kept of a party that has gone", async () => {
  const work = createPasswordWork({ atOnce: 1, waiting: 0, ofOneParty: 1 });
  const visit = (first: number) =>
    Array.from({ length: 100_000 }, (_, n) => `party ${first + n}`).reduce(
      (before, party) => before.then(() => work.admit(party, async () => undefined)),
      Promise.resolve<undefined>(undefined),
    );
  // What is created only once.
  await visit(0);
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  await visit(100_000);
  collectGarbage();
  // Bytes for each client; one that is kept would take 60.
  expect((process.memoryUsage().heapUsed - before) / 100_000).toBeLessThan(20);
});

const failing = async () => {
  throw new Error("no hash today");
};

test("what fails makes room too", async () => {
  const work = createPasswordWork({ atOnce: 1, waiting: 0, ofOneParty: 1 });
  for (let round = 0; round < 3; round += 1)
    await expect(work.admit("a", () => work.hash(failing))).rejects.toThrow("no hash today");
  await expect(work.admit("a", failing)).rejects.toThrow("no hash today");
  expect(await work.admit("a", () => work.hash(async () => "done"))).toBe("done");
});
