import { expect, test } from "vitest";
import {
  hashPassword,
  passwordMatches,
  UNKNOWN_USER_HASH,
} from "../../../src/postgres/password-hash.ts";

test("a password matches its own hash only, in every way of writing its characters", async () => {
  const hash = await hashPassword("pa\u0308ssword");
  expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  expect(await passwordMatches("p\u00e4ssword", hash)).toBe(true);
  expect(await passwordMatches("password", hash)).toBe(false);
  expect(await passwordMatches("", hash)).toBe(false);
  expect(await hashPassword("pa\u0308ssword")).not.toBe(hash);
});

test("nothing matches the hash that stands in for a user who is not there", async () => {
  expect(await passwordMatches("", UNKNOWN_USER_HASH)).toBe(false);
});

test("a vector of the argon2 reference implementation", async () => {
  // From test.c of the reference implementation: version 0x13, t=2, m=2^16, p=1, "password", "somesalt".
  const hash =
    "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
  expect(await passwordMatches("password", hash)).toBe(true);
});

test("a hash of another kind is an error, not a refusal", async () => {
  await expect(passwordMatches("x", "$2b$10$abc")).rejects.toThrow(/PHC/);
});
