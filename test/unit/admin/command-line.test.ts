import { describe, expect, test } from "vitest";
import { COMMANDS, parseCommandLine } from "../../../src/admin/command-line.ts";

const words = (line: string) => line.split(" ").filter((word) => word !== "");

describe("parseCommandLine", () => {
  test("the operator's commands are all there", () => {
    expect(COMMANDS.map((command) => command.path)).toEqual([
      "account create",
      "account list",
      "account bind",
      "account delete",
      "account allow",
      "account disallow",
      "account allowed",
      "key create",
      "key list",
      "key delete",
      "keys reencrypt",
      "signing-secret show",
      "signing-secret rotate",
      "smtp set",
      "smtp show",
      "user create",
      "user list",
      "user delete",
      "user set-password",
    ]);
  });

  test.each([
    {
      line: "admin account create team-a --namespace ns",
      path: "account create",
      positionals: { NAME: "team-a" },
      options: { namespace: "ns" },
      switches: [],
    },
    {
      line: "admin key delete 42 --account a --output json",
      path: "key delete",
      positionals: { ID: "42" },
      options: { account: "a", output: "json" },
      switches: [],
    },
    {
      line: "admin smtp set --account=a --host h --port 25 --from x@y.z --password-stdin",
      path: "smtp set",
      positionals: {},
      options: { account: "a", host: "h", port: "25", from: "x@y.z" },
      switches: ["password-stdin"],
    },
    {
      line: "admin user create --account a --email x@y.z --password-stdin",
      path: "user create",
      positionals: {},
      options: { account: "a", email: "x@y.z" },
      switches: ["password-stdin"],
    },
  ])("understands: $line", ({ line, path, positionals, options, switches }) => {
    const parsed = parseCommandLine(words(line));
    expect(parsed).toMatchObject({
      kind: "command",
      command: { path },
      arguments: { positionals, options, switches: new Set(switches) },
    });
  });

  test.each([
    { line: "", says: "Usage: carillon admin COMMAND" },
    { line: "--help", says: "key create" },
    { line: "admin", says: "smtp set" },
    { line: "admin --help", says: "user create" },
    { line: "admin key", says: "key list" },
    { line: "admin key --help", says: "key delete" },
    { line: "admin key --help", says: "carillon admin COMMAND --help says more" },
    { line: "admin key create --help", says: "Usage: carillon admin key create --account NAME" },
    { line: "admin key create -h", says: "--label LABEL" },
    { line: "admin key crate --help", says: "key create" },
    { line: "admin user create -h", says: "--email EMAIL --password-stdin [OPTIONS]" },
  ])("helps: carillon $line", ({ line, says }) => {
    expect(parseCommandLine(words(line))).toMatchObject({
      kind: "help",
      text: expect.stringContaining(says) as unknown,
    });
  });

  test.each(COMMANDS.map((command) => ({ path: command.path })))(
    "has help for: $path",
    ({ path }) => {
      expect(parseCommandLine(["admin", ...words(path), "--help"])).toMatchObject({
        kind: "help",
        text: expect.stringContaining(`Usage: carillon admin ${path}`) as unknown,
      });
    },
  );

  test.each([
    { line: "sing", says: "unknown command: sing" },
    { line: "admin key crate --account a", says: "unknown command: admin key crate" },
    { line: "sing --help", says: "unknown command: sing" },
    { line: "admin nothing", says: "unknown command: admin nothing" },
    { line: "admin --output json account list", says: "options belong behind it" },
    { line: "admin account --output json list", says: "options belong behind it" },
    { line: "admin key create --acount a", says: "Unknown option '--acount'" },
    { line: "admin key create", says: "--account is missing" },
    { line: "admin key delete --account a", says: "ID is missing" },
    { line: "admin user create --account a --email a@b.c", says: "--password-stdin is missing" },
    { line: "admin account create a b", says: "unexpected: b" },
    { line: "admin account list --output yaml", says: "--output must be text or json" },
    { line: "admin key create --account", says: "--account" },
    { line: "admin key create --account a --label -b", says: "is written --label=-x" },
  ])("refuses in one line: carillon $line", ({ line, says }) => {
    const refusal = () => parseCommandLine(words(line));
    expect(refusal).toThrow(says);
    expect(refusal).toThrow(/^[^\n]*; try carillon [^\n]*--help$/);
  });
});
