import { expect, test } from "vitest";
import type { ApiCall, KubernetesClient } from "../../../src/kubernetes/client.ts";
import { createEventRecorder, type NewEvent } from "../../../src/kubernetes/events.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { FakeTime } from "../controller/controller-world.ts";
import { at } from "../domain/decide-builders.ts";

const FAILED: NewEvent = {
  uid: "uid-a",
  namespace: "team-a",
  name: "job-a",
  type: "Warning",
  reason: "RunFailed",
  action: "Deliver",
  note: "no way",
};

/** A recorder whose time only the test moves, and its calls to the API server. */
function world() {
  const time = new FakeTime(at("12:00"));
  const calls: ApiCall[] = [];
  /** How the API server answers a call. */
  const server = { answer: async (): Promise<void> => undefined };
  const call = async (asked: ApiCall): Promise<never> => {
    calls.push(asked);
    const ended = Promise.withResolvers<never>();
    if (asked.signal?.aborted) ended.reject(asked.signal.reason);
    asked.signal?.addEventListener("abort", () => ended.reject(asked.signal?.reason));
    return (await Promise.race([server.answer(), ended.promise])) as never;
  };
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  const events = createEventRecorder({
    client: { call } as Pick<KubernetesClient, "call"> as KubernetesClient,
    instance: "pod",
    metrics,
    monotonic: () => time.now(),
    timers: time,
    wallClock: () => time.now(),
  });
  const tell = async (news: NewEvent, afterSeconds = 0): Promise<void> => {
    await time.advanceTo(time.now() + afterSeconds * 1_000);
    events.record(news);
    await events.settled();
  };
  const counted = async (outcome: string): Promise<number> => {
    const { values } = await metrics.kubernetesEvents.get();
    return values.find(({ labels }) => labels.outcome === outcome)?.value ?? 0;
  };
  const verbs = () => calls.map(({ verb }) => verb);
  return { events, calls, server, time, tell, counted, verbs };
}

test("the same of two jobs is an event of each", async () => {
  const { calls, tell } = world();
  await tell(FAILED);
  await tell({ ...FAILED, uid: "uid-b", name: "job-b" });
  expect(calls.map(({ body }) => body)).toMatchObject([
    { regarding: { uid: "uid-a", name: "job-a" } },
    { regarding: { uid: "uid-b", name: "job-b" } },
  ]);
});

test("what repeats is one series for as long as it does, and another one after a silence", async () => {
  const { calls, tell, verbs } = world();
  await tell(FAILED);
  for (let n = 0; n < 10; n += 1) await tell(FAILED, 5 * 60);
  expect(verbs()).toEqual(["create", ...Array<string>(10).fill("patch")]);
  expect(calls.at(-1)?.body).toMatchObject({ series: { count: 11 } });
  await tell(FAILED, 6 * 60 + 1);
  expect(verbs().at(-1)).toBe("create");
});

test("a series is written every ten seconds at most, with all that it counted meanwhile", async () => {
  const { calls, tell } = world();
  for (let second = 0; second <= 60; second += 1) await tell(FAILED, 1);
  expect(calls).toHaveLength(7);
  expect(calls.at(-1)?.body).toMatchObject({ series: { count: 60 } });
});

test("what was held back last is written when its ten seconds are over, once", async () => {
  const { calls, events, time, tell, counted } = world();
  for (let n = 0; n < 3; n += 1) await tell(FAILED, 2);
  await time.advanceTo(time.now() + 5_999);
  expect(calls).toHaveLength(1);
  await time.advanceTo(time.now() + 1);
  await events.settled();
  expect(calls).toHaveLength(2);
  expect(calls.at(-1)?.body).toMatchObject({ series: { count: 3 } });
  await tell(FAILED, 600);
  expect([calls.length, await counted("repeated")]).toEqual([3, 1]);
});

test("nothing is held back for longer than this process leads, nor once it ends; the count catches up", async () => {
  const { calls, events, time, tell } = world();
  const later = () => time.advanceTo(time.now() + 60_000);
  for (let n = 0; n < 3; n += 1) await tell(FAILED);
  events.dropHeldBack();
  await later();
  expect(calls).toHaveLength(1);
  await tell(FAILED);
  expect(calls.at(-1)?.body).toMatchObject({ series: { count: 4 } });
  await tell(FAILED);
  events.dropHeldBack();
  // When it leads again, the count of the dropped one is not lost.
  await tell(FAILED);
  await later();
  expect(calls.at(-1)?.body).toMatchObject({ series: { count: 6 } });
  await tell(FAILED);
  await tell(FAILED);
  await events.close();
  await tell(FAILED);
  await later();
  expect(calls).toHaveLength(4);
});

test("of more than a thousand that repeat, the others wait for their next repetition", async () => {
  const { calls, events, time, verbs } = world();
  const tellAll = async () => {
    for (let n = 0; n < 1_100; n += 1) {
      events.record({ ...FAILED, uid: `uid-${n}` });
      if (n === 500) await events.settled();
    }
    // For the last hundred, which are more than are written at once.
    await time.advanceTo(time.now() + 5_000);
  };
  await tellAll();
  await tellAll();
  await time.advanceTo(time.now() + 120_000);
  expect(verbs().filter((verb) => verb === "patch")).toHaveLength(1_000);
  await tellAll();
  expect(calls.at(-1)?.body).toMatchObject({ series: { count: 3 } });
});

