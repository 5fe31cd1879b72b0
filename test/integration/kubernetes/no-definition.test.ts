import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { errorAnswer } from "../../../src/gateway/errors.ts";
import { connect, jobStore } from "../../kubernetes/cluster.ts";
import { anotherControlPlane } from "../../kubernetes/control-plane.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import type { OwnControlPlane } from "../../kubernetes/own-control-plane.ts";
import { aSpec } from "../../unit/domain/decide-builders.ts";

describe.runIf(inject("tokenSecret") !== "")(
  "a cluster without the ScheduledJob definition",
  () => {
    let controlPlane: OwnControlPlane;
    let client: ReturnType<typeof connect>;

    beforeAll(async () => {
      controlPlane = await anotherControlPlane();
      client = connect(controlPlane.kubeconfig);
    });
    afterAll(async () => {
      await client?.close();
      await controlPlane?.stop();
    });

    const store = () => jobStore(client, namespaceAccounts(["default"]));
    const account = "account-of-default";

    test.each([
      { asked: "an account's jobs", ask: () => store().list({ account, limit: 1 }) },
      { asked: "everybody's jobs", ask: () => store().list({ limit: 1 }) },
      { asked: "one job", ask: () => store().get(account, "job") },
      { asked: "a new job", ask: () => store().create({ account, id: "job", spec: aSpec() }) },
      { asked: "whether it is ready", ask: () => store().ping() },
    ])("asked for $asked: 503, and log and answer say what is missing", async ({ ask }) => {
      const refused: unknown = await ask().catch((error: unknown) => error);
      const missing = "the ScheduledJob definition (CRD) is not installed";
      expect(refused).toMatchObject({ code: 404, message: expect.stringContaining(missing) });
      expect(errorAnswer(refused)).toMatchObject({
        status: 503,
        headers: { "Retry-After": "30" },
        body: {
          code: "dependency_unavailable",
          error: `${missing}: the log says where, under the request id`,
        },
        unexpected: false,
      });
    });
  },
);
