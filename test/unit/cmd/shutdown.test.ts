import { expect, test } from "vitest";
import { createShutdown } from "../../../cmd/shutdown.ts";

test("what was started last ends first, one after the other, and a failure keeps no other", async () => {
  const said: string[] = [];
  const shutdown = createShutdown((name, error) => said.push(`${name}: ${String(error)}`));
  const gate = Promise.withResolvers<void>();
  shutdown.add("database", () => {
    said.push("database");
  });
  shutdown.add("metrics", () => Promise.reject(new Error("no")));
  shutdown.add("job store", () => {
    throw new Error("neither");
  });
  shutdown.add("gateway", async () => {
    await gate.promise;
    said.push("gateway");
  });
  const first = shutdown.run();
  const second = shutdown.run();
  await new Promise(setImmediate);
  expect(said).toEqual([]);
  gate.resolve();
  await Promise.all([first, second]);
  const all = ["gateway", "job store: Error: neither", "metrics: Error: no", "database"];
  expect(said).toEqual(all);
  await shutdown.run();
  expect(said).toEqual(all);
});
