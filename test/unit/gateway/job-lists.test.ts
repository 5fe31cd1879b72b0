import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { timers } from "../../../cmd/system.ts";
import type { Job } from "../../../src/domain/job.ts";
import { answerText } from "../../../src/gateway/endpoint.ts";
import { createListTurns } from "../../../src/gateway/read-turns.ts";
import { jobRoutes, type JobRouteOptions } from "../../../src/gateway/routes/jobs.ts";
import { collectGarbage } from "../../collect-garbage.ts";
import { cronSpec } from "../../conformance/job-store.ts";

type List = (from: { continue?: string }) => Promise<{ jobs: Job[]; continue?: string }>;

function routesOf(list: List) {
  const turns = createListTurns({ connections: 10, timers });
  return jobRoutes({
    jobs: { list },
    history: { cursors: async () => new Map() },
    pageInTurn: turns.page,
    listInTurn: turns.list,
  } as unknown as JobRouteOptions);
}
const ALL = { account: "a", query: {}, gone: () => false } as Parameters<
  ReturnType<typeof routesOf>["listJobs"]
>[0];

test("a crowd's lists of jobs come one after the other, and are not all kept in part", async () => {
  let begun = 0;
  let done = 0;
  let most = 0;
  const list: List = async ({ continue: from = "0" }) => {
    if (from === "0") begun += 1;
    most = Math.max(most, begun - done);
    await setImmediate();
    return { jobs: [], ...(from === "9" ? {} : { continue: String(Number(from) + 1) }) };
  };
  const routes = routesOf(list);
  const ask = async () => {
    await routes.listJobs(ALL);
    done += 1;
  };
  await Promise.all(Array.from({ length: 50 }, ask));
  // The next one begins at the moment at which one ends.
  expect(most).toBeLessThanOrEqual(5);
  expect(done).toBe(50);
});

test("a list keeps the bytes of the jobs that it has read, and no more", async () => {
  const spec = cronSpec();
  const pages = 1_000;
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  let grown = Infinity;
  const list: List = async ({ continue: from = "0" }) => {
    const page = Number(from);
    const jobs = Array.from(
      { length: 100 },
      (_, index) => ({ id: `job-${page}-${index}`, account: "a", createdAt: page, spec }) as Job,
    );
    if (page < pages - 1) return { jobs, continue: String(page + 1) };
    collectGarbage();
    grown = process.memoryUsage().heapUsed - before;
    return { jobs };
  };
  const answer = await routesOf(list).listJobs(ALL);
  // As objects they take 12 MB.
  expect(grown).toBeLessThan(5_000_000);
  const listed = JSON.parse(answerText(answer)) as { id: string }[];
  expect(listed.length).toBe(100_000);
  expect(listed[0]?.id).toBe("job-0-0");
  expect(listed.at(-1)?.id).toBe("job-999-99");
});

test("a list of none is an empty array", async () => {
  const answer = await routesOf(async () => ({ jobs: [] })).listJobs(ALL);
  expect(answerText(answer)).toBe("[]");
});
