import { createPool } from "../src/postgres/pool.ts";
import { createApiClient } from "./api-client.ts";
import { concurrently } from "./concurrently.ts";

const LOAD = { count: 3_000, width: 32 };

export interface JobsFigures {
  createsPerSecond: number;
  insertsPerSecond: number;
}

/** POST /jobs, beside single-row inserts of the same text into a bare table of the same database. */
export async function benchJobs(target: {
  url: string;
  key: string;
  databaseUrl: string;
}): Promise<JobsFigures> {
  const pool = createPool({ url: target.databaseUrl, applicationName: "carillon bench", max: 10 });
  await pool.query("create table bench_inserts (id text primary key, spec jsonb not null)");
  const api = createApiClient({ ...target, width: LOAD.width });
  const job = {
    name: "bench",
    type: "webhook",
    schedule_type: "cron",
    cron_expression: "0 3 1 1 *",
    webhook_url: "http://127.0.0.1:9/",
    webhook_payload: { hello: "world" },
  };
  const insert = async (index: number): Promise<void> => {
    await pool.query({
      name: "bench_insert",
      text: "insert into bench_inserts (id, spec) values ($1, $2)",
      values: [`job-${index}`, JSON.stringify(job)],
    });
  };
  const create = () => api.post("/jobs", job);
  await concurrently({ count: 200, width: LOAD.width }, create);
  const insertsPerSecond = await concurrently(LOAD, insert);
  const createsPerSecond = await concurrently(LOAD, create);
  await pool.query("drop table bench_inserts");
  await pool.end();
  await api.close();
  return { createsPerSecond, insertsPerSecond };
}
