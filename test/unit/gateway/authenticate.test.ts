import { expect, test } from "vitest";
import { authenticate, UNAUTHORIZED } from "../../../src/gateway/authenticate.ts";

const KEY = `svc_live_${"a".repeat(27)}`;
const CALLER = { keyId: "k", account: "a", smtpRevision: "r" };
const asked: string[] = [];
const apiKeys = {
  authenticate: async (raw: string) => {
    asked.push(raw);
    return raw === KEY ? CALLER : undefined;
  },
};

test("a key that is there is its account's", async () => {
  expect(await authenticate(apiKeys, KEY)).toBe(CALLER);
});

test("a key that is not there, and what cannot be one, hear the same; the latter is not looked up", async () => {
  const missing = `svc_live_${"b".repeat(27)}`;
  const none = ["", `Bearer ${KEY}`, ` ${KEY}`, `${KEY}\n`, `${KEY}é`, "svc_live_a", KEY.repeat(9)];
  asked.length = 0;
  for (const header of [missing, ...none])
    await expect(authenticate(apiKeys, header)).rejects.toThrow(UNAUTHORIZED);
  expect(asked).toEqual([missing]);
});
