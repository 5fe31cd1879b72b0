import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { OnceState } from "../../../src/domain/cursor.ts";
import { seedManyJobs, type SeededJob } from "../../postgres/many-jobs.ts";
import { newUser, type Visitor } from "./dashboard-visitor.ts";
import { startHarness, type Harness } from "./harness.ts";

const COUNT = 10_000;

interface Row {
  id: string;
  name: string;
  type: string;
  status: string;
  target: string;
  next_run_at: string | null;
  last_run_at: string | null;
  last_status: string | null;
}
interface JobsPage {
  jobs: Row[];
  total: number;
  counts: Record<string, number>;
}

let harness: Harness;
let owner: Visitor;
let seeded: SeededJob[];
beforeAll(async () => {
  harness = await startHarness();
  const { first, second } = harness;
  // Jobs of another account, which must not be found.
  await seed(second.account, 50);
  seeded = await seed(first.account, COUNT);
  owner = await newUser(harness, { account: first.account, email: "owner@example.com" });
});
afterAll(() => harness.close());

const seed = (account: string, count: number) =>
  seedManyJobs({ pool: harness.pool, account, count, now: harness.clock.now() });

const list = async (query = "", by = owner): Promise<JobsPage> => {
  const reply = await by.get(`/jobs?${query}`);
  expect([query, reply.status]).toEqual([query, 200]);
  return reply.json as unknown as JobsPage;
};
const statusOf = ({ spec, once }: SeededJob): string =>
  once === "armed" ? (spec.suspend ? "paused" : "active") : once === "missed" ? "failed" : once;
const addressOf = ({ target }: SeededJob["spec"]): string =>
  target.kind === "webhook" ? target.url : target.to;
const newestFirst = () => seeded.toReversed();
const isMissed = ({ once, last }: SeededJob) => once === "missed" && last === null;
const isFailing = (job: SeededJob) =>
  !job.spec.suspend && (job.last?.status === "failed" || isMissed(job));

interface Overview {
  failing: {
    total: number;
    jobs: { id: string; missed: boolean; error_message: string | null; at: string }[];
  };
}
const overview = async (by = owner) => (await by.get("/overview")).json as unknown as Overview;

/** All pages of a query, one after the other. */
async function everyPage(query: string, by = owner): Promise<{ rows: Row[]; total: number }> {
  const rows: Row[] = [];
  for (;;) {
    const { jobs, total } = await list(`${query}&limit=200&offset=${rows.length}`, by);
    rows.push(...jobs);
    if (rows.length >= total || jobs.length === 0) return { rows, total };
  }
}

test("pages show every job once, newest first", async () => {
  const { rows, total } = await everyPage("sort=created");
  expect(total).toBe(COUNT);
  expect(rows.map(({ id }) => id)).toEqual(newestFirst().map(({ id }) => id));
  const beyond = await list("offset=10000");
  expect(beyond).toMatchObject({ jobs: [], total: COUNT });
});

test("each row says what its job is", async () => {
  const { rows } = await everyPage("sort=created");
  expect(rows.map(({ id, status, type, target }) => [id, status, type, target])).toEqual(
    newestFirst().map((job) => [job.id, statusOf(job), job.spec.target.kind, addressOf(job.spec)]),
  );
  for (const { status, next_run_at: next } of rows)
    expect([status, next === null]).toEqual([status, status !== "active"]);
});

test("all jobs are counted by status, whatever is asked for", async () => {
  const counts: Record<string, number> = {};
  for (const job of seeded) counts[statusOf(job)] = (counts[statusOf(job)] ?? 0) + 1;
  expect((await list("q=nothing+has+this")).counts).toEqual(counts);
  expect((await owner.get("/overview")).json["jobs"]).toEqual(counts);
});

test("the overview counts the failing jobs that its link shows, and begins as their list", async () => {
  const { failing } = await overview();
  const { total, jobs } = await list("status=failing&sort=last_run&limit=8");
  expect(total).toBe(seeded.filter(isFailing).length);
  expect(failing.total).toBe(total);
  expect(failing.jobs).toEqual(
    jobs.map(({ id, name, last_run_at: at }) => ({
      id,
      name,
      missed: false,
      error_message: "the receiver answered 500",
      at,
    })),
  );
});

