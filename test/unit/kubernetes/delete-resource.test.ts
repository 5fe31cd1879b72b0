import { expect, test } from "vitest";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import type { ApiCall, KubernetesClient } from "../../../src/kubernetes/client.ts";
import { deleteResource } from "../../../src/kubernetes/delete-resource.ts";

/** The outcome of a deletion that is answered so, and the calls that were made. */
async function deleted(answer?: ApiError, version?: { resourceVersion: string }) {
  const asked: ApiCall[] = [];
  const call = async (each: ApiCall): Promise<unknown> => {
    asked.push(each);
    if (answer) throw answer;
    return {};
  };
  const client = { call } as Pick<KubernetesClient, "call">;
  return {
    asked,
    done: await deleteResource(client, "team", { name: "job", uid: "uid", ...version }),
  };
}

test("of this incarnation only, whatever has its name by then", async () => {
  const { asked, done } = await deleted();
  expect(done).toBe(true);
  expect(asked).toMatchObject([{ verb: "delete", body: { preconditions: { uid: "uid" } } }]);
});

test("in one version only, if it must not have changed", async () => {
  const { asked } = await deleted(undefined, { resourceVersion: "7" });
  expect(asked).toMatchObject([{ body: { preconditions: { uid: "uid", resourceVersion: "7" } } }]);
});

test.each([404, 409])("a %s: it was gone already", async (code) => {
  expect((await deleted(new ApiError(code, undefined, "delete"))).done).toBe(false);
});

test.each([
  { code: 403, message: "no right" },
  { code: 409, message: 'admission webhook "x.example.com" denied the request: not now' },
])("what was refused with $code: $message, is not gone", async ({ code, message }) => {
  const status = { kind: "Status", reason: "Conflict", message } as const;
  await expect(deleted(new ApiError(code, status, "delete"))).rejects.toThrow(message);
});
