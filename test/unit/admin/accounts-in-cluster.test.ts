import { describe, expect, test } from "vitest";
import {
  configuredCluster,
  createAccountsInCluster,
  type ConfiguredCluster,
  type ClusterQuestions,
} from "../../../src/admin/accounts-in-cluster.ts";
import { JobsLeft } from "../../../src/domain/ports/accounts.ts";

describe("which cluster is at hand", () => {
  const url = "postgres://db";
  test.each([
    { title: "jobs are in PostgreSQL", jobStore: "postgres", url, named: true, is: "none" },
    { title: "jobs are resources", jobStore: "kubernetes", url, named: false, is: "named" },
    { title: "one is named", jobStore: undefined, url: undefined, named: true, is: "named" },
    {
      title: "a standalone's database",
      jobStore: undefined,
      url: undefined,
      named: false,
      is: "none",
    },
    { title: "some database", jobStore: undefined, url, named: false, is: "unnamed" },
  ] as const)("$title: $is", ({ jobStore, url: databaseUrl, named, is }) => {
    expect(configuredCluster({ jobStore, databaseUrl, named })).toBe(is);
  });
});

const AWAY = new Error("connection refused");

/** `asked`: the calls to the cluster, and what else was done. */
function accounts(
  configured: ConfiguredCluster,
  answers: Partial<ClusterQuestions> = {},
  watchNamespaces: string[] = [],
) {
  const said: string[] = [];
  const asked: string[] = [];
  const cluster: ClusterQuestions = {
    namespaceUid: async (namespace) => {
      asked.push(`uid of ${namespace}`);
      return answers.namespaceUid?.(namespace);
    },
    leave: async (namespace, uid) => {
      asked.push(`leave ${namespace} ${uid}`);
      return answers.leave?.(namespace, uid);
    },
    deleteAccount: async (id, remove) => {
      await remove();
      asked.push(`delete ${id}`);
      return answers.deleteAccount?.(id, remove);
    },
  };
  const of = createAccountsInCluster({
    configured,
    cluster,
    watchNamespaces,
    say: (line) => said.push(line),
  });
  const remove = async () => {
    asked.push("removed");
  };
  return { of, said, asked, remove };
}

describe("the uid of a namespace", () => {
  test("is the cluster's word, where there is one", async () => {
    const { of, said } = accounts("named", { namespaceUid: async () => "uid" });
    expect(await of.namespaceUid("team")).toBe("uid");
    expect(said).toEqual([]);
  });

  test("is none of a namespace that does not exist, which is said", async () => {
    const { of, said } = accounts("named");
    expect(await of.namespaceUid("taem")).toBe("");
    expect(said).toEqual([expect.stringContaining("there is no namespace taem yet")]);
  });

  test("is not known where the cluster cannot be asked, which is said", async () => {
    const { of, said } = accounts("named", { namespaceUid: () => Promise.reject(AWAY) });
    expect(await of.namespaceUid("team")).toBe("");
    expect(said).toEqual(["bound by name alone, the cluster was not asked: connection refused"]);
  });

  test.each([
    { configured: "none", says: 1 },
    { configured: "unnamed", says: 0 },
  ] as const)("nobody is asked where the cluster is $configured", async ({ configured, says }) => {
    const { of, said, asked } = accounts(configured);
    expect(await of.namespaceUid("team")).toBe("");
    expect([said.length, asked]).toEqual([says, []]);
  });

  test("nobody is asked about what is no namespace, or none that is served", async () => {
    const { of, asked } = accounts("named", {}, ["served"]);
    expect(await of.namespaceUid("No Namespace")).toBe("");
    await expect(of.namespaceUid("other")).rejects.toThrow("CARILLON_WATCH_NAMESPACES (served)");
    await of.namespaceUid("served");
    expect(asked).toEqual(["uid of served"]);
  });

  test("in PostgreSQL what is served does not matter", async () => {
    expect(await accounts("none", {}, ["served"]).of.namespaceUid("other")).toBe("");
  });
});

test("a namespace is left where the cluster says that nothing stays behind, or none can", async () => {
  const named = accounts("named");
  await named.of.leave("team", "uid");
  expect(named.asked).toEqual(["leave team uid"]);
  await accounts("none").of.leave("team", "uid");
  await expect(accounts("unnamed").of.leave("team", null)).rejects.toThrow("set KUBECONFIG");
});

describe("an account goes", () => {
  const account = { id: "a", namespace: "team" };
  const left = new JobsLeft("team", { cause: AWAY });

  test.each([
    { title: "with what the cluster has of it", configured: "named", of: account },
    { title: "without a cluster", configured: "none", of: account },
    { title: "without a namespace", configured: "unnamed", of: { ...account, namespace: null } },
  ] as const)("$title", async ({ configured, of: gone }) => {
    const { of, asked, remove } = accounts(configured);
    expect(await of.delete(gone, remove)).toBeUndefined();
    expect(asked).toEqual(configured === "named" ? ["removed", "delete a"] : ["removed"]);
  });

  test("and what may be left is said, and why", async () => {
    const { of, remove } = accounts("named", { deleteAccount: async () => left });
    expect(await of.delete(account, remove)).toBe(`${left.message}; connection refused`);
    const unseen = accounts("unnamed");
    expect(await unseen.of.delete(account, unseen.remove)).toBe(
      `${left.message}; they cannot be seen from here without KUBECONFIG`,
    );
    expect(unseen.asked).toEqual(["removed"]);
  });
});
