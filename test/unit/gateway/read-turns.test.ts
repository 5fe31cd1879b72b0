import { expect, test } from "vitest";
import { timers } from "../../../cmd/system.ts";
import { createReadTurns } from "../../../src/gateway/read-turns.ts";

test("accounts take turns, and a read that fails gives its own back", async () => {
  const inTurn = createReadTurns({ atOnce: 1, timers });
  const order: string[] = [];
  const read = (name: string) =>
    inTurn(name.slice(0, 1), async () => {
      order.push(name);
      await Promise.resolve();
      throw new Error(name);
    });
  const all = await Promise.allSettled(["a1", "a2", "a3", "b1"].map(read));
  expect(order).toEqual(["a1", "a2", "b1", "a3"]);
  expect(all.map(({ status }) => status)).toEqual(all.map(() => "rejected"));
});
