import { spawn, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { until } from "../until.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

export interface Finished {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface Program {
  child: ChildProcess;
  stdout(): string;
  stderr(): string;
  /** The value of a line `NAME: value`; undefined if none was printed. */
  printed(name: string): string | undefined;
  signal(signal: NodeJS.Signals): void;
  finished: Promise<Finished>;
}

/** As in the image. Half of a start is compiling, which takes long when many programs start at the same time. */
const NODE_COMPILE_CACHE = `${ROOT}node_modules/.cache/carillon`;

/** Runs one of the programs in cmd/, with none of this process's own configuration. */
export function run(
  program: string,
  options: {
    args?: readonly string[];
    env?: Partial<Record<string, string>>;
    input?: string;
    /** A command that runs the program as its arguments. */
    through?: readonly string[];
  } = {},
): Program {
  const command = [process.execPath, `cmd/${program}.ts`, ...(options.args ?? [])];
  const [file = "", ...args] = [...(options.through ?? []), ...command];
  const child = spawn(file, args, {
    cwd: ROOT,
    env: { PATH: process.env["PATH"] ?? "", NODE_COMPILE_CACHE, ...options.env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  child.stdin.end(options.input ?? "");
  const finished = new Promise<Finished>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      resolve({ code, stdout, stderr });
    });
  });
  return {
    child,
    stdout: () => stdout,
    stderr: () => stderr,
    printed: (name) => new RegExp(`^${name}: (.+)$`, "m").exec(stdout)?.[1],
    signal: (signal) => {
      child.kill(signal);
    },
    finished,
  };
}

export interface Standalone extends Program {
  url: string;
  catcherUrl: string;
  readyMs: number;
}

/** Starts standalone on ports that the system chooses, and waits until it says that it is ready. */
export async function startStandalone(
  dataDir: string,
  env: Record<string, string> = {},
  through: readonly string[] = [],
): Promise<Standalone> {
  const begun = performance.now();
  const program = run("standalone", {
    through,
    env: { CARILLON_DATA_DIR: dataDir, PORT: "0", CARILLON_METRICS_PORT: "0", ...env },
  });
  let ended: Finished | undefined;
  void program.finished.then((finished) => (ended = finished));
  const url = await until(
    "standalone is ready",
    () => {
      if (ended) throw new Error(`it ended with ${ended.code}: ${ended.stdout}${ended.stderr}`);
      return program.printed("Ready");
    },
    60_000,
  );
  const readyMs = performance.now() - begun;
  return { ...program, url, readyMs, catcherUrl: program.printed("Mail catcher") ?? "" };
}

/** One HTTP exchange with the REST API. */
export async function call(
  base: string,
  request: { key?: string; method?: string; path: string; body?: unknown },
): Promise<{ status: number; body: unknown }> {
  const headers: Record<string, string> = {};
  if (request.key !== undefined) headers["x-api-key"] = request.key;
  const init: RequestInit = { method: request.method ?? "GET", headers };
  if (request.body !== undefined) {
    headers["content-type"] = "application/json";
    init.body = JSON.stringify(request.body);
  }
  const response = await fetch(`${base}${request.path}`, init);
  return { status: response.status, body: await response.json() };
}
