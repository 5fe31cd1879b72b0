import { Readable } from "node:stream";
import { expect, test } from "vitest";
import type { KubernetesClient } from "../../../src/kubernetes/client.ts";
import { createJobWatch } from "../../../src/kubernetes/job-watch.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { FakeTime } from "../controller/controller-world.ts";

/** Which namespaces' answers were given up on the way to the end of these events. */
async function forgottenBy(events: readonly object[]): Promise<string[]> {
  const forgotten: string[] = [];
  const time = new FakeTime(0);
  const lines = events.map((event) => Buffer.from(`${JSON.stringify(event)}\n`));
  const client: Pick<KubernetesClient, "call" | "watch"> = {
    call: () => Promise.reject(new Error("nothing is asked for")),
    watch: async () => Readable.from(lines) as Awaited<ReturnType<KubernetesClient["watch"]>>,
  };
  const watch = createJobWatch({
    client: client as KubernetesClient,
    accountNamespaces: {
      accountOf: async () => null,
      namespaceOf: async () => undefined,
      forget: (namespace = "every namespace") => forgotten.push(namespace),
      revision: async () => "",
      changedSince: () => new Promise(() => undefined),
    },
    monotonic: () => time.now(),
    timers: time,
    random: () => 0.5,
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    listedUnder: () => "",
  });
  let left = events.length;
  for await (const { type } of watch("1", new AbortController().signal))
    if (type !== "bookmark" && --left === 0) break;
  return forgotten;
}

const of = (type: "ADDED" | "DELETED", namespace: string) => ({
  type,
  object: {
    metadata: { namespace, name: "job", uid: `of-${namespace}`, resourceVersion: "2" },
    spec: { schedule: { cron: "@daily" }, webhook: { url: "https://example.com/" } },
  },
});

test("whose a namespace is, is asked anew for the first job behind a deletion", async () => {
  const events = [of("DELETED", "team"), of("DELETED", "other"), of("ADDED", "team")];
  expect(await forgottenBy([...events, of("ADDED", "team")])).toEqual(["team"]);
});

test("however many namespaces come and go, no more than a thousand are remembered for it", async () => {
  const namespaces = Array.from({ length: 1_003 }, (_, index) => `gone-${index}`);
  const events = namespaces.map((namespace) => of("DELETED", namespace));
  // At once instead of when a job comes, which they do not wait for any more.
  const oldest = ["gone-0", "gone-1", "gone-2"];
  expect(await forgottenBy(events)).toEqual(oldest);
  expect(await forgottenBy([...events, of("ADDED", "gone-0")])).toEqual(oldest);
  expect(await forgottenBy([...events, of("ADDED", "gone-3")])).toEqual([...oldest, "gone-3"]);
});
