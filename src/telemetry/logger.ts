import { createRequire } from "node:module";
import type { Writable } from "node:stream";
import { destination, pino, type DestinationStream } from "pino";
import { redact, redactText } from "./redact.ts";

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

/** One line: what happened, or fields and what happened. An error belongs in the field `err`. */
interface Log {
  (message: string): void;
  (fields: object, message: string): void;
}

export interface Logger {
  debug: Log;
  info: Log;
  warn: Log;
  error: Log;
  /** A logger whose lines carry these fields too. */
  child(fields: object): Logger;
}

/**
 * JSON lines, or readable ones when `pretty`. Every line passes through `redact`: API keys, codes,
 * passwords, bodies and authorization headers are never written, whatever a caller hands in.
 * Writes to standard output unless given another stream; `stderr` leaves standard output to a
 * program that prints results there.
 */
export function createLogger(options: {
  level?: LogLevel;
  pretty?: boolean;
  output?: "stdout" | "stderr" | Writable;
}): Logger {
  const output = options.output ?? "stdout";
  const target =
    typeof output !== "string"
      ? output
      : options.pretty
        ? pretty(output === "stderr" ? 2 : 1)
        : lines(output === "stderr" ? 2 : 1);
  const logger = pino(
    {
      level: options.level ?? "info",
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: {
        level: (label) => ({ level: label }),
        log: (fields) => redact(fields) as Record<string, unknown>,
      },
      // `redact` has made a plain object of the error already, which pino's own serializer would not know as one.
      serializers: { err: (err: unknown) => err },
      hooks: {
        logMethod(args, method) {
          const safe = args.map((arg: unknown) =>
            typeof arg === "string" ? redactText(arg) : arg,
          );
          Reflect.apply(method, this, safe);
        },
      },
    },
    target,
  );
  return adapt(logger);
}

/**
 * A line that cannot be written, as on a full disk, is lost and does not end the process. The stream is then replaced:
 * the failed one would keep this line and all later ones in memory.
 */
function lines(fd: 1 | 2): DestinationStream {
  let stream = open();
  function open() {
    // Synchronous: the last line before an exit is the one that matters.
    const opened = destination({ fd, sync: true });
    opened.on("error", () => {
      stream = open();
    });
    return opened;
  }
  return { write: (line) => stream.write(line) };
}

/** Loaded only where a person reads along: production processes do not pay for it. */
function pretty(fd: 1 | 2): Writable {
  const load = createRequire(import.meta.url)("pino-pretty") as (options: object) => Writable;
  const output = fd === 1 ? process.stdout : process.stderr;
  return load({
    destination: fd,
    sync: true,
    // NO_COLOR and TERM=dumb count.
    colorize: output.isTTY && output.hasColors(),
    translateTime: "SYS:HH:MM:ss.l",
  });
}

/** Pino's bindings of a child skip `formatters.log`, so they are made safe here. */
function adapt(logger: pino.Logger): Logger {
  return {
    debug: logger.debug.bind(logger),
    info: logger.info.bind(logger),
    warn: logger.warn.bind(logger),
    error: logger.error.bind(logger),
    child: (fields) => adapt(logger.child(redact(fields) as object)),
  };
}
