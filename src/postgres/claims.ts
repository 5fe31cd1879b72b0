import { byKey } from "./by-key.ts";

/** SQL: of run `r` and input `i`, which names a claim by `id` and `token`: whether it still holds. */
export const HELD = `${byKey("r.id", "i.id")} and r.claim_token = i.token`;

/** SQL: what is set in a run that is nobody's, and not started. */
export const UNCLAIMED = "claim_token = null, worker = null, lease_until = null, started_at = null";
