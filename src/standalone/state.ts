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
    return stateIn(JSON.parse(text));
  } catch (cause) {
    throw new StartProblem(
      `${join(directory.path, FILE)} is damaged: remove it, which forgets the mail catcher's ports and nothing else`,
      { cause },
    );
  }
}

/** Throws for what `writeState` cannot have written. */
function stateIn(json: unknown): StandaloneState {
  if (typeof json !== "object" || json === null || Array.isArray(json))
    throw new TypeError("no object");
  const { firstStart, mailCatcher } = json as Partial<Record<string, unknown>>;
  const { smtpPort, httpPort } = (mailCatcher ?? {}) as Partial<Record<string, unknown>>;
  const known = firstStart === undefined || firstStart === "begun" || firstStart === "done";
  if (!known || (mailCatcher !== undefined && !(isPort(smtpPort) && isPort(httpPort))))
    throw new TypeError("another state than this program's");
  return json;
}

function isPort(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 65_535;
}

export async function writeState(
  directory: Pick<DataDirectory, "write">,
  state: StandaloneState,
): Promise<void> {
  await directory.write(FILE, `${JSON.stringify(state, null, 2)}\n`);
}
