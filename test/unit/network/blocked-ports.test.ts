import { expect, test } from "vitest";
import { portBlocked } from "../../../src/network/blocked-ports.ts";

test("mail is given to the ports of mail servers, and to no others", () => {
  const open = Array.from({ length: 65_536 }, (_, port) => port).filter(
    (port) => !portBlocked("smtp", port),
  );
  expect(open).toEqual([25, 465, 587, 2525]);
});

test("webhooks are called on any port but those that browsers refuse, and those of infrastructure", () => {
  for (const port of [80, 443, 3000, 8080, 8443, 65_535])
    expect(portBlocked("webhook", port)).toBe(false);
  for (const port of [22, 25, 587, 2375, 2379, 5432, 6379, 6443, 10_250, 11_211])
    expect(portBlocked("webhook", port)).toBe(true);
});
