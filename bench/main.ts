/**
 * `npm run bench`: every figure beside its limit or peer, measured in the same run on the same machine.
 * `npm run bench -- herd-10000` runs one part. The parts are start, send, jobs, next, delivery, backlog, open-snapshot,
 * herd, herd-10000 and dashboard (10,000 jobs in one account), and kubernetes (10,000 ScheduledJobs), which needs a
 * Kubernetes control plane. Only when they are named: delivery-own-receiver and kubernetes-100000.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { migrate } from "../src/postgres/migrate.ts";
import { startEmbeddedPostgres } from "../src/standalone/embedded-postgres.ts";
import { benchBacklog } from "./backlog.ts";
import { benchDashboard, type DashboardFigures } from "./dashboard.ts";
import { benchDelivery } from "./delivery.ts";
import { endedWithUs } from "./ended-with-us.ts";
import { benchHerd, type HerdFigures } from "./herd.ts";
import { benchIdle } from "./idle.ts";
import { benchJobs } from "./jobs.ts";
import { benchKubernetes, type KubernetesFigures } from "./kubernetes.ts";
import { benchNextFireTime } from "./next-fire-time.ts";
import { benchOpenSnapshot } from "./open-snapshot.ts";
import { onOwnProgram } from "./own-program.ts";
import { benchSend } from "./send.ts";
import { benchStart } from "./start.ts";

const DEFAULT_PARTS = [
  "start",
  "idle",
  "send",
  "jobs",
  "next",
  "delivery",
  "backlog",
  "open-snapshot",
  "herd",
  "herd-10000",
  "dashboard",
  "kubernetes",
];
/** The round with the median p99 is reported. */
const HERD_ROUNDS = 5;
const PARTS = [...DEFAULT_PARTS, "delivery-own-receiver", "kubernetes-100000"];

const named = process.argv.slice(2);
const parts = named.length > 0 ? named : DEFAULT_PARTS;
const unknown = parts.filter((part) => !PARTS.includes(part));
if (unknown.length > 0) {
  console.error(`no such part: ${unknown.join(", ")}; there are ${PARTS.join(", ")}`);
  process.exit(2);
}

if (parts.includes("start")) {
  const { firstMs, againMs, nodeMs } = await benchStart();
  report("standalone ready after", ms(againMs), `Node alone takes ${ms(nodeMs)}`, [
    `(target ≤ 3,000 ms)  ${ms(firstMs)} with an empty data directory`,
  ]);
}

if (parts.includes("idle")) {
  const { jobs, program, postgres, peer } = await benchIdle();
  report(
    `idle with ${jobs} jobs`,
    `${percent(program)} of a core`,
    `PostgreSQL ${percent(postgres)}`,
    [`a Node process with its metrics alone ${percent(peer)}`],
  );
}

for (const [part, receiver] of [
  ["delivery", "apart"],
  ["delivery-own-receiver", "own"],
] as const) {
  if (!parts.includes(part)) continue;
  const figures = await onOwnDatabase((databaseUrl) => benchDelivery({ databaseUrl, receiver }));
  const { durable, raw, promisedQueue, bareQueue, graphileTuned, graphileDefault, share } = figures;
  compare("durable delivery", durable, "bare undici POST", raw, {
    target: 0.65,
    share: share.ofRaw,
  });
  compare("the least with our promises", promisedQueue, "bare undici POST", raw, {
    share: share.promisedOfRaw,
  });
  compare("the least of a queue", bareQueue, "bare undici POST", raw, { share: share.bareOfRaw });
  compare("durable delivery", durable, "graphile-worker tuned", graphileTuned, {
    target: 1,
    share: share.ofTuned,
  });
  compare("durable delivery", durable, "graphile-worker default", graphileDefault, {
    share: share.ofDefault,
  });
}

if (parts.includes("backlog")) {
  const figures = await onOwnDatabase((databaseUrl) => benchBacklog({ databaseUrl }));
  const { queued, rssBeforeMb, rssMb, cpuShare, others } = figures;
  report(
    "100,000 queued, all hanging",
    `${rssMb.toFixed(0)} MB`,
    `${rssBeforeMb.toFixed(0)} MB before`,
    [`${queued} runs; ${(cpuShare * 100).toFixed(1)} % of a core`],
  );
  report("others meanwhile: lateness", `p50 ${ms(others.p50)}`, `max ${ms(others.max)}`, [
    "(target ≤ 1,000 ms)",
  ]);
}

