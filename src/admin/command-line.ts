import { parseArgs } from "node:util";
import { ACCOUNT_COMMANDS } from "./account-commands.ts";
import { type Command, type Invocation, type Option, UsageError } from "./command.ts";
import { CREDENTIAL_COMMANDS } from "./credential-commands.ts";

export const COMMANDS: readonly Command[] = [...ACCOUNT_COMMANDS, ...CREDENTIAL_COMMANDS];

export type OutputFormat = "text" | "json";

export type ParsedCommandLine =
  | { kind: "help"; text: string }
  | { kind: "version" }
  | {
      kind: "command";
      command: Command;
      output: OutputFormat;
      arguments: Pick<Invocation, "positionals" | "options" | "switches">;
    };

const GLOBAL: Readonly<Record<string, Option>> = {
  output: { value: "FORMAT", meaning: "text (default) or json" },
  help: { meaning: "show this help" },
};

/** Throws UsageError with one line that says what to do. */
export function parseCommandLine(args: readonly string[]): ParsedCommandLine {
  const wantsHelp = args.some((arg) => arg === "--help" || arg === "-h");
  if (args.length === 0) return { kind: "help", text: topHelp() };
  if (args[0] === "--version") return { kind: "version" };
  const words = args.filter((arg) => !arg.startsWith("-"));
  if (words[0] !== "admin") {
    if (wantsHelp && words.length === 0) return { kind: "help", text: topHelp() };
    throw new UsageError(`unknown command: ${args.join(" ")}; try carillon --help`);
  }
  const path = words.slice(1, 3).join(" ");
  const command = COMMANDS.find((candidate) => candidate.path === path);
  if (!command) {
    const group = COMMANDS.filter((candidate) => candidate.path.startsWith(`${words[1] ?? ""} `));
    if (words.length === 1 || (group.length > 0 && (wantsHelp || words.length === 2)))
      return { kind: "help", text: groupHelp(group.length > 0 ? group : COMMANDS) };
    // The value of an option before the command was taken for one of its words.
    const optionFirst = args.slice(0, 3).some((arg) => arg.startsWith("-"));
    throw new UsageError(
      `unknown command: admin ${path}${optionFirst ? ", options belong behind it" : ""}; try carillon admin --help`,
    );
  }
  if (wantsHelp) return { kind: "help", text: commandHelp(command) };
  // The words of the path are the first three; switches, which have no value, may stand before or between them.
  return parseCommand(command, withoutPath(args));
}

function withoutPath(args: readonly string[]): string[] {
  let words = 3;
  return args.filter((arg) => arg.startsWith("-") || words-- <= 0);
}

function parseCommand(command: Command, args: string[]): ParsedCommandLine {
  const known = { ...command.options, ...GLOBAL };
  let parsed;
  try {
    parsed = parseArgs({
      args,
      allowPositionals: true,
      options: Object.fromEntries(
        Object.entries(known).map(([name, option]) => [
          name,
          { type: option.value === undefined ? ("boolean" as const) : ("string" as const) },
        ]),
      ),
    });
  } catch (cause) {
    throw new UsageError(`${reasonOf(cause)}; try carillon admin ${command.path} --help`, {
      cause,
    });
  }
  const options: Record<string, string> = {};
  const switches = new Set<string>();
  for (const [name, value] of Object.entries(parsed.values))
    if (typeof value === "string") options[name] = value;
    else if (value === true) switches.add(name);
  const [missing] = Object.entries(command.options).filter(
    ([name, option]) => option.required && options[name] === undefined && !switches.has(name),
  );
  if (missing) throw usage(command, `--${missing[0]} is missing`);
  if (parsed.positionals.length > command.positionals.length)
    throw usage(
      command,
      `unexpected: ${parsed.positionals.slice(command.positionals.length).join(" ")}`,
    );
  const absent = command.positionals[parsed.positionals.length];
  if (absent !== undefined) throw usage(command, `${absent} is missing`);
  const output = options["output"] ?? "text";
  if (output !== "text" && output !== "json") throw usage(command, "--output must be text or json");
  return {
    kind: "command",
    command,
    output,
    arguments: {
      positionals: Object.fromEntries(
        command.positionals.map((name, index) => [name, parsed.positionals[index] ?? ""]),
      ),
      options,
      switches,
    },
  };
}

/** The first sentence of Node's message, except where only its last says what to do. */
function reasonOf(cause: unknown): string {
  const message = cause instanceof Error ? cause.message : "";
  const option = /^Option '(--[^' ]+)' argument is ambiguous/.exec(message)?.[1];
  if (option !== undefined)
    return `${option} has no value; one that begins with a dash is written ${option}=-x`;
  return message.split(/\. |\n/, 1)[0] ?? "";
}

function usage(command: Command, message: string): UsageError {
  return new UsageError(`${message}; try carillon admin ${command.path} --help`);
}

const MORE = "carillon admin COMMAND --help says more about one command";

function topHelp(): string {
  return [
    "Usage: carillon admin COMMAND [OPTIONS]",
    "",
    "Administers the installation with the database DATABASE_URL, or the standalone that runs in CARILLON_DATA_DIR.",
    "",
    ...commandLines(COMMANDS),
    "",
    `${MORE}; carillon --version prints the version.`,
  ].join("\n");
}

function groupHelp(commands: readonly Command[]): string {
  return [
    "Usage: carillon admin COMMAND [OPTIONS]",
    "",
    ...commandLines(commands),
    "",
    `${MORE}.`,
  ].join("\n");
}

function commandLines(commands: readonly Command[]): string[] {
  const width = Math.max(...commands.map((command) => command.path.length));
  return commands.map((command) => `  ${command.path.padEnd(width)}  ${command.summary}`);
}

function commandHelp(command: Command): string {
  const options = Object.entries({ ...command.options, ...GLOBAL });
  const required = options.filter(([, option]) => option.required).map(flag);
  const width = Math.max(...options.map((option) => flag(option).length));
  return [
    ["Usage: carillon admin", command.path, ...command.positionals, ...required, "[OPTIONS]"].join(
      " ",
    ),
    "",
    command.summary,
    "",
    ...options.map((option) => `  ${flag(option).padEnd(width)}  ${option[1].meaning}`),
  ].join("\n");
}

function flag([name, option]: [string, Option]): string {
  return `--${name}${option.value === undefined ? "" : ` ${option.value}`}`;
}
