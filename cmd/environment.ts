import {
  readConfiguration,
  unknownVariables,
  type Configuration,
} from "../src/configuration/configuration.ts";
import { StartProblem } from "../src/configuration/start-problem.ts";
import type { Program } from "../src/configuration/variable.ts";

/**
 * The configuration in the environment. Throws StartProblem for arguments, which only the admin commands have:
 * `--help` must not migrate a database. Reports variables that look like ours, but do not exist, on standard error.
 */
export function readEnvironment(program: Program): Configuration {
  const args = process.argv.slice(2);
  if (program !== "admin" && args.length > 0)
    throw new StartProblem(
      `there are no arguments (${args.join(" ")}): what can be set are the environment variables of docs/configuration.md`,
    );
  for (const name of unknownVariables(process.env))
    process.stderr.write(
      `carillon: ${name} is set, but there is no such variable: see docs/configuration.md\n`,
    );
  return readConfiguration(program, process.env);
}
