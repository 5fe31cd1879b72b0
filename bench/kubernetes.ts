import { Agent, request } from "undici";
import { until } from "../test/until.ts";
import { createApiClient } from "./api-client.ts";
import { concurrently } from "./concurrently.ts";
import { sumMetric, type Part } from "../test/kubernetes/part.ts";
import { timed, type ServerFigure } from "./dashboard.ts";
import { signInClient } from "./dashboard-client.ts";
import { createInstallation, type Installation } from "./kubernetes-installation.ts";
import { seedScheduledJobs } from "./kubernetes-seed.ts";
import { median } from "./median.ts";
import { startSink } from "./sink-process.ts";

/** Not counted, because the program's first requests take twice as long. */
const WARM_UP = { count: 480, width: 32 };
/**
 * The two sides take turns, so that both see the same machine. The turns are short: with turns of 300 creates, which
 * take some 300 ms, the one side was sometimes 2.5 times as fast as the other, and sometimes the other way round.
 */
const CREATES = { count: 64, width: 32 };
const ROUNDS = 30;
const HERD = 1_000;
/** Long enough for the status writer to be busy, whatever its limit is. */
const WINDOW_MS = 20_000;

interface ReadyFigures {
  /** From the start of the process until every job had been reconciled. */
  fromStartSeconds: number;
  /** The same, counted from the moment at which the process became the leader. */
  fromLeadershipSeconds: number;
  /** Processor time of the controller until then: about what the figure would be on an idle machine. */
  processorSeconds: number;
  residentBytes: number;
  heapBytes: number;
}

/** Medians. */
interface CreateFigures {
  restPerSecond: number;
  rawPerSecond: number;
  /** rest ÷ raw of the same round. */
  share: number;
}

export interface KubernetesFigures {
  creates: CreateFigures;
  /** While 1,000 jobs ran in the same second. `patches` is the API server's own count of the writes. */
  statusWrites: { busiestSecond: number; written: number; patches: number };
  jobs: number;
  /** The first start: no controller has seen the jobs yet, so a cursor and a revision are stored for each. */
  first: ReadyFigures;
  /** A later start, as after an upgrade: the cursors exist. */
  again: ReadyFigures;
  /** What each further job adds to the leader's heap. */
  bytesPerJob: number;
  /** GET /jobs, for all of them at once. */
  listSeconds: number;
  /** The first page of the dashboard's list. */
  dashboard: Omit<ServerFigure, "what">;
}

/** Undefined when no control plane can be started, after saying why. */
export async function benchKubernetes(count: number): Promise<KubernetesFigures | undefined> {
  const installation = await createInstallation();
  if (installation === undefined) return undefined;
  try {
    const gateway = await installation.start("gateway");
    const creates = await benchCreates(installation, gateway);
    const scheduler = await installation.start("controller");
    const statusWrites = await benchStatusWrites(
      installation,
      gateway,
      scheduler,
      creates.restPerSecond,
    );
    await scheduler.stop();

    const made = 2 * (WARM_UP.count + ROUNDS * CREATES.count) + HERD;
    // A new controller, which has delivered nothing, like those with which its memory is compared.
    const fewer = await benchReady(installation, made);
    const { controlPlane, namespace } = installation;
    await seedScheduledJobs({ etcdUrl: controlPlane.etcdUrl, namespace, count });
    const jobs = made + count;
    const first = await benchReady(installation, jobs);
    const again = await benchReady(installation, jobs);
    const listSeconds = await benchList(installation, gateway, jobs);
    const dashboard = await benchDashboardList(installation, gateway);
    const bytesPerJob = (again.heapBytes - fewer.heapBytes) / count;
    return { creates, statusWrites, jobs, first, again, bytesPerJob, listSeconds, dashboard };
  } finally {
    await installation.close();
  }
}

