import { StartProblem } from "../src/configuration/start-problem.ts";
import { InvalidInput } from "../src/domain/findings.ts";

/** What `parse` makes of a variable's value; throws StartProblem, with its name, for what that refuses. */
export function parsedSetting<T>(variable: string, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    if (!(cause instanceof InvalidInput)) throw cause;
    throw new StartProblem(`${variable}: ${cause.message}`, { cause });
  }
}
