import { ContentRefused } from "../domain/ports/content-refused.ts";
import { isRowFault } from "./sql-state.ts";

/**
 * Runs `work`, and throws ContentRefused when PostgreSQL refuses the content of a row. Other errors, which say nothing
 * about the content, stay as they are.
 */
export async function withContentErrors<T>(work: () => Promise<T>): Promise<T> {
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
