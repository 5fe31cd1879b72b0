import { run, type Program } from "../e2e/program.ts";
import { until } from "../until.ts";

/** A gateway or a controller, as a process of its own. */
export interface Part {
  program: Program;
  /** When the process was started, in milliseconds since the epoch. */
  started: number;
  /** URL of the gateway's API; empty for a controller. */
  url: string;
  /** The first log line with this message. */
  logged(message: string): Record<string, unknown> | undefined;
  /** What /readyz answers. */
  readyz(): Promise<{ code: number; dependencies: Record<string, string> }>;
  /** What /metrics answers, in Prometheus' format. */
  metrics(): Promise<string>;
  /** The sum of a metric's samples whose labels contain the text. */
  metric(name: string, labels?: string): Promise<number>;
  /** Sends SIGTERM and waits for its orderly end. */
  stop(): Promise<void>;
}

/** Settings of every part of a test installation: ports that the system chooses, log lines in JSON. */
const ENV = {
  CARILLON_JOB_STORE: "kubernetes",
  CARILLON_ALLOW_DESTINATIONS: "127.0.0.0/8",
  CARILLON_LOG_FORMAT: "json",
  CARILLON_HOST: "127.0.0.1",
  PORT: "0",
  CARILLON_METRICS_PORT: "0",
};

/** Resolves when the process says that it has started. If it ends before, rejects with its output. */
export async function startPart(
  part: "gateway" | "controller",
  env: Record<string, string>,
): Promise<Part> {
  const started = Date.now();
  const program = run(part, { env: { ...ENV, ...env } });
  let ended = false;
  void program.finished.finally(() => (ended = true));
  const logged = (message: string) => logLine(program.stdout(), message);
  const start = await until(
    `${part} has started`,
    () => {
      if (ended) throw new Error(`${part} ended: ${program.stdout()}${program.stderr()}`);
      return logged("started");
    },
    60_000,
  ).catch((error: unknown) => {
    program.signal("SIGKILL");
    throw error;
  });
  const probes = `http://127.0.0.1:${String(logged("metrics and probes")?.["port"])}`;
  const metrics = async () => (await fetch(`${probes}/metrics`)).text();
  return {
    program,
    started,
    url: typeof start["url"] === "string" ? start["url"] : "",
    logged,
    readyz: async () => {
      const answer = await fetch(`${probes}/readyz`);
      const { dependencies } = (await answer.json()) as { dependencies: Record<string, string> };
      return { code: answer.status, dependencies };
    },
    metrics,
    metric: async (name, labels = "") => sumMetric(await metrics(), name, labels),
    async stop() {
      program.signal("SIGTERM");
      await program.finished;
    },
  };
}

/** Runs `migrate` or the CLI to its end and returns what it printed. Throws when it fails. */
export async function runToEnd(
  program: "migrate" | "cli",
  env: Record<string, string>,
  args: readonly string[] = [],
  input = "",
): Promise<string> {
  const { code, stdout, stderr } = await run(program, { args, env: { ...ENV, ...env }, input })
    .finished;
  if (code !== 0) throw new Error(`${program} ${args.join(" ")}: ${stderr}${stdout}`);
  return stdout.trim();
}

function logLine(log: string, message: string): Record<string, unknown> | undefined {
  for (const line of log.split("\n")) {
    // The last line may be incomplete.
    if (!line.includes(message) || !line.endsWith("}")) continue;
    const parsed = JSON.parse(line) as Record<string, unknown>;
    if (parsed["msg"] === message) return parsed;
  }
  return undefined;
}

/** The sum of a metric's samples, in a text in Prometheus' format, whose labels contain all of the texts. */
export function sumMetric(text: string, name: string, ...labels: readonly string[]): number {
  let sum = 0;
  for (const line of text.split("\n")) {
    if (!line.startsWith(name) || !/[{ ]/.test(line[name.length] ?? "")) continue;
    if (labels.every((label) => line.includes(label)))
      sum += Number(line.slice(line.lastIndexOf(" ") + 1));
  }
  return sum;
}
