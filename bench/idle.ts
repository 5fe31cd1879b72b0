import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import { createApiClient } from "./api-client.ts";
import { concurrently } from "./concurrently.ts";
import { endedWithUs } from "./ended-with-us.ts";
import { onOwnProgram } from "./own-program.ts";

const JOBS = 10_000;
/** Milliseconds after the last request until everything is quiet, and those that are measured. */
const SETTLE = 20_000;
const MEASURED = 60_000;

/** A process that does nothing but keep the metrics which prom-client offers of every process. */
const PEER = `
  import { collectDefaultMetrics } from "prom-client";
  collectDefaultMetrics();
  setInterval(() => undefined, 60_000);
  console.log("ready");
`;

export interface IdleFigures {
  jobs: number;
  /** Shares of one core: the program, its PostgreSQL, and the peer meanwhile. */
  program: number;
  postgres: number;
  peer: number;
}

/** Standalone with jobs of which none becomes due. Linux only: processor time comes from /proc. */
export async function benchIdle(): Promise<IdleFigures> {
  const peer = spawn(process.execPath, ["--input-type=module", "--eval", PEER]);
  return endedWithUs(
    async () => {
      peer.kill();
    },
    async () => {
      await once(peer.stdout, "data");
      return onOwnProgram(async ({ program, url, key }) => {
        const api = createApiClient({ url, key, width: 32 });
        await concurrently({ count: JOBS, width: 32 }, () =>
          api.post("/jobs", {
            name: "idle",
            type: "webhook",
            schedule_type: "cron",
            cron_expression: "0 3 1 1 *",
            webhook_url: "http://127.0.0.1:9/",
          }),
        );
        await api.close();
        await setTimeout(SETTLE);
        const shares = await sharesOfACore({
          program: async () => [program.child.pid],
          postgres: () => descendants(program.child.pid),
          peer: async () => [peer.pid],
        });
        return { jobs: JOBS, ...shares };
      });
    },
  );
}

type Processes = () => Promise<readonly (number | undefined)[]>;

/** What each group of processes takes within `MEASURED`. Of one that ends meanwhile, nothing is known. */
async function sharesOfACore<G extends string>(
  groups: Record<G, Processes>,
): Promise<Record<G, number>> {
  const names = Object.keys(groups) as G[];
  const before = await Promise.all(names.map((name) => processorMs(groups[name])));
  await setTimeout(MEASURED);
  const after = await Promise.all(names.map((name) => processorMs(groups[name])));
  const shares = names.map((name, group) => {
    let ms = 0;
    for (const [pid, until] of after[group] ?? []) ms += until - (before[group]?.get(pid) ?? 0);
    return [name, ms / MEASURED];
  });
  return Object.fromEntries(shares) as Record<G, number>;
}

/** Of each process, all threads together (the first number of `schedstat`, in nanoseconds). */
async function processorMs(processes: Processes): Promise<Map<number, number>> {
  const used = new Map<number, number>();
  for (const pid of await processes()) {
    if (pid === undefined) continue;
    let ms = 0;
    for (const thread of await readdir(`/proc/${pid}/task`).catch(() => [])) {
      const text = await readFile(`/proc/${pid}/task/${thread}/schedstat`, "utf8").catch(() => "0");
      ms += Number(text.split(" ")[0]) / 1e6;
    }
    used.set(pid, ms);
  }
  return used;
}

async function descendants(pid: number | undefined): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  const children = text.split(" ").filter(Boolean).map(Number);
  return children.concat(...(await Promise.all(children.map(descendants))));
}
