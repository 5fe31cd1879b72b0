import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { timers } from "../../../cmd/system.ts";
import { createListTurns } from "../../../src/gateway/read-turns.ts";
import { jobRoutes, type JobRouteOptions } from "../../../src/gateway/routes/jobs.ts";

test("a crowd's lists of jobs come one after the other, and are not all kept in part", async () => {
  let begun = 0;
  let done = 0;
  let most = 0;
  const list = async ({ continue: from = "0" }: { continue?: string }) => {
    if (from === "0") begun += 1;
    most = Math.max(most, begun - done);
    await setImmediate();
    return { jobs: [], ...(from === "9" ? {} : { continue: String(Number(from) + 1) }) };
  };
  const turns = createListTurns({ connections: 10, timers });
  const routes = jobRoutes({
    jobs: { list },
    history: { cursors: async () => new Map() },
    pageInTurn: turns.page,
    listInTurn: turns.list,
  } as unknown as JobRouteOptions);
  const ask = async () => {
    await routes.listJobs({ account: "a", query: {}, gone: () => false } as Parameters<
      typeof routes.listJobs
    >[0]);
    done += 1;
  };
  await Promise.all(Array.from({ length: 50 }, ask));
  // The next one begins at the moment at which one ends.
  expect(most).toBeLessThanOrEqual(5);
  expect(done).toBe(50);
});
