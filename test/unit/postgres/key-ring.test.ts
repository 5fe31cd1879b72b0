import { describe, expect, test } from "vitest";
import { InvalidInput } from "../../../src/domain/findings.ts";
import {
  parseKeyRing,
  sealContext,
  sealedKeyId,
  UnknownKeyId,
} from "../../../src/postgres/key-ring.ts";

const key = (fill: number): string => Buffer.alloc(32, fill).toString("base64");
const place = { table: "t", column: "c", account: "a", row: "r" };
const here = sealContext(place);

describe("a key ring", () => {
  test("opens what it sealed, and seals the same text differently each time", () => {
    const ring = parseKeyRing(`k1:${key(1)}`);
    const sealed = ring.encrypt("pässword", here);
    expect(sealed).not.toContain("ssword");
    expect(ring.decrypt(sealed, here)).toBe("pässword");
    expect(ring.encrypt("pässword", here)).not.toBe(sealed);
    expect(ring.decrypt(ring.encrypt("", here), here)).toBe("");
  });

  test("seals with the first key and opens with every key", () => {
    const old = parseKeyRing(`k1:${key(1)}`).encrypt("secret", here);
    const ring = parseKeyRing(`k2:${key(2)},k1:${key(1)}`);
    expect(ring.keyIds).toEqual(["k2", "k1"]);
    expect(ring.decrypt(old, here)).toBe("secret");
    expect(sealedKeyId(ring.encrypt("x", here))).toBe("k2");
  });

  test.each([
    { moved: "to another account", to: { ...place, account: "b" } },
    { moved: "to another row", to: { ...place, row: "s" } },
    { moved: "to another column", to: { ...place, column: "d" } },
    { moved: "to another table", to: { ...place, table: "u" } },
  ])("does not open what was moved $moved", ({ to }) => {
    const ring = parseKeyRing(`k1:${key(1)}`);
    expect(() => ring.decrypt(ring.encrypt("x", here), sealContext(to))).toThrow(/does not open/);
  });

  test("does not open what was altered, cut short, or sealed by another key of the id", () => {
    const ring = parseKeyRing(`k1:${key(1)}`);
    const bytes = Buffer.from(ring.encrypt("secret", here).slice(3), "base64");
    for (let i = 0; i < bytes.length; i += 1) {
      const altered = Buffer.from(bytes);
      altered[i] = (altered[i] ?? 0) ^ 1;
      expect(() => ring.decrypt(`k1:${altered.toString("base64")}`, here)).toThrow(/does not open/);
    }
    expect(() => ring.decrypt("k1:AAAA", here)).toThrow(/too short/);
    const other = parseKeyRing(`k1:${key(9)}`);
    expect(() => other.decrypt(ring.encrypt("x", here), here)).toThrow(/"k1"/);
  });

  test("names the key id that it lacks", () => {
    const sealed = parseKeyRing(`k1:${key(1)}`).encrypt("x", here);
    const ring = parseKeyRing(`k2:${key(2)}`);
    expect(() => ring.decrypt(sealed, here)).toThrow(UnknownKeyId);
    expect(() => ring.decrypt(sealed, here)).toThrow(/"k1"/);
  });

  test("derives stable keys that differ by purpose and ring key, and are not the key", () => {
    const ring = parseKeyRing(`k2:${key(2)},k1:${key(1)}`);
    const otp = ring.derive("otp").map((k) => k.toString("base64"));
    expect(otp).toEqual(
      [
        ...parseKeyRing(`k2:${key(2)}`).derive("otp"),
        ...parseKeyRing(`k1:${key(1)}`).derive("otp"),
      ].map((k) => k.toString("base64")),
    );
    const all = new Set([
      ...otp,
      ...ring.derive("other").map((k) => k.toString("base64")),
      key(1),
      key(2),
    ]);
    expect(all.size).toBe(6);
  });

  test.each([
    { given: "", why: "nothing" },
    { given: "k1", why: "no key" },
    { given: `:${key(1)}`, why: "no id" },
    { given: `k 1:${key(1)}`, why: "a space in the id" },
    { given: `k1:${key(1)}:x`, why: "three parts" },
    { given: `k1:${key(1)},k1:${key(2)}`, why: "an id twice" },
    { given: `k1:${key(1)},`, why: "a comma at the end" },
    { given: `k1:${Buffer.alloc(31).toString("base64")}`, why: "31 bytes" },
    { given: `k1:${Buffer.alloc(33).toString("base64")}`, why: "33 bytes" },
    { given: `k1:!!${key(1)}`, why: "what is not base64" },
    { given: Buffer.alloc(16, 1).toString("hex"), why: "a key alone that could be an id" },
    { given: `${Buffer.alloc(16, 1).toString("hex")}:k1`, why: "a key before its id" },
  ])("refuses $why, without repeating the key", ({ given }) => {
    expect(() => parseKeyRing(given)).toThrow(InvalidInput);
    expect(() => parseKeyRing(given)).not.toThrow(/AQEBAQ|AAAAAA|010101/);
  });
});
