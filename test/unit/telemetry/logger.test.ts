import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { describe, expect, test } from "vitest";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { redact, REDACTED } from "../../../src/telemetry/redact.ts";

function capture() {
  const lines: string[] = [];
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString());
      done();
    },
  });
  return { output, lines };
}

describe("logger", () => {
  test("writes one JSON object a line, with a readable level and an ISO time", () => {
    const { output, lines } = capture();
    createLogger({ output }).info({ port: 8080 }, "listening");
    expect(JSON.parse(lines[0] ?? "")).toEqual({
      level: "info",
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as unknown,
      port: 8080,
      msg: "listening",
    });
  });

  test("keeps to its level", () => {
    const { output, lines } = capture();
    const logger = createLogger({ output, level: "warn" });
    logger.info("quiet");
    logger.warn("loud");
    expect(lines).toHaveLength(1);
  });

  test.each([
    { name: "message", log: (secret: string) => [{}, `key ${secret} refused`] as const },
    { name: "field", log: (secret: string) => [{ given: secret }, "refused"] as const },
    { name: "error", log: (secret: string) => [{ err: new Error(`bad ${secret}`) }, "x"] as const },
    {
      name: "cause",
      log: (secret: string) =>
        [{ err: new Error("bad", { cause: new Error(secret) }) }, "x"] as const,
    },
    {
      name: "nested header",
      log: (secret: string) => [{ req: { headers: { "X-API-Key": secret } } }, "x"] as const,
    },
  ])("never writes an API key: $name", ({ log }) => {
    const { output, lines } = capture();
    const secret = "svc_live_abcdefghijklmnop";
    const [fields, message] = log(secret);
    createLogger({ output }).error(fields, message);
    expect(lines.join("")).not.toContain("abcdefghijklmnop");
    expect(lines).toHaveLength(1);
  });

  test("never writes a secret that a child logger was given", () => {
    const { output, lines } = capture();
    createLogger({ output }).child({ password: "hunter2", account: "a" }).info("hello");
    expect(lines[0]).toContain('"account":"a"');
    expect(lines[0]).not.toContain("hunter2");
  });

  test("gives an error its name, code and stack, and not the row it failed on", () => {
    const { output, lines } = capture();
    const cause = new AggregateError([new Error("no route"), new Error("refused")], "unreachable");
    const err = Object.assign(new Error("duplicate key", { cause }), {
      code: "23505",
      detail: "Key (address)=(someone@example.com) already exists.",
    });
    createLogger({ output }).error({ err }, "insert failed");
    const written = JSON.parse(lines[0] ?? "") as { err: Record<string, unknown> };
    expect(written.err).toMatchObject({ type: "Error", message: "duplicate key", code: "23505" });
    expect(written.err["stack"]).toContain("logger.test");
    expect(written.err["cause"]).toMatchObject({
      message: "unreachable",
      errors: [{ message: "no route" }, { message: "refused" }],
    });
    expect(lines[0]).not.toContain("someone@example.com");
  });
});

describe("a stream of this process", () => {
  const module = new URL("../../../src/telemetry/logger.ts", import.meta.url).href;
  test.each([
    { output: "stdout", pretty: false },
    { output: "stdout", pretty: true },
    { output: "stderr", pretty: false },
    { output: "stderr", pretty: true },
  ] as const)("$output, pretty $pretty: nothing on the other, no colours in a file", (options) => {
    const program = `import { createLogger } from "${module}"; createLogger(${JSON.stringify(options)}).info("hello")`;
    const written = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
      encoding: "utf8",
    });
    const { [options.output]: ours, stdout, stderr } = written;
    expect(stdout + stderr).toBe(ours);
    expect(ours).toMatch(options.pretty ? /^\[[\d:.]+\] INFO: hello\n$/ : /^\{.*"hello"\}\n$/);
  });

  test.runIf(existsSync("/dev/full"))("a full disk ends no process", () => {
    const program = `import { createLogger } from "${module}";
      const log = createLogger({ output: "stderr" });
      for (const line of ["first", "second"]) {
        log.info(line);
        await new Promise(setImmediate);
      }
      console.log("goes on");`;
    const written = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", openSync("/dev/full", "w")],
    });
    expect(written).toMatchObject({ status: 0, stdout: "goes on\n" });
  });

  test("what comes after a line that could not be written is written", () => {
    const directory = mkdtempSync(join(tmpdir(), "carillon-log-"));
    try {
      const program = `import { createLogger } from "${module}";
        import { openSync, closeSync } from "node:fs";
        const log = createLogger({ output: "stderr" });
        closeSync(2);
        log.info("lost");
        // A thread of Node itself, such as the one that reads certificates, may use the number for a moment.
        for (let fd; (fd = openSync("${join(directory, "log")}", "w")) !== 2; closeSync(fd))
          await new Promise(setImmediate);
        log.info("kept");`;
      spawnSync(process.execPath, ["--input-type=module", "-e", program]);
      expect(readFileSync(join(directory, "log"), "utf8")).toMatch(/^\{.*"kept"\}\n$/);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});

describe("redact", () => {
  test.each([
    { name: "password", given: { password: "p" }, safe: { password: REDACTED } },
    { name: "spelling", given: { "Set-Cookie": "s" }, safe: { "Set-Cookie": REDACTED } },
    { name: "body", given: { body: { to: "x" } }, safe: { body: REDACTED } },
    { name: "passcode", given: { code: "123456" }, safe: { code: REDACTED } },
    { name: "passcode as a number", given: { code: 123_456 }, safe: { code: REDACTED } },
    { name: "error code", given: { code: "ECONNREFUSED" }, safe: { code: "ECONNREFUSED" } },
    { name: "absent secret", given: { password: null }, safe: { password: null } },
    {
      name: "database url",
      given: { url: "postgres://u:pw@h/db" },
      safe: { url: `postgres://u:${REDACTED}@h/db` },
    },
    {
      name: "database url whose password has an @ in it",
      given: { url: "postgres://u:p@ss@h/db" },
      safe: { url: `postgres://u:${REDACTED}@h/db` },
    },
    { name: "signing secret", given: ["whsec_AA+A/A_-=."], safe: [`whsec_${REDACTED}.`] },
    { name: "map", given: new Map([["password", "p"]]), safe: { password: REDACTED } },
    { name: "headers", given: new Headers({ Cookie: "s" }), safe: { cookie: REDACTED } },
    { name: "set", given: new Set(["whsec_AAAA"]), safe: [`whsec_${REDACTED}`] },
    { name: "URL", given: new URL("https://u:pw@h/"), safe: `https://u:${REDACTED}@h/` },
    { name: "bytes", given: { data: new Uint8Array(3) }, safe: { data: "[3 bytes]" } },
  ])("$name", ({ given, safe }) => {
    expect(redact(given)).toEqual(safe);
  });

  test("a long text is read once, not again from each of its letters", () => {
    const before = process.cpuUsage();
    const word = "a".repeat(50_000);
    expect(redact(word)).toBe(word);
    // Processor time in milliseconds, because the machine may be busy with other things.
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(1_000);
  });

  test("ends on a structure that contains itself", () => {
    const loop: Record<string, unknown> = {};
    loop["self"] = loop;
    expect(JSON.stringify(redact(loop))).toContain("[deep]");
  });
});