if (parts.includes("open-snapshot")) {
  const figures = await onOwnDatabase((databaseUrl) => benchOpenSnapshot({ databaseUrl }));
  const { behind, carillon, graphile } = figures;
  for (const [what, { after, without }] of [
    ["one run", carillon],
    ["graphile-worker: one job", graphile],
  ] as const)
    report(what, `${after.toFixed(1)} ms`, `${without.toFixed(1)} ms without the snapshot`, [
      `${behind} done behind it`,
    ]);
}

for (const [part, jobs] of [
  ["kubernetes", 10_000],
  ["kubernetes-100000", 100_000],
] as const) {
  if (!parts.includes(part)) continue;
  const figures = await benchKubernetes(jobs);
  if (figures) reportKubernetes(figures);
}
if (parts.includes("dashboard")) reportDashboard(await benchDashboard());
const OWN_PLACES = [
  "start",
  "idle",
  "delivery",
  "backlog",
  "open-snapshot",
  "dashboard",
  "kubernetes",
];
if (parts.every((part) => OWN_PLACES.some((place) => part.startsWith(place)))) process.exit();

await onOwnProgram(async (target) => {
  if (parts.includes("next")) {
    const { carillonUs, cronParserUs, cronerUs, limitUs } = await benchNextFireTime();
    report("next fire time", `${carillonUs.toFixed(2)} µs`, `limit ${limitUs} µs`, [
      `cron-parser ${cronParserUs.toFixed(0)} µs, croner ${cronerUs.toFixed(0)} µs`,
    ]);
  }
  if (parts.includes("send")) {
    const { sendPerSecond, nodemailerPerSecond, share } = await benchSend(target);
    compare("POST /send", sendPerSecond, "pooled nodemailer", nodemailerPerSecond, {
      target: 0.8,
      share,
    });
  }
  if (parts.includes("jobs")) {
    const { createsPerSecond, insertsPerSecond } = await benchJobs(target);
    compare("POST /jobs", createsPerSecond, "bare INSERT", insertsPerSecond);
  }
  // Warms up the process, as the peer is: during the first herd its code is still being compiled.
  if (parts.includes("herd") || parts.includes("herd-10000")) await benchHerd(1_000, target);
  if (parts.includes("herd")) {
    const rounds: HerdFigures[] = [];
    while (rounds.length < HERD_ROUNDS) rounds.push(await benchHerd(1_000, target));
    rounds.sort((a, b) => a.lateness.p99 - b.lateness.p99);
    const median = rounds[Math.floor(rounds.length / 2)];
    if (median) reportHerd(median, { p99Ms: 300 });
  }
  if (parts.includes("herd-10000"))
    reportHerd(await benchHerd(10_000, target), { recordedMs: 3_000 });
});

/** Runs `work` on a new PostgreSQL with standalone's settings, which no other worker uses. */
async function onOwnDatabase<T>(work: (url: string) => Promise<T>): Promise<T> {
  const home = await mkdtemp(join(tmpdir(), "carillon-bench-"));
  const server = await startEmbeddedPostgres({ dataDir: home });
  return endedWithUs(
    async () => {
      await server.stop();
      await rm(home, { recursive: true, force: true });
    },
    async () => {
      await migrate({ url: server.url, appVersion: "999.0.0" });
      return work(server.url);
    },
  );
}

function report(what: string, figure: string, beside: string, more: readonly string[] = []): void {
  console.log([what.padEnd(28), figure.padEnd(16), beside, ...more].join("  "));
}

function compare(
  what: string,
  perSecond: number,
  peer: string,
  peerPerSecond: number,
  {
    target,
    share = perSecond / peerPerSecond,
  }: {
    target?: number;
    /** The median of the rounds' shares, if it was measured in rounds. */
    share?: number;
  } = {},
): void {
  report(what, `${perSecond.toFixed(0)}/s`, `${peer} ${peerPerSecond.toFixed(0)}/s`, [
    `= ${share.toFixed(2)}${target === undefined ? "" : ` (target ≥ ${target})`}`,
  ]);
}

