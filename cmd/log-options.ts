import type { Configuration } from "../src/configuration/configuration.ts";
import type { LogLevel } from "../src/telemetry/logger.ts";

/** Readable lines on a terminal, otherwise JSON. */
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
