import { expect, test } from "vitest";
import type { JobStore } from "../../../src/domain/ports/job-store.ts";
import { createKubernetesJobIndex } from "../../../src/kubernetes/kubernetes-job-index.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";

test("an account whose jobs could not be listed is listed at the next look", async () => {
  let away = true;
  const jobs: Pick<JobStore, "list" | "watch"> = {
    async list() {
      if (away) throw new Error("the API server is away");
      return { jobs: [], position: "1" };
    },
    async *watch(position, signal) {
      yield { type: "bookmark", position };
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    },
  };
  const followed = createKubernetesJobIndex({
    jobs: jobs as JobStore,
    ofNamespace: () => jobs,
    accountNamespaces: { namespaceOf: async () => "team" },
    timers: { after: () => ({ cancel: () => undefined }) },
    log: createLogger({ level: "silent" }),
  });
  await expect(followed.index.jobs("account")).rejects.toThrow("away");
  away = false;
  expect(await followed.index.jobs("account")).toEqual([]);
  followed.close();
});
