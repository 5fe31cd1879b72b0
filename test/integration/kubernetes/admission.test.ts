import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { InvalidInput } from "../../../src/domain/findings.ts";
import type { Job } from "../../../src/domain/job.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import type { JobStore } from "../../../src/domain/ports/job-store.ts";
import { cronSpec } from "../../conformance/job-store.ts";
import { connect, createNamespace, installCrd, jobStore } from "../../kubernetes/cluster.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import { createAuthority } from "../../network/certificates.ts";
import { until } from "../../until.ts";

const kubeconfig = inject("kubeconfig");
const POLICIES = "/apis/admissionregistration.k8s.io/v1";
/** For everything that is written of our kinds. */
const RULE = {
  apiGroups: ["carillon.dev"],
  apiVersions: ["v1"],
  resources: ["*"],
  operations: ["CREATE", "UPDATE", "DELETE"],
};

/** The error with which the promise rejects, if it does. */
async function refusal(change: Promise<unknown>): Promise<unknown> {
  return change.then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe.runIf(kubeconfig !== "")("what the cluster's own rules refuse", () => {
  let client: ReturnType<typeof connect>;
  let store: JobStore;
  let namespace: string;
  let account: string;
  let made = 0;
  const create = () => store.create({ account, id: `job-${(made += 1)}`, spec: cronSpec() });

  /** Waits until creations are refused, or are not any more: it takes the API server a moment to heed a policy. */
  const untilRefused = (what: string, refused: boolean) =>
    until(what, async () => ((await refusal(create())) !== undefined) === refused);
  /** Whatever is done is refused in these words. */
  async function expectRefused(job: Job, words: string): Promise<void> {
    for (const change of [
      create,
      () => store.update(job, cronSpec({ suspend: true })),
      () => store.delete(job),
    ]) {
      const error = await refusal(change());
      expect(error).toBeInstanceOf(InvalidInput);
      expect((error as InvalidInput).findings[0]?.message).toContain(words);
    }
  }

  beforeAll(async () => {
    client = connect(kubeconfig);
    await installCrd(client);
    namespace = (await createNamespace(client, "admission")).name;
    const accountNamespaces = namespaceAccounts([]);
    const namespaces = [namespace];
    store = jobStore(client, accountNamespaces, { namespaces });
    account = accountNamespaces.bind(namespace);
  });
  afterAll(async () => {
    await client?.close();
  });

  test("a rule of the definition is told without what the API server puts before it", async () => {
    const target = {
      kind: "webhook" as const,
      url: "https://example.com/hook",
      payload: "{}",
      headers: { "X-Token": "a" },
      headersFrom: [{ header: "x-token", secretName: "tokens", secretKey: "b" }],
      timeoutSeconds: 30,
    };
    const error = await refusal(store.create({ account, id: "twice", spec: cronSpec({ target }) }));
    expect(error).toBeInstanceOf(InvalidInput);
    expect((error as InvalidInput).findings).toEqual([
      { field: "", message: "a header is in both headers and headersFrom; keep one of them" },
    ]);
  });

  test.each(["Invalid", "Forbidden", "RequestEntityTooLarge"])(
    "a policy that says %s is told in its own words, also when a job is deleted",
    async (reason) => {
      const job = await create();
      const name = `${namespace}-${reason.toLowerCase()}`;
      const validation = { expression: "false", message: "not on a Sunday", reason };
      const matched = { "kubernetes.io/metadata.name": namespace };
      const put = (kind: string, spec: object) =>
        client.call({
          verb: "create",
          resource: "policies",
          path: `${POLICIES}/${kind}`,
          body: { metadata: { name }, spec },
        });
      await put("validatingadmissionpolicies", {
        matchConstraints: { resourceRules: [RULE] },
        validations: [validation],
      });
      await put("validatingadmissionpolicybindings", {
        policyName: name,
        validationActions: ["Deny"],
        matchResources: { namespaceSelector: { matchLabels: matched } },
      });
      try {
        await untilRefused("the policy", true);
        await expectRefused(job, "not on a Sunday");
        expect(await store.get(account, job.id)).toEqual(job);
      } finally {
        for (const kind of ["validatingadmissionpolicybindings", "validatingadmissionpolicies"])
          await client.call({
            verb: "delete",
            resource: "policies",
            path: `${POLICIES}/${kind}/${name}`,
          });
      }
      await untilRefused("the end of the policy", false);
    },
  );

  test("a quota that keeps changing, so that the API server gives up counting, is worth another try", async () => {
    const path = `/api/v1/namespaces/${namespace}/resourcequotas`;
    const count = "count/scheduledjobs.carillon.dev";
    const quota = { verb: "patch", resource: "resourcequotas", path: `${path}/jobs` } as const;
    const spec = { hard: { [count]: "1000" } };
    await client.call({
      ...quota,
      verb: "create",
      path,
      body: { metadata: { name: "jobs" }, spec },
    });
    // As the quota controller does, which does not run here.
    const status = { ...spec, used: { [count]: "0" } };
    await client.call({ ...quota, path: `${path}/jobs/status`, body: { status } });
    const ending = new AbortController();
    let changes = 0;
    const change = async () => {
      while (!ending.signal.aborted) {
        const annotations = { changes: String((changes += 1)) };
        // One of these may lose against the others, too.
        await refusal(client.call({ ...quota, body: { metadata: { annotations } } }));
      }
    };
    const changing = [change(), change(), change(), change()];
    const error = await until("a quota that was not counted", async () => refusal(create()));
    ending.abort();
    await Promise.all(changing);
    await client.call({ ...quota, verb: "delete" });
    expect(error).toBeInstanceOf(DependencyUnavailable);
    expect((error as Error).cause).toMatchObject({ code: 409 });
    expect(await store.get(account, `job-${made}`)).toBeUndefined();
  });

  // Only an API server on this machine can call it.
  test.runIf(inject("tokenSecret") !== "").each(["Conflict", "AlreadyExists"])(
    "a webhook that says %s, with a 409, is told in its own words: the job is neither gone nor changed nor there already",
    async (reason) => {
      const authority = createAuthority();
      const status = { code: 409, reason, message: "somebody else's turn" };
      const answer = async (request: IncomingMessage, response: ServerResponse) => {
        const review = (await json(request)) as { request: { uid: string } };
        const { uid } = review.request;
        response.setHeader("Content-Type", "application/json");
        response.end(JSON.stringify({ ...review, response: { uid, allowed: false, status } }));
      };
      const server = createServer(authority.issue(["127.0.0.1"]), (request, response) => {
        answer(request, response).catch(() => response.destroy());
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as AddressInfo;
      const job = await create();
      const path = `${POLICIES}/validatingwebhookconfigurations`;
      const name = `${namespace}-${reason.toLowerCase()}.example.com`;
      await client.call({
        verb: "create",
        resource: "policies",
        path,
        body: {
          metadata: { name },
          webhooks: [
            {
              name,
              rules: [RULE],
              namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
              clientConfig: {
                url: `https://127.0.0.1:${port}/`,
                caBundle: Buffer.from(authority.certificate).toString("base64"),
              },
              admissionReviewVersions: ["v1"],
              sideEffects: "None",
            },
          ],
        },
      });
      try {
        await untilRefused("the webhook", true);
        await expectRefused(job, "somebody else's turn");
        await expect(store.deleteUnchanged(job)).rejects.toThrow("somebody else's turn");
        expect(await store.get(account, job.id)).toEqual(job);
      } finally {
        await client.call({ verb: "delete", resource: "policies", path: `${path}/${name}` });
        server.close();
      }
      await untilRefused("the end of the webhook", false);
    },
  );
});
