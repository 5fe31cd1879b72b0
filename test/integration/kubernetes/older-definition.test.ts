import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { errorAnswer } from "../../../src/gateway/errors.ts";
import { specToResource } from "../../../src/kubernetes/scheduled-job.ts";
import { cronSpec } from "../../conformance/job-store.ts";
import {
  connect,
  createNamespace,
  installCrd,
  jobStore,
  readCrd,
  tryCreate,
} from "../../kubernetes/cluster.ts";
import { anotherControlPlane } from "../../kubernetes/control-plane.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import type { OwnControlPlane } from "../../kubernetes/own-control-plane.ts";
import { until } from "../../until.ts";

/**
 * A rollback takes the definition back before the last gateway of the newer release has ended; and an installation that
 * leaves the definition to others may be upgraded before it.
 */
describe.runIf(inject("tokenSecret") !== "")("a definition of an earlier release", () => {
  let controlPlane: OwnControlPlane;
  let client: ReturnType<typeof connect>;
  let namespace: string;

  beforeAll(async () => {
    controlPlane = await anotherControlPlane();
    client = connect(controlPlane.kubeconfig);
    await installCrd(client);
    namespace = (await createNamespace(client)).name;
  });
  afterAll(async () => {
    await client?.close();
    await controlPlane?.stop();
  });

  test("does not know a field: 503 to who creates or changes a job, and log and answer say what is missing", async () => {
    const accountNamespaces = namespaceAccounts([]);
    const store = jobStore(client, accountNamespaces, { namespaces: [namespace] });
    const account = accountNamespaces.bind(namespace);
    const job = await store.create({ account, id: "before", spec: cronSpec() });

    const older = await readCrd();
    const spec = older.spec.versions[0]?.schema.openAPIV3Schema.properties?.["spec"];
    delete spec?.properties?.["deliveryDeadlineSeconds"];
    await installCrd(client, older);
    await until("the API server goes by it", async () => {
      const known = { metadata: { name: "known" }, spec: specToResource(cronSpec()) };
      return tryCreate(client, namespace, known).then(
        () => false,
        () => true,
      );
    });

    const changed = cronSpec({ deliveryDeadlineSeconds: 60 });
    for (const refused of [
      await store
        .create({ account, id: "after", spec: cronSpec() })
        .catch((error: unknown) => error),
      await store.update(job, changed).catch((error: unknown) => error),
    ]) {
      const missing = "the ScheduledJob definition (CRD) of this release";
      expect(refused).toMatchObject({ message: expect.stringContaining(missing) });
      expect(refused).toMatchObject({
        message: expect.stringContaining('unknown field "spec.deliveryDeadlineSeconds"'),
      });
      expect(errorAnswer(refused)).toMatchObject({
        status: 503,
        headers: { "Retry-After": "30" },
        body: {
          code: "dependency_unavailable",
          error: `${missing} is not installed: the log says where, under the request id`,
        },
        unexpected: false,
      });
    }
  });
});