describe("filters and search", () => {
  const questions: { query: string; holds: (job: SeededJob) => boolean }[] = [
    { query: "status=paused", holds: (job) => statusOf(job) === "paused" },
    { query: "status=completed", holds: (job) => statusOf(job) === "completed" },
    { query: "status=failed", holds: (job) => statusOf(job) === "failed" },
    { query: "status=failing", holds: isFailing },
    {
      query: "status=failing&type=email",
      holds: (job) => isFailing(job) && job.spec.target.kind === "email",
    },
    { query: "type=email", holds: ({ spec }) => spec.target.kind === "email" },
    { query: "q=%C3%BCBERPR%C3%BCFUNG", holds: ({ spec }) => spec.name.startsWith("Überprüfung") },
    { query: "q=HOOKS/88", holds: ({ spec }) => addressOf(spec).endsWith("/hooks/88") },
    { query: "q=team-9%40", holds: ({ spec }) => addressOf(spec) === "team-9@example.com" },
    {
      query: "q=job-0424&type=webhook",
      holds: ({ id, spec }) => id.startsWith("job-0424") && spec.target.kind === "webhook",
    },
  ];
  test.each(questions)("$query", async ({ query, holds }) => {
    const { rows, total } = await everyPage(query);
    const expected = newestFirst().filter(holds);
    expect(expected.length).toBeGreaterThan(0);
    expect(total).toBe(expected.length);
    expect(rows.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
  });
});

describe("orders", () => {
  test("by name, as people order names", async () => {
    const { rows } = await everyPage("sort=name");
    const names = seeded.map(({ spec }) => spec.name).sort((a, b) => a.localeCompare(b, "en"));
    expect(rows.map(({ name }) => name)).toEqual(names);
    const paused = await everyPage("sort=name&status=paused");
    const expected = seeded
      .filter((job) => statusOf(job) === "paused")
      .map(({ spec }) => spec.name);
    expect(paused.rows.map(({ name }) => name)).toEqual(
      expected.sort((a, b) => a.localeCompare(b, "en")),
    );
  });

  test("by next run, those without one last", async () => {
    const { rows } = await everyPage("sort=next_run");
    const times = rows.map(({ next_run_at: next }) =>
      next === null ? Infinity : Date.parse(next),
    );
    expect(times).toEqual(times.toSorted((a, b) => (a < b ? -1 : Number(a > b))));
    expect(new Set(rows.map(({ id }) => id)).size).toBe(COUNT);
    const { next_runs: next } = (await owner.get("/overview")).json as {
      next_runs: { at: string }[];
    };
    expect(next.map(({ at }) => Date.parse(at))).toEqual(times.slice(0, 8));
  });

  test("by last run, the newest first", async () => {
    const { rows } = await everyPage("sort=last_run");
    const expected = seeded
      .map(({ last }) => last?.executedAt ?? 0)
      .sort((a, b) => b - a)
      .map((at) => (at === 0 ? null : new Date(at).toISOString()));
    expect(rows.map(({ last_run_at: last }) => last)).toEqual(expected);
  });
});

describe("what changes is seen by the next look", () => {
  let account: string;
  let editor: Visitor;
  let theirs: SeededJob[];
  beforeAll(async () => {
    ({ account } = await harness.newAccount("changing"));
    theirs = await seed(account, COUNT);
    editor = await newUser(harness, { account, email: "editor@example.com" });
  });
  const shown = (query = "") => list(query, editor);

  const picked = new Set<SeededJob>();
  /** Picks a job that has not been picked before. */
  const pick = (what: (job: SeededJob) => boolean): SeededJob => {
    const job = theirs.find((each) => !picked.has(each) && what(each));
    if (!job) throw new Error("no such job was seeded");
    picked.add(job);
    return job;
  };

  test("pause, rename, delete, create", async () => {
    const before = await shown();
    const job = pick((each) => statusOf(each) === "active");
    await editor.post(`/jobs/${job.id}/pause`);
    expect(await shown(`q=${job.id}&status=paused`)).toMatchObject({
      jobs: [{ id: job.id, next_run_at: null }],
    });
    await editor.ask("PATCH", `/jobs/${job.id}`, { name: "ZZ renamed" });
    expect((await shown("q=zz+renamed")).total).toBe(1);
    expect((await shown(`sort=name&limit=1&offset=${before.total - 1}`)).jobs).toMatchObject([
      { id: job.id },
    ]);
    await editor.ask("DELETE", `/jobs/${job.id}`);
    expect(await shown("q=zz+renamed")).toMatchObject({ total: 0 });
    expect((await shown()).total).toBe(before.total - 1);
    const made = await editor.post("/jobs", {
      name: "AA created",
      type: "webhook",
      schedule_type: "cron",
      cron_expression: "0 3 * * *",
      webhook_url: "http://127.0.0.1:9/",
    });
    expect((await shown("limit=1")).jobs).toMatchObject([{ id: made.json["id"] }]);
    expect((await shown("sort=name&limit=1")).jobs).toMatchObject([{ name: "AA created" }]);
  });

  test("a run that fails makes its job a failing one; a halt pauses it, and is no less a failure", async () => {
    const job = pick((each) => statusOf(each) === "active" && each.last === null);
    expect((await editor.post(`/jobs/${job.id}/run`)).status).toBe(202);
    await harness.deliverOne(500);
    expect(await shown(`q=${job.id}&status=failing`)).toMatchObject({
      jobs: [{ id: job.id, last_status: "failed" }],
    });
    await harness.takeUp(account, job.id, { haltedGeneration: 1 });
    expect(await shown(`q=${job.id}&status=failing`)).toMatchObject({
      jobs: [{ id: job.id, status: "paused" }],
    });
  });

  const cron = { schedule_type: "cron", cron_expression: "0 3 1 2 *" };
  const oneTime = {
    schedule_type: "one_time",
    run_at: new Date(Date.now() + 86_400_000).toISOString(),
  };
  const outcomes: {
    what: string;
    schedule: object;
    answers: readonly number[];
    once?: OnceState;
    paused?: boolean;
    becomes: string;
    failing: boolean;
  }[] = [
    {
      what: "an active job that succeeds",
      schedule: cron,
      answers: [200],
      becomes: "active",
      failing: false,
    },
    {
      what: "an active job that fails",
      schedule: cron,
      answers: [500],
      becomes: "active",
      failing: true,
    },
    {
      what: "an active job that failed and succeeds",
      schedule: cron,
      answers: [500, 200],
      becomes: "active",
      failing: false,
    },
    {
      what: "a job that failed and is paused",
      schedule: cron,
      answers: [500],
      paused: true,
      becomes: "paused",
      failing: false,
    },
    {
      what: "a one-time job that failed",
      schedule: oneTime,
      answers: [500],
      once: "failed",
      becomes: "failed",
      failing: true,
    },
    {
      what: "a one-time job that failed, and succeeded when it was run by hand",
      schedule: oneTime,
      answers: [500, 200],
      once: "failed",
      becomes: "failed",
      failing: false,
    },
    {
      what: "a one-time job that missed its time",
      schedule: oneTime,
      answers: [],
      once: "missed",
      becomes: "failed",
      failing: true,
    },
    {
      what: "a one-time job that missed its time, and was run by hand before it",
      schedule: oneTime,
      answers: [200],
      once: "missed",
      becomes: "failed",
      failing: true,
    },
    {
      what: "a one-time job that missed its time, and is paused",
      schedule: oneTime,
      answers: [],
      once: "missed",
      paused: true,
      becomes: "failed",
      failing: false,
    },
  ];
  test.each(outcomes)(
    "$what needs attention: $failing, on the overview and in its list",
    async ({ schedule, answers, once = "armed", paused = false, becomes, failing }) => {
      const before = (await shown("status=failing")).total;
      const made = await editor.post("/jobs", {
        name: "Outcome",
        type: "webhook",
        webhook_url: "http://127.0.0.1:9/",
        ...schedule,
      });
      const id = String(made.json["id"]);
      await harness.takeUp(account, id);
      for (const answer of answers) {
        expect((await editor.post(`/jobs/${id}/run`)).status).toBe(202);
        await harness.deliverOne(answer);
      }
      await harness.takeUp(account, id, { once });
      if (paused) await editor.post(`/jobs/${id}/pause`);
      expect(await shown(`q=${id}`)).toMatchObject({ jobs: [{ id, status: becomes }] });
      const listed = await shown(`status=failing&q=${id}`);
      const { total } = await shown("status=failing");
      const { failing: counted } = await overview(editor);
      expect([total - before, listed.total]).toEqual([Number(failing), Number(failing)]);
      expect([counted.total, counted.jobs.some((job) => job.id === id)]).toEqual([total, failing]);
    },
  );

  test("a missed job needs attention until it is run again and succeeds, with what is known of it", async () => {
    const { id } = pick(isMissed);
    const known = async () => {
      const { jobs } = await shown(`status=failing&q=${id}`);
      const shownNow = (await overview(editor)).failing.jobs.find((job) => job.id === id);
      return [jobs.length, shownNow];
    };
    // Its time was long before what failed lately.
    expect(await known()).toEqual([1, undefined]);
    const run = async (answer: number) => {
      expect((await editor.post(`/jobs/${id}/run`)).status).toBe(202);
      await harness.deliverOne(answer);
    };
    await run(500);
    const failed = { missed: false, error_message: "the receiver answered 500" };
    expect(await known()).toMatchObject([1, failed]);
    await run(200);
    expect(await known()).toEqual([0, undefined]);
  });

  test("the overview says which time a job missed", async () => {
    const { account: other } = await harness.newAccount("missing");
    const visitor = await newUser(harness, { account: other, email: "missing@example.com" });
    const made = await visitor.post("/jobs", {
      name: "Once",
      type: "webhook",
      webhook_url: "http://127.0.0.1:9/",
      ...oneTime,
    });
    await harness.takeUp(other, String(made.json["id"]), { once: "missed" });
    expect((await overview(visitor)).failing).toEqual({
      total: 1,
      jobs: [
        {
          id: made.json["id"],
          name: "Once",
          missed: true,
          error_message: null,
          at: oneTime.run_at,
        },
      ],
    });
  });

  test("a page of jobs is paused at once", async () => {
    const { jobs } = await shown("status=active&limit=200");
    const ids = jobs.map(({ id }) => id);
    expect((await editor.post("/jobs/bulk", { action: "pause", ids })).json).toEqual({
      changed: 200,
      failures: [],
    });
    const paused = new Set((await everyPage("status=paused", editor)).rows.map(({ id }) => id));
    expect(ids.filter((id) => !paused.has(id))).toEqual([]);
  });
});
