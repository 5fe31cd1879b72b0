import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { readText } from "../../../cmd/standard-input.ts";
import { UsageError } from "../../../src/admin/command.ts";

const piped = (...chunks: (string | readonly number[])[]) =>
  readText(
    Readable.from(
      chunks.map((chunk) =>
        typeof chunk === "string" ? Buffer.from(chunk) : Buffer.from([...chunk]),
      ),
    ),
  );

test("text comes as it is, also in pieces", async () => {
  expect(await piped("correct ", "horse\n")).toBe("correct horse\n");
  expect(await piped([0xc3], [0xa4])).toBe("ä");
  expect(await piped()).toBe("");
});

test.each([
  { what: "Latin-1", chunks: [[0x70, 0xe4, 0x73, 0x73]], says: "not UTF-8" },
  { what: "UTF-16 with its mark", chunks: [[0xff, 0xfe, 0x70, 0x00]], says: "not UTF-8" },
  { what: "a whole file", chunks: ["a".repeat(4_096), "a"], says: "more than a password" },
])("$what is no password", async ({ chunks, says }) => {
  const reading = piped(...chunks);
  await expect(reading).rejects.toThrow(UsageError);
  await expect(reading).rejects.toThrow(says);
});
