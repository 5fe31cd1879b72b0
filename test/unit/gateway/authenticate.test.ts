import { expect, test } from "vitest";
import { authenticate, UNAUTHORIZED } from "../../../src/gateway/authenticate.ts";

const CALLER = { keyId: "k", account: "a", smtpRevision: "r" };
const apiKeys = { authenticate: async (raw: string) => (raw === "key" ? CALLER : undefined) };

test("a key that is there is its account's", async () => {
  expect(await authenticate(apiKeys, "key")).toBe(CALLER);
});

test.each(["", "another"])("a key that is not there hears one text: %j", async (header) => {
  await expect(authenticate(apiKeys, header)).rejects.toThrow(UNAUTHORIZED);
});
