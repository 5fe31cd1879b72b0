import type * as net from "node:net";
import { Socket } from "node:net";
import { expect, test, vi } from "vitest";
import { parseDestinationRules } from "../../../src/network/destination-rules.ts";
import { createGuardedDial } from "../../../src/network/guarded-dial.ts";

/** As the system answers when it has no local port, or for IPv6 no address of its own. */
vi.mock("node:net", async (original) => ({
  ...(await original<typeof net>()),
  connect: ({ host }: { host: string }) =>
    new Socket().destroy(
      Object.assign(new Error("connect"), { code: "EADDRNOTAVAIL", address: host }),
    ),
}));

test.each([
  { address: "127.0.0.1", is: { name: "DependencyUnavailable", dependency: "machine" } },
  { address: "::1", is: { name: "Error", code: "EADDRNOTAVAIL" } },
])("no local address for a connection to $address: $is.name", async ({ address, is }) => {
  const told: unknown[] = [];
  const dial = createGuardedDial({
    rules: parseDestinationRules("127.0.0.0/8,::1/128"),
    accountRules: async () => parseDestinationRules(""),
    onShortage: (error) => told.push(error),
  });
  const request = { account: "a", protocol: "webhook", host: address, port: 8_080 } as const;
  await expect(dial(request)).rejects.toMatchObject(is);
  expect(told).toHaveLength(is.name === "DependencyUnavailable" ? 1 : 0);
});
