import { expect, test } from "vitest";
import type { Job } from "../../../src/domain/job.ts";
import type { JobEvent, JobStore } from "../../../src/domain/ports/job-store.ts";
import { createKubernetesJobIndex } from "../../../src/kubernetes/kubernetes-job-index.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { settle } from "../controller/controller-world.ts";
import { aJob } from "../domain/decide-builders.ts";

const POSITION = "first page";

interface Watch {
  namespace: string;
  position: string;
  signal: AbortSignal;
  tell(event: JobEvent): void;
}

/** An index of namespaces; the test sets their jobs and the events of their watches. */
function world() {
  /** The pages of each namespace. */
  const pages = new Map<string, Job[][]>();
  const bindings = new Map([["account-1", "team"]]);
  const watches: Watch[] = [];
  const state = { away: false, unwatched: false, held: Promise.resolve() };
  const storeOf = (namespace: string): Pick<JobStore, "list" | "watch"> => ({
    async list({ continue: from }) {
      if (state.away) throw new Error("the API server is away");
      const at = Number(from ?? 0);
      const of = pages.get(namespace) ?? [[]];
      await state.held;
      const more = at + 1 < of.length && { continue: `${at + 1}` };
      return { jobs: of[at] ?? [], position: at === 0 ? POSITION : `page ${at}`, ...more };
    },
    async *watch(position, signal) {
      if (state.unwatched) throw new Error("the role lacks the verb watch");
      const events: JobEvent[] = [{ type: "bookmark", position }];
      let news = Promise.withResolvers<void>();
      signal.addEventListener("abort", () => news.resolve());
      const tell = (event: JobEvent) => {
        events.push(event);
        news.resolve();
      };
      watches.push({ namespace, position, signal, tell });
      while (!signal.aborted) {
        const event = events.shift();
        if (event) yield event;
        else await news.promise.then(() => (news = Promise.withResolvers()));
      }
    },
  });
  const followed = createKubernetesJobIndex({
    jobs: {
      delete: async () => undefined,
      update: async (job, spec) => {
        await state.held;
        return { ...job, spec, generation: job.generation + 1 };
      },
    } as Partial<JobStore> as JobStore,
    ofNamespace: storeOf,
    accountNamespaces: { namespaceOf: async (account) => bindings.get(account) },
    timers: { after: () => ({ cancel: () => undefined }) },
    log: createLogger({ level: "silent" }),
  });
  const ids = async (account = "account-1") =>
    (await followed.index.jobs(account)).map(({ id }) => id);
  const tell = async (event: JobEvent) => {
    watches.at(-1)?.tell(event);
    await settle();
  };
  return { pages, bindings, watches, state, followed, ids, tell };
}

test("an account whose jobs could not be listed is listed at the next look", async () => {
  const { state, ids } = world();
  state.away = true;
  await expect(ids()).rejects.toThrow("away");
  state.away = false;
  expect(await ids()).toEqual([]);
});

test("jobs that may not be watched are listed at each look", async () => {
  const { pages, state, ids } = world();
  state.unwatched = true;
  pages.set("team", [[aJob()]]);
  expect(await ids()).toEqual(["job-1"]);
  pages.set("team", [[aJob({ uid: "uid-2", id: "job-2" })]]);
  expect(await ids()).toEqual(["job-2"]);
});

test("the watch begins where the first page was read: what changed behind it comes again", async () => {
  const { pages, watches, ids } = world();
  const second = aJob({ uid: "uid-2", id: "job-2" });
  pages.set("team", [[aJob()], [second]]);
  expect(await ids()).toEqual(["job-1", "job-2"]);
  expect(watches).toMatchObject([{ namespace: "team", position: POSITION }]);
});

test("what was deleted here stays gone while the watch still tells of what was before", async () => {
  const { pages, followed, ids, tell } = world();
  const job = aJob();
  pages.set("team", [[job]]);
  expect(await ids()).toEqual(["job-1"]);
  await followed.jobs.delete(job);
  expect(await ids()).toEqual([]);
  await tell({ type: "changed", job, position: "2" });
  expect(await ids()).toEqual([]);
  // The store has been restored, and the job exists again.
  await tell({ type: "deleted", uid: job.uid, position: "3" });
  await tell({ type: "changed", job, position: "4" });
  expect(await ids()).toEqual(["job-1"]);
});

test("what was deleted here while the jobs are being listed does not come back by that list", async () => {
  const { pages, state, followed, ids, tell } = world();
  const [job, other] = [aJob(), aJob({ uid: "uid-2", id: "job-2" })];
  pages.set("team", [[job, other]]);
  const answer = Promise.withResolvers<void>();
  state.held = answer.promise;
  const looked = ids();
  await settle();
  await followed.jobs.delete(job);
  answer.resolve();
  expect(await looked).toEqual(["job-2"]);
  await tell({ type: "deleted", uid: job.uid, position: "2" });
  expect(await ids()).toEqual(["job-2"]);
});

test("a job of whose end the watch has told does not come back by the late answer to a change", async () => {
  const { pages, state, followed, ids, tell } = world();
  const job = aJob();
  pages.set("team", [[job]]);
  expect(await ids()).toEqual(["job-1"]);
  const answer = Promise.withResolvers<void>();
  state.held = answer.promise;
  const updated = followed.jobs.update(job, job.spec);
  await tell({ type: "deleted", uid: job.uid, position: "2" });
  answer.resolve();
  await updated;
  expect(await ids()).toEqual([]);
  // The store has been restored, and the job exists again.
  await tell({ type: "changed", job, position: "3" });
  expect(await ids()).toEqual(["job-1"]);
});

test("an account that moves has the jobs of its new namespace, and whose jobs change hands are not its own", async () => {
  const { pages, bindings, watches, ids, tell } = world();
  pages.set("team", [[aJob()]]);
  pages.set("other", [[aJob({ uid: "uid-2", id: "job-2" })]]);
  expect(await ids()).toEqual(["job-1"]);
  await tell({ type: "changed", job: aJob({ account: "account-2" }), position: "2" });
  expect(await ids()).toEqual([]);
  bindings.set("account-1", "other");
  expect(await ids()).toEqual(["job-2"]);
  expect(watches.map(({ signal }) => signal.aborted)).toEqual([true, false]);
});

test("of more than two hundred accounts those are followed that were looked at last", async () => {
  const { bindings, watches, ids } = world();
  for (let n = 0; n < 200; n += 1) {
    bindings.set(`a-${n}`, `namespace-${n}`);
    await ids(`a-${n}`);
  }
  await ids("a-0");
  await ids("account-1");
  const left = watches.filter(({ signal }) => signal.aborted).map(({ namespace }) => namespace);
  expect(left).toEqual(["namespace-1"]);
});