test("what was counted while it waited is written at once, and once", async () => {
  const { calls, events, server, time } = world();
  const later = () => time.advanceTo(time.now() + 11_000);
  const away = async () => {
    const back = Promise.withResolvers<void>();
    server.answer = () => back.promise;
    events.record({ ...FAILED, uid: `other-${time.now()}` });
    for (let n = 0; n < 3; n += 1) {
      events.record(FAILED);
      await later();
    }
    server.answer = async () => undefined;
    back.resolve();
    await events.settled();
  };
  await away();
  await away();
  const written = calls.map(({ verb, body }) => [verb, (body as { series?: object }).series]);
  expect(written).toMatchObject([
    ["create", undefined],
    ["create", { count: 3 }],
    ["create", undefined],
    ["patch", { count: 6 }],
  ]);
});

test("a job that has too much to tell leaves its neighbours theirs", async () => {
  const { calls, tell, counted } = world();
  for (let n = 0; n < 20; n += 1) await tell({ ...FAILED, note: `attempt ${n}` });
  await tell({ ...FAILED, uid: "uid-b" });
  expect(calls).toHaveLength(11);
  expect(await counted("dropped")).toBe(10);
});

test("while the API server is silent a thousand wait, and one that fails keeps none from being told", async () => {
  const { calls, events, server, counted } = world();
  const first = Promise.withResolvers<void>();
  server.answer = () => first.promise;
  for (let n = 0; n < 1_200; n += 1) events.record({ ...FAILED, uid: `uid-${n}` });
  expect(calls).toHaveLength(1);
  expect(await counted("dropped")).toBe(200);
  server.answer = async () => undefined;
  first.reject(new Error("no answer"));
  await events.settled();
  expect([await counted("error"), await counted("written")]).toEqual([1, 999]);
});

test("however many jobs fail, the API server has a thousand Events at once to keep, and twenty a second", async () => {
  const { calls, events, time, counted } = world();
  for (let second = 0; second < 20; second += 1) {
    // Each job fails too rarely for a series.
    for (let n = 0; n < 500; n += 1) events.record({ ...FAILED, uid: `uid-${second}-${n}` });
    await time.advanceTo(time.now() + 1_000);
  }
  expect(calls.length).toBeGreaterThanOrEqual(1_390);
  expect(calls.length).toBeLessThanOrEqual(1_400);
  // The others wait, or are told to nobody.
  expect(await counted("dropped")).toBeGreaterThanOrEqual(10_000 - 1_000 - calls.length);
  const closing = events.close();
  await time.advanceTo(time.now() + 2_000);
  await closing;
  expect(calls.length).toBeGreaterThan(2_300);
});

test("a namespace that has too much to tell leaves the others theirs, and their turn", async () => {
  const { calls, events, server, tell, counted } = world();
  const first = Promise.withResolvers<void>();
  server.answer = () => first.promise;
  const tellAll = (namespace: string, jobs: number) => {
    for (let n = 0; n < jobs; n += 1)
      events.record({ ...FAILED, namespace, uid: `${namespace}-${n}` });
  };
  tellAll("noisy", 1_200);
  tellAll("quiet", 2);
  server.answer = async () => undefined;
  first.resolve();
  await events.settled();
  const namespaces = calls.map(({ path }) => path.split("/").at(-2));
  expect(namespaces.slice(0, 5)).toEqual(["noisy", "noisy", "quiet", "noisy", "quiet"]);
  expect([await counted("dropped"), await counted("written")]).toEqual([202, 1_000]);
  await tell({ ...FAILED, namespace: "late", uid: "late" }, 60);
  expect(calls.at(-1)?.path).toContain("/late/");
});

test("where each namespace waits with one, another one's first makes none of them give way", async () => {
  const { calls, events, server, tell, counted } = world();
  const first = Promise.withResolvers<void>();
  server.answer = () => first.promise;
  for (let n = 0; n < 1_003; n += 1)
    events.record({ ...FAILED, namespace: `team-${n}`, uid: `uid-${n}` });
  server.answer = async () => undefined;
  first.resolve();
  await events.settled();
  expect([await counted("dropped"), await counted("written")]).toEqual([3, 1_000]);
  await tell({ ...FAILED, namespace: "late", uid: "late" }, 60);
  expect(calls.at(-1)?.path).toContain("/late/");
});

test("the end of a process waits two seconds for a silent API server, and for all of an answering one", async () => {
  const { events, server, time, counted } = world();
  server.answer = () => new Promise(() => undefined);
  for (let n = 0; n < 3; n += 1) events.record({ ...FAILED, uid: `uid-${n}` });
  let closed = false;
  const closing = events.close().then(() => (closed = true));
  await time.advanceTo(time.now() + 1_999);
  expect(closed).toBe(false);
  await time.advanceTo(time.now() + 1);
  expect(closed).toBe(true);
  await closing;
  expect(await counted("error")).toBe(3);

  const answering = world();
  for (let n = 0; n < 3; n += 1) answering.events.record({ ...FAILED, uid: `uid-${n}` });
  await answering.events.close();
  expect(await answering.counted("written")).toBe(3);
  expect(answering.time.timers).toBe(0);
});
