import { rm, mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createPool } from "../src/postgres/pool.ts";
import { startStandalone } from "../test/e2e/program.ts";
import { printedOwner } from "../test/e2e/dashboard/owner.ts";
import { seedManyJobs } from "../test/postgres/many-jobs.ts";
import { measureBrowser, type BrowserFigures } from "./dashboard-browser.ts";
import { signInClient } from "./dashboard-client.ts";

const JOBS = 10_000;
const SAMPLES = 40;
const BULK = 25;

/** What the dashboard's pages ask the server for, in an account with 10,000 jobs. */
const REQUESTS = [
  { what: "newest first", path: "/jobs?limit=25" },
  { what: "the last page", path: "/jobs?limit=25&offset=9975" },
  { what: "search", path: "/jobs?limit=25&q=report%2000" },
  { what: "paused", path: "/jobs?limit=25&status=paused" },
  { what: "failing", path: "/jobs?limit=25&status=failing" },
  { what: "by name", path: "/jobs?limit=25&sort=name" },
  { what: "by next run", path: "/jobs?limit=25&sort=next_run" },
  { what: "by last run", path: "/jobs?limit=25&sort=last_run" },
  { what: "overview", path: "/overview?range=24h" },
] as const;

export interface ServerFigure {
  what: string;
  firstMs: number;
  p50Ms: number;
  p95Ms: number;
}

export interface DashboardFigures {
  jobs: number;
  server: ServerFigure[];
  /** Pausing one page of the list. */
  bulk: { jobs: number; ms: number };
  /** Undefined without a browser. */
  browser: BrowserFigures | undefined;
}

/** A new installation with 10,000 jobs in one account, asked as the pages ask it. */
export async function benchDashboard(): Promise<DashboardFigures> {
  const dataDir = await mkdtemp(join(tmpdir(), "carillon-bench-"));
  const program = await startStandalone(dataDir);
  try {
    const url = (await readFile(join(dataDir, "database-url"), "utf8")).trim();
    const pool = createPool({ url, applicationName: "carillon bench" });
    const { rows } = await pool.query<{ id: string; now: number }>(
      "select id, extract(epoch from now()) * 1000 as now from accounts",
    );
    const account = rows[0];
    if (account === undefined) throw new Error("standalone made no account");
    await seedManyJobs({ pool, account: account.id, count: JOBS, now: Math.floor(account.now) });
    await pool.end();
    const owner = printedOwner(program.printed("Sign in"));
    const client = await signInClient(program.url, owner);
    const server: ServerFigure[] = [];
    for (const { what, path } of REQUESTS) server.push({ what, ...(await timed(client, path)) });
    const bulk = { jobs: BULK, ms: await pausePage(client) };
    return {
      jobs: JOBS,
      server,
      bulk,
      browser: await measureBrowser({ url: program.url, owner }),
    };
  } finally {
    program.signal("SIGTERM");
    await program.finished;
    await rm(dataDir, { recursive: true, force: true });
  }
}

type Client = Awaited<ReturnType<typeof signInClient>>;

/** Times requests. Between two of them a job changes, as in an account that is in use. */
export async function timed(
  client: Client,
  path: string,
  jobId = (sample: number) => `job-${String(1 + sample * 10).padStart(5, "0")}`,
): Promise<Omit<ServerFigure, "what">> {
  const samples: number[] = [];
  for (let sample = 0; sample <= SAMPLES; sample += 1) {
    await client.post(`/jobs/${jobId(sample)}/${sample % 2 === 0 ? "pause" : "resume"}`);
    const began = performance.now();
    await client.get(path);
    samples.push(performance.now() - began);
  }
  const [firstMs = 0, ...rest] = samples;
  rest.sort((a, b) => a - b);
  const at = (share: number) =>
    rest[Math.min(rest.length - 1, Math.floor(rest.length * share))] ?? 0;
  return { firstMs, p50Ms: at(0.5), p95Ms: at(0.95) };
}

async function pausePage(client: Client): Promise<number> {
  const page = (await client.get(`/jobs?limit=${BULK}&status=active`)) as {
    jobs: { id: string }[];
  };
  const ids = page.jobs.map(({ id }) => id);
  const began = performance.now();
  const { changed } = (await client.post("/jobs/bulk", { action: "pause", ids })) as {
    changed: number;
  };
  if (changed !== BULK) throw new Error(`paused ${changed} of ${BULK}`);
  return performance.now() - began;
}
