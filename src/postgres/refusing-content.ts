import { ContentRefused } from "../domain/ports/content-refused.ts";
import { isRowFault } from "./sql-state.ts";

/**
 * Throws ContentRefused for what a row says. Any other error is the statement's or the server's, and says nothing of
 * what was to be written.
 */
export async function refusingContent<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (isRowFault(error))
      throw new ContentRefused(`PostgreSQL refuses what a row says: ${(error as Error).message}`, {
        cause: error,
      });
    throw error;
  }
}
