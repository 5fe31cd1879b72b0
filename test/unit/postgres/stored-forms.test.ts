import { expect, test } from "vitest";
import { derivedJobId } from "../../../src/gateway/job-id.ts";
import { hashOf } from "../../../src/postgres/bearer-token.ts";
import { parseKeyRing, sealContext } from "../../../src/postgres/key-ring.ts";

/**
 * Written by the first release. Whoever changes one of these forms must go on reading what is stored in it, in a release
 * before the one that writes the new form: releases run side by side, and a rollback brings the older one back.
 */
const ring = parseKeyRing(`k1:${Buffer.alloc(32, 1).toString("base64")}`);

test("a sealed secret opens", () => {
  const place = sealContext({ table: "smtp_settings", column: "password", account: "a", row: "r" });
  const sealed = "k1:eRq/N5tZVPMJ4G5CRTGmEsq5Km4Eheg6mGTwoHv/bMRCHlDdQw==";
  expect(ring.decrypt(sealed, place)).toBe("pässword");
});

test("the key of passcodes is derived as before", () => {
  const [key] = ring.derive("one-time passcodes");
  expect(key?.toString("base64")).toBe("WY2kmWgLYNWmjouEdYZLFEKFNyGN7K9ZnY1uEMUTkuo=");
});

test("API keys, sessions and invitations are found by the hash of their token", () => {
  expect(hashOf("token").toString("hex")).toBe(
    "3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0",
  );
});

test("an Idempotency-Key finds the job that it made", () => {
  expect(derivedJobId("a", "k")).toBe("job-25ccb3f8f3f79e76266f3ff574adc768");
});
