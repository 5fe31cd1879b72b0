/** Writes many large jobs to the database whose URL it is given, in a worker of little memory. */
import { workerData } from "node:worker_threads";
import { timers } from "../../../cmd/system.ts";
import { createNotifications } from "../../../src/postgres/notifications.ts";
import { createPool } from "../../../src/postgres/pool.ts";
import { createPostgresJobStore } from "../../../src/postgres/postgres-job-store.ts";
import { createRunLedger } from "../../../src/postgres/run-ledger.ts";
import { change, job, spec } from "./runs-fixture.ts";

export interface LargeJobs {
  url: string;
  /** As a leader that sees all of them for the first time, or as a gateway that is asked for all at once. */
  as: "leader" | "gateway";
  account: string;
  uids: string[];
  payload: string;
}

const { url, as, account, uids, payload } = workerData as LargeJobs;
const pool = createPool({ url, applicationName: "test", max: 1, plans: "fixed" });
const large = spec();
if (large.target.kind === "webhook") large.target.payload = payload;
if (as === "leader") {
  const jobs = uids.map((uid) => job({ uid, account, spec: large }));
  await createRunLedger({ pool }).apply(jobs.map((of) => change(of)));
} else {
  const notifications = createNotifications({ url, applicationName: "test" });
  const store = createPostgresJobStore({ pool, notifications, timers });
  await Promise.all(uids.map((id) => store.create({ account, id, spec: large })));
  await notifications.close();
}
await pool.end();
