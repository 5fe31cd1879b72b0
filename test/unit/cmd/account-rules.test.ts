import { expect, test } from "vitest";
import { createAccountRules } from "../../../cmd/account-rules.ts";

test("a herd asks once, each account for its own", async () => {
  const asked: string[] = [];
  const rules = createAccountRules({
    allowedDestinations: async (account) => {
      asked.push(account);
      return account === "a" ? ["10.0.0.0/8", "192.0.2.1/32:8080"] : [];
    },
  });
  const of = await Promise.all(["a", "a", "b", "a"].map((account) => rules(account)));
  expect(asked).toEqual(["a", "b"]);
  expect(of.map((each) => each.allows("10.1.2.3", 443))).toEqual([true, true, false, true]);
  expect(of.map((each) => each.allows("192.0.2.1", 8080))).toEqual([true, true, false, true]);
  expect(of.some((each) => each.allows("192.0.2.1", 443))).toBe(false);
});

test("a failure is told to whoever asked, and not remembered", async () => {
  let away = true;
  const rules = createAccountRules({
    allowedDestinations: async () => {
      if (away) throw new Error("away");
      return ["10.0.0.0/8"];
    },
  });
  await expect(rules("a")).rejects.toThrow("away");
  away = false;
  expect((await rules("a")).allows("10.1.2.3", 443)).toBe(true);
});
