import { StartProblem } from "../src/configuration/start-problem.ts";
import { InvalidInput } from "../src/domain/findings.ts";

/**
 * The result of `parse` for a variable's value; throws StartProblem with the variable's name if it refuses the
 * value.
 */
export function parsedSetting<T>(variable: string, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    if (!(cause instanceof InvalidInput)) throw cause;
    throw new StartProblem(`${variable}: ${cause.message}`, { cause });
  }
}
