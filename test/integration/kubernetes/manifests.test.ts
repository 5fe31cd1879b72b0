import { glob, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { parseAllDocuments } from "yaml";
import type { KubernetesClient } from "../../../src/kubernetes/client.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import { specFromResource, type ScheduledJob } from "../../../src/kubernetes/scheduled-job.ts";
import { compileSchedule } from "../../../src/domain/schedule.ts";
import { clientProgram } from "../../kubernetes/binaries.ts";
import { connect, createNamespace, installCrd, tryCreate } from "../../kubernetes/cluster.ts";
import { run } from "../../kubernetes/run.ts";
import { BAD_MANIFESTS } from "./bad-manifests.ts";

const kubeconfig = inject("kubeconfig");
const EXAMPLES = join(import.meta.dirname, "../../../deploy/examples");
const examples = await Array.fromAsync(glob("*.yaml", { cwd: EXAMPLES }));

describe.runIf(kubeconfig !== "")("manifests", () => {
  let client: KubernetesClient;
  let namespace: string;

  beforeAll(async () => {
    client = connect(kubeconfig);
    await installCrd(client);
    namespace = (await createNamespace(client, "manifests")).name;
  });
  afterAll(async () => {
    await client?.close();
  });

  const create = (spec: Record<string, unknown>, metadata: Record<string, unknown> = {}) =>
    tryCreate(client, namespace, {
      metadata,
      spec: {
        schedule: { cron: "0 3 * * *" },
        webhook: { url: "https://example.com/hook" },
        ...spec,
      },
    });

  test("there are examples of every kind", () => {
    expect(examples.length).toBeGreaterThanOrEqual(5);
  });

  test.each(examples)("%s applies with kubectl, and the domain accepts it", async (file) => {
    const kubectl = await clientProgram("kubectl", (line) => process.stderr.write(`${line}\n`));
    expect(kubectl, "kubectl or Go is needed").toBeDefined();
    const path = join(EXAMPLES, file);
    const flags = ["--kubeconfig", kubeconfig, "--namespace", namespace];
    const said = await run(kubectl ?? "", [...flags, "apply", "--validate=strict", "-f", path]);
    expect(said).toContain("created");
    const again = await run(kubectl ?? "", [...flags, "apply", "-f", path]);
    expect(again).toMatch(/scheduledjob\.carillon\.dev\/\S+ unchanged/);
    for (const document of parseAllDocuments(await readFile(path, "utf8"))) {
      const resource = document.toJS() as ScheduledJob;
      if (resource.kind !== "ScheduledJob") continue;
      const spec = specFromResource(resource.spec ?? {}, resource.metadata.name);
      expect(compileSchedule(spec.schedule).ok).toBe(true);
    }
  });

  test("kubectl explain tells what a field is for", async () => {
    const kubectl = await clientProgram("kubectl", (line) => process.stderr.write(`${line}\n`));
    const said = await run(kubectl ?? "", ["--kubeconfig", kubeconfig, "explain", "sj.spec.retry"]);
    expect(said).toMatch(/maxRetries\s+<integer>\s+Maximum number of retries/);
    expect(said.replaceAll(/\s+/g, " ")).toContain("From 0 to 10. Default: 0.");
  });

  test("the table's good manifest is good, and gets the defaults", async () => {
    const { spec } = await create({});
    expect(spec).toMatchObject({
      suspend: false,
      concurrencyPolicy: "Allow",
      deliveryDeadlineSeconds: 3600,
      retry: { maxRetries: 0, minBackoffSeconds: 5, maxBackoffSeconds: 3600 },
      webhook: { timeoutSeconds: 30 },
    });
  });

  test("the table has at least 40 rows", () => {
    expect(BAD_MANIFESTS.length).toBeGreaterThanOrEqual(40);
  });

  test.each(BAD_MANIFESTS)("$title: $message", async ({ spec, metadata, message }) => {
    const refusal = await create(spec, metadata).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(refusal).toBeInstanceOf(ApiError);
    expect((refusal as ApiError).status?.message).toContain(message);
  });
});
