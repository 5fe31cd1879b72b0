import { expect, test } from "vitest";
import type { Account } from "../../../src/domain/account.ts";
import { createAccountNamespaces } from "../../../src/kubernetes/account-namespaces.ts";
import type { KubernetesClient } from "../../../src/kubernetes/client.ts";
import { FakeTime, settle } from "../controller/controller-world.ts";
import { at } from "../domain/decide-builders.ts";

type Binding = Pick<Account, "id" | "namespace" | "namespaceUid" | "deletedAt">;

const BOUND: Binding = { id: "a", namespace: "team", namespaceUid: "uid-1", deletedAt: null };

/** One account, and one namespace with the uid `uid-1`. */
function world() {
  const time = new FakeTime(at("12:00"));
  const state = { account: BOUND, away: false };
  const account = () => {
    if (state.away) throw new Error("PostgreSQL is away");
    return state.account as Account;
  };
  const found = createAccountNamespaces({
    accounts: {
      get: async () => account(),
      list: async () => [account()],
      byNamespace: async () => account(),
    },
    client: {
      call: async () => ({ metadata: { uid: "uid-1" } }),
    } as Partial<KubernetesClient> as KubernetesClient,
    monotonic: () => time.now(),
    timers: time,
  });
  const bind = (change: Partial<Binding>) => (state.account = { ...BOUND, ...change });
  return { found, state, bind, seconds: (n: number) => time.advanceTo(time.now() + n * 1_000) };
}

test.each([
  { to: "another namespace", change: { namespace: "other" } },
  { to: "a namespace that was made again", change: { namespaceUid: "uid-2" } },
  { to: "another account", change: { id: "b" } },
  { to: "nothing", change: { namespace: null, namespaceUid: null } },
])("a binding to $to is another one, and is known within seconds", async ({ change }) => {
  const { found, state, bind, seconds } = world();
  let known = false;
  const { signal } = new AbortController();
  void found.changedSince(await found.revision(), signal).then(() => (known = true));
  await seconds(20);
  // Nobody can have bound anything there.
  state.away = true;
  await seconds(20);
  state.away = false;
  await seconds(20);
  expect(known).toBe(false);
  bind(change);
  await seconds(5);
  await settle();
  expect(known).toBe(true);
});

test.each([
  { whose: "this one", change: {}, is: "team" },
  { whose: "an earlier one of its name", change: { namespaceUid: "uid-0" }, is: undefined },
  { whose: "one that was deleted", change: { deletedAt: at("11:00") }, is: undefined },
  { whose: "any of that name", change: { namespaceUid: null }, is: "team" },
])("the namespace of an account that is bound to $whose", async ({ change, is }) => {
  const { found, bind } = world();
  bind(change);
  expect(await found.namespaceOf("a")).toBe(is);
});

test("what was known before a binding changed is asked for again, by whoever has heard of it", async () => {
  const { found, bind } = world();
  await found.revision();
  expect(await found.accountOf("team")).toBe("a");
  bind({ id: "b" });
  expect(await found.accountOf("team")).toBe("a");
  await found.revision();
  expect(await found.accountOf("team")).toBe("b");
});
