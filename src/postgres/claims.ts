import { byKey } from "./by-key.ts";

/** SQL: whether the claim that input `i` names by `id` and `token` still holds run `r`. */
export const HELD = `${byKey("r.id", "i.id")} and r.claim_token = i.token`;

/** SQL: the columns of a run that nobody has claimed, and so is not started. */
export const UNCLAIMED = "claim_token = null, worker = null, lease_until = null, started_at = null";
