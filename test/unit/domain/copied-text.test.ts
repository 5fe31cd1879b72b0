import { expect, test } from "vitest";
import { copiedText } from "../../../src/domain/copied-text.ts";

test.each(["", "plain", "é and ÿ", "beyond: €", "half a pair: \ud800", "\u0000"])(
  "a copy says the same: %j",
  (text) => {
    expect(copiedText(`${text}${text}`.slice(text.length))).toBe(text);
  },
);
