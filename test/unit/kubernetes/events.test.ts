import { expect, test } from "vitest";
import type { ApiCall, KubernetesClient } from "../../../src/kubernetes/client.ts";
import { createEventRecorder, type JobNews } from "../../../src/kubernetes/events.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { at } from "../domain/decide-builders.ts";

const FAILED: JobNews = {
  uid: "uid-a",
  namespace: "team-a",
  name: "job-a",
  type: "Warning",
  reason: "RunFailed",
  action: "Deliver",
  note: "no way",
};

/** A recorder in time that only the test moves, and what it asks of the API server. */
function world() {
  let now = 1_000;
  const calls: ApiCall[] = [];
  /** What the API server does with a call. */
  const server = { answer: async (): Promise<void> => undefined };
  const call = async (asked: ApiCall): Promise<never> => {
    calls.push(asked);
    return (await server.answer()) as never;
  };
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  const events = createEventRecorder({
    client: { call } as Pick<KubernetesClient, "call"> as KubernetesClient,
    instance: "pod",
    metrics,
    monotonic: () => now,
    wallClock: () => at("12:00") + now,
  });
  const tell = async (news: JobNews, afterSeconds = 0): Promise<void> => {
    now += afterSeconds * 1_000;
    events.record(news);
    await events.settled();
  };
  const counted = async (outcome: string): Promise<number> => {
    const { values } = await metrics.kubernetesEvents.get();
    return values.find(({ labels }) => labels.outcome === outcome)?.value ?? 0;
  };
  const verbs = () => calls.map(({ verb }) => verb);
  return { events, calls, server, tell, counted, verbs };
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
  expect(calls.at(-1)?.body).toMatchObject({ series: { count: 61 } });
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
