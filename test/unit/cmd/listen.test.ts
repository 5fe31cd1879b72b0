import { expect, test } from "vitest";
import { baseUrl } from "../../../cmd/listen.ts";

test.each([
  { host: "127.0.0.1", url: "http://127.0.0.1:8080" },
  { host: "0.0.0.0", url: "http://localhost:8080" },
  { host: "::", url: "http://localhost:8080" },
  { host: "::1", url: "http://[::1]:8080" },
  { host: "carillon.example", url: "http://carillon.example:8080" },
])("what listens on $host is reached at $url", ({ host, url }) => {
  expect(baseUrl(host, 8080)).toBe(url);
});
