import { join } from "node:path";
import { StartProblem } from "../configuration/start-problem.ts";
import type { DataDirectory } from "./data-directory.ts";

/** What standalone remembers between two starts, besides the database. */
export interface StandaloneState {
  /** `begun` until the credentials have been printed: if a kill comes before that, the next start prints new ones. */
  firstStart?: "begun" | "done";
  /** Kept so that the account's SMTP settings and people's bookmarks stay right. */
  mailCatcher?: { smtpPort: number; httpPort: number };
}

const FILE = "state.json";

/** Throws StartProblem when somebody has damaged the file. */
export async function readState(
  directory: Pick<DataDirectory, "path" | "read">,
): Promise<StandaloneState> {
  const text = await directory.read(FILE);
  if (text === undefined) return {};
  try {
    return JSON.parse(text) as StandaloneState;
  } catch (cause) {
    throw new StartProblem(
      `${join(directory.path, FILE)} is damaged: remove it, which forgets the mail catcher's ports and nothing else`,
      { cause },
    );
  }
}

export async function writeState(
  directory: Pick<DataDirectory, "write">,
  state: StandaloneState,
): Promise<void> {
  await directory.write(FILE, `${JSON.stringify(state, null, 2)}\n`);
}
