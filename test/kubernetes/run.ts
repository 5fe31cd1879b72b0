import { spawn } from "node:child_process";

/** Runs a program to its end and returns its standard output. If it fails, throws with its standard error. */
export async function run(
  program: string,
  args: readonly string[],
  options: {
    cwd?: string;
    env?: Record<string, string>;
    input?: string;
    /** It is killed after so many milliseconds. Default: 30 minutes, for a cold Go build. */
    timeout?: number;
  } = {},
): Promise<string> {
  const timeout = options.timeout ?? 30 * 60_000;
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
      stdio: ["pipe", "pipe", "pipe"],
      timeout,
    });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.once("error", reject);
    child.once("close", (code, signal) => {
      if (code === 0) resolve(stdout);
      else {
        const end = child.killed
          ? `killed, because it had not ended after ${timeout / 60_000} minutes`
          : (signal ?? `exit ${code}`);
        reject(new Error(`${program} ${args.join(" ")}: ${end}\n${stderr}${stdout}`));
      }
    });
    child.stdin.on("error", () => undefined);
    child.stdin.end(options.input ?? "");
  });
}
