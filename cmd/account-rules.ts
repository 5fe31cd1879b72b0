import type { Configuration } from "../src/configuration/configuration.ts";
import type { Accounts } from "../src/domain/ports/accounts.ts";
import type { Monotonic } from "../src/domain/ports/clock.ts";
import { parseDestinationRules, type DestinationRules } from "../src/network/destination-rules.ts";
import { createCachedLookup } from "../src/waiting/cached-lookup.ts";
import { parsedSetting } from "./parsed-setting.ts";

/** Milliseconds for which a rule may still apply after an operator has removed it. */
const FRESH_MS = 2_000;
const MOST_ACCOUNTS = 10_000;

/** The installation's own allow-list; throws StartProblem when it is not valid. */
export function installationRules({
  allowDestinations = [],
}: Pick<Configuration, "allowDestinations">): DestinationRules {
  return parsedSetting("CARILLON_ALLOW_DESTINATIONS", () =>
    parseDestinationRules(allowDestinations.join(",")),
  );
}

/** The accounts' own allow-lists. They are needed for every connection: many connections at once share one look-up. */
export function createAccountRules(dependencies: {
  accounts: Pick<Accounts, "allowedDestinations">;
  monotonic: Monotonic;
}): (account: string) => Promise<DestinationRules> {
  const { accounts, monotonic } = dependencies;
  return createCachedLookup({
    ask: async (account) =>
      parseDestinationRules((await accounts.allowedDestinations(account)).join(",")),
    ttlMs: FRESH_MS,
    max: MOST_ACCOUNTS,
    monotonic,
  });
}
