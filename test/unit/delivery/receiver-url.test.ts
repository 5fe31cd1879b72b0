import { expect, test } from "vitest";
import { receiverUrl } from "../../../src/delivery/receiver-url.ts";

test.each([
  ["https://api.example", "https://api.example", "api.example", "/"],
  ["https://api.example:443/hook", "https://api.example", "api.example", "/hook"],
  [
    "http://api.example:8080/a b?c=d&é#e",
    "http://api.example:8080",
    "api.example:8080",
    "/a%20b?c=d&%C3%A9",
  ],
  ["http://[::1]:80/?", "http://[::1]", "[::1]", "/"],
  ["http://BÜCHER.example/", "http://xn--bcher-kva.example", "xn--bcher-kva.example", "/"],
])("%s", (text, origin, host, path) => {
  const url = receiverUrl(text);
  expect(url).toEqual({ origin, host, path });
  expect(receiverUrl(text)).toBe(url);
});

test("what is no URL is refused each time", () => {
  expect(() => receiverUrl("api.example")).toThrow(TypeError);
  expect(() => receiverUrl("api.example")).toThrow(TypeError);
});