function reportHerd(figures: HerdFigures, target: { p99Ms?: number; recordedMs?: number }): void {
  const { size, lateness, early, recordedMs, deliveriesPerSecond, rawPerSecond } = figures;
  const name = `herd of ${size}`;
  report(
    `${name}: lateness`,
    `p50 ${ms(lateness.p50)}`,
    `p99 ${ms(lateness.p99)}  max ${ms(lateness.max)}  early ${early}`,
    target.p99Ms === undefined ? [] : [`(target p99 ≤ ${ms(target.p99Ms)})`],
  );
  report(
    `${name}: all recorded`,
    ms(recordedMs),
    "after the due time",
    target.recordedMs === undefined ? [] : [`(target ≤ ${ms(target.recordedMs)})`],
  );
  compare(`${name}: durable`, deliveriesPerSecond, "bare undici POST", rawPerSecond);
}

function reportKubernetes(figures: KubernetesFigures): void {
  const { creates, statusWrites, jobs, bytesPerJob } = figures;
  compare("POST /jobs", creates.restPerSecond, "raw creates", creates.rawPerSecond, {
    target: 0.8,
    share: creates.share,
  });
  report(
    "status writes, herd of 1,000",
    `${statusWrites.busiestSecond}/s`,
    "in the busiest second; bound 50/s and 8 at once",
    [`${statusWrites.written} written, the API server counted ${statusWrites.patches}`],
  );
  for (const [name, leader] of [
    ["first leader", figures.first],
    ["next leader", figures.again],
  ] as const)
    report(
      `${jobs} jobs, ${name}`,
      `${leader.fromLeadershipSeconds.toFixed(1)} s`,
      "from leading to all reconciled (target ≤ 20 s)",
      [
        `${leader.fromStartSeconds.toFixed(1)} s from its start, ${leader.processorSeconds.toFixed(1)} s of processor`,
        `RSS ${megabytes(leader.residentBytes)} (target < 600 MB)`,
      ],
    );
  report("memory per job", `${bytesPerJob.toFixed(0)} bytes`, "of the leader's heap");
  report(`GET /jobs of ${jobs}`, `${figures.listSeconds.toFixed(2)} s`, "one request");
  const { firstMs, p50Ms, p95Ms } = figures.dashboard;
  report(`dashboard's list of ${jobs}`, `p95 ${ms(p95Ms)}`, "a job changes between two requests", [
    `p50 ${ms(p50Ms)}, the first ${ms(firstMs)} (target p95 ≤ 50 ms with 10,000)`,
  ]);
}

function reportDashboard({ jobs, server, bulk, browser }: DashboardFigures): void {
  for (const { what, firstMs, p50Ms, p95Ms } of server)
    report(`${jobs} jobs: ${what}`, `p95 ${ms(p95Ms)}`, "a job changes between two requests", [
      `p50 ${ms(p50Ms)}, the first ${ms(firstMs)} (target p95 ≤ 50 ms)`,
    ]);
  report(`pausing a page of ${bulk.jobs}`, ms(bulk.ms), "one request");
  if (browser === undefined) return;
  const { firstContentfulPaintMs, scriptBytes, rowsMs, pageMs, longestTaskMs } = browser;
  report(
    "first contentful paint",
    ms(firstContentfulPaintMs),
    "cold cache, loopback, median of 5",
    ["(target ≤ 1000 ms)"],
  );
  report("scripts of the first load", `${(scriptBytes / 1_000).toFixed(0)} kB`, "compressed", [
    "(target ≤ 250 kB)",
  ]);
  report("jobs page: rows", ms(rowsMs), "from the click on Jobs");
  report("jobs page: next page", `p50 ${ms(pageMs.p50)}`, `max ${ms(pageMs.max)} of twenty`);
  report("jobs page: longest task", ms(longestTaskMs), "paging, searching, scrolling", [
    "(target ≤ 100 ms)",
  ]);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(0)} MB`;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

function ms(value: number): string {
  return `${value.toFixed(0)} ms`;
}
