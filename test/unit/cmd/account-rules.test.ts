import { expect, test } from "vitest";
import { createAccountRules } from "../../../cmd/account-rules.ts";

const rulesOf = (
  allowedDestinations: (account: string) => Promise<string[]>,
  monotonic = () => 0,
) => createAccountRules({ accounts: { allowedDestinations }, monotonic });

test("a herd asks once, each account for its own", async () => {
  const asked: string[] = [];
  const rules = rulesOf(async (account) => {
    asked.push(account);
    return account === "a" ? ["10.0.0.0/8", "192.0.2.1/32:8080"] : [];
  });
  const of = await Promise.all(["a", "a", "b", "a"].map((account) => rules(account)));
  expect(asked).toEqual(["a", "b"]);
  expect(of.map((each) => each.allows("10.1.2.3", 443))).toEqual([true, true, false, true]);
  expect(of.map((each) => each.allows("192.0.2.1", 8080))).toEqual([true, true, false, true]);
  expect(of.some((each) => each.allows("192.0.2.1", 443))).toBe(false);
});

test("a failure is told to whoever asked, and not remembered", async () => {
  let away = true;
  const rules = rulesOf(async () => {
    if (away) throw new Error("away");
    return ["10.0.0.0/8"];
  });
  await expect(rules("a")).rejects.toThrow("away");
  away = false;
  expect((await rules("a")).allows("10.1.2.3", 443)).toBe(true);
});

test("a rule that is taken back counts for two seconds more", async () => {
  let given = ["10.0.0.0/8"];
  let now = 1;
  const rules = rulesOf(
    async () => given,
    () => now,
  );
  const allows = async () => (await rules("a")).allows("10.1.2.3", 443);
  expect(await allows()).toBe(true);
  given = [];
  now = 2_001;
  expect(await allows()).toBe(true);
  now = 2_002;
  expect(await allows()).toBe(false);
});
