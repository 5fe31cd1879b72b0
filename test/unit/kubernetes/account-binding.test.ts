import { expect, test } from "vitest";
import { InvalidInput } from "../../../src/domain/findings.ts";
import { NamespaceInUse } from "../../../src/domain/ports/accounts.ts";
import { createAccountBinding } from "../../../src/kubernetes/account-binding.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import type { ApiCall, KubernetesClient } from "../../../src/kubernetes/client.ts";

/**
 * `answers`: how the API server answers questions for the namespace and for its jobs, by a status, or with these
 * jobs.
 */
function binding(answers: { namespace?: number; jobs?: number | unknown[] }) {
  const call = async ({ resource }: ApiCall): Promise<unknown> => {
    const answer = resource === "namespaces" ? answers.namespace : answers.jobs;
    if (typeof answer === "number") throw new ApiError(answer, undefined, `list ${resource}`);
    return resource === "namespaces"
      ? { metadata: { uid: "uid" } }
      : { metadata: {}, items: answer ?? [] };
  };
  return createAccountBinding({ client: { call } as Pick<KubernetesClient, "call"> });
}

test("a namespace that is still to come is bound without a uid", async () => {
  expect(await binding({}).uidOf("team")).toBe("uid");
  expect(await binding({ namespace: 404 }).uidOf("team")).toBe("");
});

test.each([401, 403])("a %s: whoever binds is told which rights that takes", async (code) => {
  await expect(binding({ namespace: code }).uidOf("team")).rejects.toThrow(InvalidInput);
  await expect(binding({ jobs: code }).leave("team", "uid")).rejects.toThrow(InvalidInput);
});

test("what else goes wrong is no matter of rights", async () => {
  await expect(binding({ namespace: 400 }).uidOf("team")).rejects.toThrow(ApiError);
  await expect(binding({ jobs: 400 }).leave("team", "uid")).rejects.toThrow(ApiError);
});

test.each([
  { name: "with jobs in it", answers: { jobs: [{}] }, uid: "uid", left: false },
  { name: "with jobs in it, bound by name", answers: { jobs: [{}] }, uid: null, left: false },
  { name: "without jobs", answers: { jobs: [] }, uid: "uid", left: true },
  { name: "of a cluster without the definition", answers: { jobs: 404 }, uid: "uid", left: true },
  { name: "made again under its name", answers: { jobs: [{}] }, uid: "before", left: true },
  {
    name: "that has gone, and our rights in it",
    answers: { namespace: 404, jobs: 403 },
    uid: null,
    left: true,
  },
])("a namespace $name: may it be left? $left", async ({ answers, uid, left }) => {
  const outcome = await binding(answers)
    .leave("team", uid)
    .catch((error: unknown) => error);
  expect(outcome instanceof NamespaceInUse ? "in use" : outcome).toBe(left ? undefined : "in use");
});
