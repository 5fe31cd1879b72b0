import { expect, test } from "vitest";
import { smtpHostProblem } from "../../../src/domain/account.ts";

test.each([
  "smtp.example.com",
  "localhost",
  "relay-1.team-a.svc",
  "192.0.2.1",
  "::1",
  "[2001:db8::1]",
])("%s may be a mail server", (host) => {
  expect(smtpHostProblem(host)).toBeNull();
});

// People paste the port, a URL or an address of theirs. What no look-up can find must not be kept.
test.each([
  "smtp.example.com:587",
  "192.0.2.1:25",
  "[::1]:25",
  "[::1",
  ":::",
  "smtps://smtp.example.com",
  "me@smtp.example.com",
  "smtp..example.com",
  "smtp.example.com.",
  "-smtp.example.com",
  "a b",
])("%s is none, and the text says what one looks like", (host) => {
  expect(smtpHostProblem(host)).toBe(
    "must be the server's name or address alone, such as smtp.example.com: no scheme, no port",
  );
});
