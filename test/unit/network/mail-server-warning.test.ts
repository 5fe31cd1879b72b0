import { expect, test } from "vitest";
import { createDestinationPolicy } from "../../../src/network/destination-policy.ts";
import { parseDestinationRules } from "../../../src/network/destination-rules.ts";
import { mailServerWarning } from "../../../src/network/mail-server-warning.ts";

const policy = createDestinationPolicy({
  rules: parseDestinationRules("10.1.0.0/16:587"),
  accountRules: async () => parseDestinationRules("10.2.0.0/16:587"),
});

const warning = (host: string, addresses: readonly string[] = [], port = 587) =>
  mailServerWarning({
    policy,
    account: "a",
    server: { host, port },
    addressesOf: async () => addresses,
  });

test.each([
  { host: "10.9.0.1", says: /^destination refused: 10\.9\.0\.1:587 / },
  { host: "localhost", says: /^destination refused: localhost:587 / },
  { host: "mail.example.com", port: 8025, says: /^destination refused: mail\.example\.com:8025 / },
  {
    host: "mail.example.com",
    addresses: ["93.184.216.34", "10.9.0.1"],
    says: /^mail\.example\.com is 10\.9\.0\.1; destination refused: 10\.9\.0\.1:587 /,
  },
])("warns of $host ($addresses)", async ({ host, addresses, port, says }) => {
  expect(await warning(host, addresses, port)).toMatch(says);
});

test.each([
  { host: "93.184.216.34" },
  { host: "10.1.0.1" },
  { host: "10.2.0.1" },
  { host: "mail.example.com", addresses: ["93.184.216.34", "10.2.0.1"] },
  // DNS does not answer.
  { host: "mail.example.com" },
  // It may be the account's own.
  { host: "mail.team-a.svc", addresses: ["10.9.0.1"] },
  { host: "mail.team-a.svc.cluster.local", addresses: ["10.9.0.1"] },
])("nothing is against $host ($addresses)", async ({ host, addresses }) => {
  expect(await warning(host, addresses)).toBeNull();
});
