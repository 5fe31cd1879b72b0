import { setTimeout } from "node:timers/promises";
import { createPool } from "../src/postgres/pool.ts";
import { until } from "../test/until.ts";
import { createApiClient } from "./api-client.ts";
import { concurrently } from "./concurrently.ts";
import { benchRawPost } from "./raw-post.ts";
import { startSink } from "./sink-process.ts";

const CREATE_WIDTH = 32;
/** Pessimistic: by the due time that is computed from it, all jobs must have been created. */
const CREATES_PER_SECOND = 300;
const RAW = { count: 10_000, width: 64 };

export interface HerdFigures {
  size: number;
  /** Milliseconds from the common due time to the call's arrival. */
  lateness: { p50: number; p99: number; max: number };
  /** Calls that arrived before they were due: must be 0. */
  early: number;
  /** From the due time until every run is closed in the database. */
  recordedMs: number;
  deliveriesPerSecond: number;
  rawPerSecond: number;
}

/** `size` one-time webhook jobs due in the same second, beside bare POSTs to the same sink. */
export async function benchHerd(
  size: number,
  target: { url: string; key: string; databaseUrl: string },
): Promise<HerdFigures> {
  const sink = await startSink("http-sink");
  const sinkUrl = `http://127.0.0.1:${sink.port}/`;
  await benchRawPost(sinkUrl, { ...RAW, count: 1_000 });
  const rawPerSecond = await benchRawPost(sinkUrl, RAW);
  await sink.ask("arrivals");

  const api = createApiClient({ ...target, width: CREATE_WIDTH });
  const runAt = Math.ceil(Date.now() / 1_000 + size / CREATES_PER_SECOND + 5) * 1_000;
  await concurrently({ count: size, width: CREATE_WIDTH }, () =>
    api.post("/jobs", {
      name: "herd",
      type: "webhook",
      schedule_type: "one_time",
      run_at: new Date(runAt).toISOString(),
      webhook_url: sinkUrl,
      webhook_payload: { hello: "world" },
    }),
  );
  if (Date.now() > runAt) throw new Error("the jobs were not created in time: choose fewer");
  await api.close();
  const pool = createPool({ url: target.databaseUrl, applicationName: "carillon bench", max: 1 });
  // Neither is asked before the due time, and the database only after the sink: the questions would slow down what is
  // measured.
  await setTimeout(runAt - Date.now());
  const within = 120_000;
  await until(
    `${size} calls`,
    async () => ((await sink.ask("count")) === size ? true : undefined),
    within,
  );
  const recordedAt = await until(
    `${size} runs recorded`,
    async () => {
      const { rows } = await pool.query<{ left: boolean }>(
        "select exists (select from runs) as left",
      );
      return rows[0]?.left === false ? Date.now() : undefined;
    },
    within,
  );
  const arrivals = ((await sink.ask("arrivals")) as number[]).map((at) => at - runAt);
  arrivals.sort((a, b) => a - b);
  sink.close();
  await pool.end();
  const at = (share: number) => arrivals[Math.ceil(arrivals.length * share) - 1] ?? Number.NaN;
  const recordedMs = recordedAt - runAt;
  return {
    size,
    lateness: { p50: at(0.5), p99: at(0.99), max: at(1) },
    early: arrivals.filter((late) => late < 0).length,
    recordedMs,
    deliveriesPerSecond: size / (recordedMs / 1_000),
    rawPerSecond,
  };
}
