import { ContentRefused } from "../domain/ports/content-refused.ts";
import { isRowFault, sqlState } from "./sql-state.ts";

/**
 * Throws ContentRefused for what a row says, and for class 54, limits such as the size of an index entry. Any other
 * error is the statement's or the server's, and says nothing of what was to be written.
 */
export async function refusingContent<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (isRowFault(error) || sqlState(error)?.startsWith("54") === true)
      throw new ContentRefused(`PostgreSQL refuses what a row says: ${(error as Error).message}`, {
        cause: error,
      });
    throw error;
  }
}