/** POST /jobs, beside creates of the same resources by a plain HTTP client with its own pool. */
async function benchCreates(
  { controlPlane, authorization, namespace, key }: Installation,
  gateway: Part,
): Promise<CreateFigures> {
  const dispatcher = new Agent({
    connections: CREATES.width,
    connect: { ca: controlPlane.ca() },
  });
  const headers = { ...authorization, "content-type": "application/json" };
  let serial = 0;
  const createRaw = async (): Promise<void> => {
    const answer = await request(
      `${controlPlane.server}/apis/carillon.dev/v1/namespaces/${namespace}/scheduledjobs`,
      {
        method: "POST",
        headers,
        dispatcher,
        body: JSON.stringify({
          apiVersion: "carillon.dev/v1",
          kind: "ScheduledJob",
          metadata: {
            name: `raw-${(serial += 1)}`,
            labels: { "app.kubernetes.io/managed-by": "carillon" },
          },
          spec: {
            displayName: "bench",
            schedule: { cron: "0 3 1 1 *", timeZone: "UTC" },
            webhook: {
              url: "http://127.0.0.1:9/",
              payload: { hello: "world" },
              timeoutSeconds: 30,
            },
            suspend: false,
            deliveryDeadlineSeconds: 3600,
            concurrencyPolicy: "Allow",
            retry: { maxRetries: 0, minBackoffSeconds: 5, maxBackoffSeconds: 3600 },
          },
        }),
      },
    );
    const text = await answer.body.text();
    if (answer.statusCode !== 201) throw new Error(`create: ${answer.statusCode} ${text}`);
  };
  const api = createApiClient({ url: gateway.url, key, width: CREATES.width });
  const create = () =>
    api.post("/jobs", {
      name: "bench",
      type: "webhook",
      schedule_type: "cron",
      cron_expression: "0 3 1 1 *",
      webhook_url: "http://127.0.0.1:9/",
      webhook_payload: { hello: "world" },
    });
  const rounds: CreateFigures[] = [];
  await concurrently(WARM_UP, createRaw);
  await concurrently(WARM_UP, create);
  while (rounds.length < ROUNDS) {
    const rawPerSecond = await concurrently(CREATES, createRaw);
    const restPerSecond = await concurrently(CREATES, create);
    rounds.push({ restPerSecond, rawPerSecond, share: restPerSecond / rawPerSecond });
  }
  await Promise.all([dispatcher.close(), api.close()]);
  return {
    restPerSecond: median(rounds.map((round) => round.restPerSecond)),
    rawPerSecond: median(rounds.map((round) => round.rawPerSecond)),
    share: median(rounds.map((round) => round.share)),
  };
}

/** Status writes a second while 1,000 one-time jobs run in the same second and complete. */
async function benchStatusWrites(
  installation: Installation,
  gateway: Part,
  controller: Part,
  createsPerSecond: number,
): Promise<KubernetesFigures["statusWrites"]> {
  const { key } = installation;
  const sink = await startSink("http-sink");
  const api = createApiClient({ url: gateway.url, key, width: CREATES.width });
  // Three times the creates' own time: the controller that takes up the jobs meanwhile costs the API server as much
  // again.
  const runAt = Math.ceil(Date.now() / 1_000 + 10 + (3 * HERD) / createsPerSecond) * 1_000;
  await concurrently({ count: HERD, width: 8 }, () =>
    api.post("/jobs", {
      name: "herd",
      type: "webhook",
      schedule_type: "one_time",
      run_at: new Date(runAt).toISOString(),
      webhook_url: `http://127.0.0.1:${sink.port}/`,
    }),
  );
  await api.close();
  if (Date.now() > runAt) throw new Error("the jobs were not created in time");
  await until("the due time", () => (Date.now() >= runAt ? true : undefined), 60_000);
  const written = () => controller.metric("carillon_status_writes_total", 'outcome="written"');
  const patches = await statusPatches(installation);
  const samples: { at: number; written: number }[] = [];
  const end = performance.now() + WINDOW_MS;
  await until(
    "the end of the window",
    async () => {
      samples.push({ at: performance.now(), written: await written() });
      return performance.now() > end ? true : undefined;
    },
    WINDOW_MS * 2,
  );
  await until(
    "every run of the herd",
    async () => ((await sink.ask("count")) === HERD ? true : undefined),
    120_000,
  );
  sink.close();
  return {
    busiestSecond: busiestSecond(samples),
    written: (samples.at(-1)?.written ?? 0) - (samples[0]?.written ?? 0),
    patches: (await statusPatches(installation)) - patches,
  };
}

