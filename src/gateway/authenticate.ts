import type { ApiKeys, Caller } from "../domain/ports/accounts.ts";
import { ApiError } from "./errors.ts";

/** One text for every reason: it tells nobody which keys exist. */
export const UNAUTHORIZED =
  "missing or invalid API key: send a live key in the header X-API-Key (no Bearer, no query parameter)";

/** Throws ApiError 401 for a missing or wrong key. */
export async function authenticate(
  apiKeys: Pick<ApiKeys, "authenticate">,
  header: string,
): Promise<Caller> {
  const caller = await apiKeys.authenticate(header);
  if (!caller) throw new ApiError("unauthorized", UNAUTHORIZED);
  return caller;
}
