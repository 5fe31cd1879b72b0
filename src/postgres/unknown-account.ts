import { InvalidInput } from "../domain/findings.ts";

/** Nothing can be written for an account that is not there, or deleted. */
export function unknownAccount(id: string): InvalidInput {
  return new InvalidInput([{ field: "account", message: `there is no account ${id}` }]);
}