/** How many were written in the busiest second. */
function busiestSecond(samples: readonly { at: number; written: number }[]): number {
  let most = 0;
  let first = 0;
  for (const { at, written } of samples) {
    while (at - (samples[first]?.at ?? at) > 1_000) first += 1;
    most = Math.max(most, written - (samples[first]?.written ?? written));
  }
  return most;
}

/** How many PATCH requests of a status the API server has counted so far. */
async function statusPatches({ controlPlane, authorization }: Installation): Promise<number> {
  const dispatcher = new Agent({ connect: { ca: controlPlane.ca() } });
  const answer = await request(`${controlPlane.server}/metrics`, {
    headers: authorization,
    dispatcher,
  });
  const text = await answer.body.text();
  await dispatcher.close();
  return sumMetric(
    text,
    "apiserver_request_total",
    'resource="scheduledjobs"',
    'subresource="status"',
    'verb="PATCH"',
  );
}

/** Starts a controller and waits until it leads and has reconciled all jobs; measured by its log and its metrics. */
async function benchReady(installation: Installation, jobs: number): Promise<ReadyFigures> {
  const controller = await installation.start("controller");
  const ready = await until(
    `${jobs} jobs reconciled`,
    async () => {
      const text = await controller.metrics();
      const reconciled = sumMetric(text, "carillon_jobs");
      const waiting = sumMetric(text, "carillon_reconcile_queue_depth");
      return reconciled >= jobs && waiting === 0 ? Date.now() : undefined;
    },
    600_000,
  );
  const leading = controller.logged("leading: scheduling begins");
  const led = Date.parse(String(leading?.["time"]));
  const processorSeconds = await controller.metric("carillon_process_cpu_seconds_total");
  const memory = await memoryOf(controller);
  await controller.stop();
  return {
    processorSeconds,
    fromStartSeconds: (ready - controller.started) / 1_000,
    fromLeadershipSeconds: (ready - led) / 1_000,
    ...memory,
  };
}

/** Of the heap, what is in use after all garbage was collected. */
async function memoryOf(part: Part): Promise<{ residentBytes: number; heapBytes: number }> {
  const residentBytes = await part.metric("carillon_process_resident_memory_bytes");
  part.program.signal("SIGUSR2");
  // By the time that this is answered, the signal has been handled.
  await part.metrics();
  return { residentBytes, heapBytes: await part.metric("carillon_nodejs_heap_size_used_bytes") };
}

async function benchList({ key }: Installation, gateway: Part, jobs: number): Promise<number> {
  const began = performance.now();
  const answer = await fetch(`${gateway.url}/jobs`, { headers: { "x-api-key": key } });
  const listed = ((await answer.json()) as unknown[]).length;
  if (listed !== jobs) throw new Error(`GET /jobs: ${answer.status}, ${listed} of ${jobs}`);
  return (performance.now() - began) / 1_000;
}

async function benchDashboardList(
  installation: Installation,
  gateway: Part,
): Promise<KubernetesFigures["dashboard"]> {
  const owner = await installation.owner();
  const client = await signInClient(gateway.url, owner);
  const { jobs } = (await client.get("/jobs?limit=100")) as { jobs: { id: string }[] };
  return timed(client, "/jobs?limit=25", (sample) => jobs[sample]?.id ?? "");
}
