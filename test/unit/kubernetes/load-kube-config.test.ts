import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { createCredentials } from "../../../src/kubernetes/credentials.ts";
import { loadKubeConfig } from "../../../src/kubernetes/load-kube-config.ts";

const folders: string[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

/** The Authorization header with this user in the kubeconfig. A file `token` lies beside it. */
async function shown(user: object): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "carillon-kubeconfig-"));
  folders.push(folder);
  await writeFile(join(folder, "token"), "of-the-file\n");
  const text = JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "c",
    clusters: [{ name: "c", cluster: { server: "https://127.0.0.1:1" } }],
    users: [
      { name: "other", user: { token: "another's" } },
      { name: "u", user },
    ],
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
  });
  await writeFile(join(folder, "config"), text);
  vi.stubEnv("KUBECONFIG", join(folder, "config"));
  const kubeConfig = loadKubeConfig();
  if (!kubeConfig) throw new Error("no kubeconfig");
  const credentials = createCredentials({ kubeConfig, monotonic: () => 0, connections: 1 });
  const { headers } = await credentials.current();
  await credentials.close();
  return headers.authorization;
}

test.each([
  { user: { tokenFile: "token" }, bearer: "of-the-file" },
  { user: { tokenFile: "token", token: "of-before" }, bearer: "of-the-file" },
  { user: { token: "written-down" }, bearer: "written-down" },
])("of $user the token is $bearer, as kubectl has it", async ({ user, bearer }) => {
  expect(await shown(user)).toBe(`Bearer ${bearer}`);
});
