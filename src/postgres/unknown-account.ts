import { InvalidInput } from "../domain/findings.ts";

/** For writes to an account that does not exist or is deleted. */
export function unknownAccount(id: string): InvalidInput {
  return new InvalidInput([{ field: "account", message: `there is no account ${id}` }]);
}
