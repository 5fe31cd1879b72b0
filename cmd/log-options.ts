import type { Configuration } from "../src/configuration/configuration.ts";
import type { LogLevel } from "../src/telemetry/logger.ts";

/** Readable where a person reads along, JSON where a machine does. */
export function logOptions(
  configuration: Configuration,
  output: { isTTY?: boolean },
): { level: LogLevel; pretty: boolean } {
  const { logFormat = "auto", logLevel = "info" } = configuration;
  return {
    level: logLevel,
    pretty: logFormat === "pretty" || (logFormat === "auto" && output.isTTY === true),
  };
}
