import { expect, test } from "vitest";
import { createEnding } from "../../../cmd/ending.ts";

test("what was started last ends first, one after the other, and a failure keeps no other", async () => {
  const said: string[] = [];
  const ending = createEnding((name, error) => said.push(`${name}: ${String(error)}`));
  const gate = Promise.withResolvers<void>();
  ending.add("database", () => {
    said.push("database");
  });
  ending.add("metrics", () => Promise.reject(new Error("no")));
  ending.add("job store", () => {
    throw new Error("neither");
  });
  ending.add("gateway", async () => {
    await gate.promise;
    said.push("gateway");
  });
  const first = ending.run();
  const second = ending.run();
  await new Promise(setImmediate);
  expect(said).toEqual([]);
  gate.resolve();
  await Promise.all([first, second]);
  const all = ["gateway", "job store: Error: neither", "metrics: Error: no", "database"];
  expect(said).toEqual(all);
  await ending.run();
  expect(said).toEqual(all);
});
