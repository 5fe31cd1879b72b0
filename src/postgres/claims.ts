import { byKey } from "./by-key.ts";

/** SQL: whether the claim that input `i` names by `id` and `token` still holds run `r`. */
export const HELD = `${byKey("r.id", "i.id")} and r.claim_token = i.token`;

/** SQL: sets a run's columns to those of one that nobody has claimed, let alone started. */
export const UNCLAIMED = "claim_token = null, worker = null, lease_until = null, started_at = null";
