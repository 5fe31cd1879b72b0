import {
  readConfiguration,
  unknownVariables,
  type Configuration,
} from "../src/configuration/configuration.ts";
import type { Program } from "../src/configuration/variable.ts";

/** The configuration in the environment; names on standard error what looks like a part of it and is none. */
export function readEnvironment(program: Program): Configuration {
  for (const name of unknownVariables(process.env))
    process.stderr.write(
      `carillon: ${name} is set, but there is no such variable: see docs/configuration.md\n`,
    );
  return readConfiguration(program, process.env);
}
