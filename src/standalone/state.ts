import type { DataDirectory } from "./data-directory.ts";

/** What standalone remembers between two starts, besides the database. */
export interface StandaloneState {
  /** `begun` until the credentials have been printed: a start that was killed before says them again. */
  firstStart?: "begun" | "done";
  /** Kept, so that the account's SMTP settings and people's bookmarks stay right. */
  mailCatcher?: { smtpPort: number; httpPort: number };
}

const FILE = "state.json";

export async function readState(directory: Pick<DataDirectory, "read">): Promise<StandaloneState> {
  const text = await directory.read(FILE);
  return text === undefined ? {} : (JSON.parse(text) as StandaloneState);
}

export async function writeState(
  directory: Pick<DataDirectory, "write">,
  state: StandaloneState,
): Promise<void> {
  await directory.write(FILE, `${JSON.stringify(state, null, 2)}\n`);
}
