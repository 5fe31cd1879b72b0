import { expect, test } from "vitest";
import type { Account } from "../../../src/domain/account.ts";
import type { Bindings } from "../../../src/domain/ports/account-namespaces.ts";
import { createAccountNamespaces } from "../../../src/kubernetes/account-namespaces.ts";
import type { ApiCall, KubernetesClient } from "../../../src/kubernetes/client.ts";
import { FakeTime, settle } from "../controller/controller-world.ts";
import { at } from "../domain/decide-builders.ts";

type Binding = Pick<Account, "id" | "namespace" | "namespaceUid" | "deletedAt">;

const BOUND: Binding = { id: "a", namespace: "team", namespaceUid: "uid-1", deletedAt: null };

/** One account. Every namespace exists, with the uid `uid-1`; the API server answers when `look` is over. */
function world(look: (path: string) => Promise<void> = async () => undefined) {
  const time = new FakeTime(at("12:00"));
  const state = {
    account: BOUND,
    away: false,
    leaving: false,
    /** Another process was quicker to bind the account, to another incarnation. */
    boundElsewhere: false,
    lists: 0,
    /** Of which accounts the bindings were read, by look. */
    looks: [] as (readonly string[])[],
    /** Lists wait for this before they are answered. */
    held: undefined as Promise<void> | undefined,
  };
  const account = () => {
    if (state.away) throw new Error("PostgreSQL is away");
    return state.account as Account;
  };
  const found = createAccountNamespaces({
    accounts: {
      list: async () => {
        state.lists += 1;
        const listed = [account()];
        await state.held;
        return listed;
      },
      byNamespace: async () => (state.boundElsewhere ? undefined : account()),
      bindings: async (ids) => {
        const { id, namespace, namespaceUid, deletedAt } = account();
        state.looks.push(ids);
        if (namespace === null || deletedAt !== null) return [];
        return [{ account: id, namespace, namespaceUid, leaving: state.leaving }];
      },
    },
    client: {
      call: async <T>({ path }: ApiCall) => {
        await look(path);
        return { metadata: { uid: "uid-1" } } as T;
      },
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
  void found.changedSince(await found.bindings(), signal).then(() => (known = true));
  await seconds(20);
  // While PostgreSQL is away, nobody can have bound anything.
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

test("an account that is bound by name alone is where the incarnation is that it gets", async () => {
  const { found, state, bind, seconds } = world();
  bind({ namespaceUid: null });
  const seen = async () => [await found.namespaceOf("a"), (await found.bindingOf("a")).namespace];
  expect(await seen()).toEqual(["team", "team"]);
  state.boundElsewhere = true;
  await seconds(6);
  expect(await seen()).toEqual([undefined, undefined]);
});

test("however many watches wait for a change, one look is for all of them, every five seconds", async () => {
  const { found, state, bind, seconds } = world();
  const before = await found.bindings();
  const leaving = new AbortController();
  const staying = new AbortController();
  const over: string[] = [];
  const wait = (name: string, { signal }: AbortController) =>
    found.changedSince(before, signal).then(() => over.push(name));
  state.lists = 0;
  const waits = Array.from({ length: 200 }, (_, index) => wait(`watch ${index}`, staying));
  void wait("leaving", leaving);
  await seconds(2);
  waits.push(wait("late", staying));
  await seconds(18);
  expect(state.lists).toBe(4);
  leaving.abort();
  await settle();
  expect(over).toEqual(["leaving"]);
  bind({ id: "b" });
  await seconds(5);
  await Promise.all(waits);
  expect(over).toHaveLength(202);
  expect(state.lists).toBe(5);
  // Nobody waits for a change any more.
  await seconds(60);
  expect(state.lists).toBe(5);
});

test("a look that began before a change was known of says nothing to those who know of it", async () => {
  const { found, state, bind, seconds } = world();
  const { signal } = new AbortController();
  const over: string[] = [];
  const wait = async (name: string, before: Bindings) => {
    await found.changedSince(before, signal);
    over.push(name);
  };
  void wait("early", await found.bindings());
  const { promise, resolve } = Promise.withResolvers<void>();
  state.held = promise;
  await seconds(5);
  state.held = undefined;
  bind({ id: "b" });
  void wait("late", await found.bindings());
  resolve();
  await seconds(4);
  expect(over).toEqual([]);
  await seconds(10);
  expect(over).toEqual(["early"]);
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
  expect(await found.bindingOf("a")).toEqual({ namespace: is, leaving: false });
});

test("where an account is bound now is never from before the question; who asks meanwhile shares the next look", async () => {
  const held = Promise.withResolvers<void>();
  let looks = 0;
  const { found, state, bind } = world(async () => {
    looks += 1;
    if (looks === 1) await held.promise;
  });
  const first = found.bindingOf("a");
  await settle();
  const later = [found.bindingOf("a"), found.bindingOf("b"), found.bindingOf("a")];
  bind({ namespace: "other" });
  state.leaving = true;
  held.resolve();
  expect(await first).toEqual({ namespace: "team", leaving: false });
  expect(await Promise.all(later)).toEqual([
    { namespace: "other", leaving: true },
    { namespace: undefined, leaving: false },
    { namespace: "other", leaving: true },
  ]);
  expect(state.looks).toEqual([["a"], ["a", "b"]]);
});

test("what was known before a binding changed is asked for again, by whoever has heard of it", async () => {
  const { found, bind } = world();
  await found.bindings();
  expect(await found.accountOf("team")).toBe("a");
  bind({ id: "b" });
  expect(await found.accountOf("team")).toBe("a");
  await found.bindings();
  expect(await found.accountOf("team")).toBe("b");
});

test.each([
  { forgotten: "team", asked: ["b", "a"] },
  { forgotten: "other", asked: ["a", "b"] },
  { forgotten: undefined, asked: ["b", "b"] },
])(
  "what is forgotten of $forgotten is asked for again, and no more",
  async ({ forgotten, asked }) => {
    const { found, bind } = world();
    const both = () => Promise.all(["team", "other"].map((name) => found.accountOf(name)));
    expect([await both(), await found.namespaceOf("a")]).toEqual([["a", "a"], "team"]);
    bind({ id: "b", namespace: null });
    expect([await both(), await found.namespaceOf("a")]).toEqual([["a", "a"], "team"]);
    found.forget(forgotten);
    expect([await both(), await found.namespaceOf("a")]).toEqual([asked, undefined]);
    bind({ id: "c" });
    expect(await both()).toEqual(asked);
    found.forget(forgotten);
    expect(await both()).not.toEqual(asked);
  },
);

test("accounts of many namespaces are looked up together, not all at a time, and each once", async () => {
  let [now, most] = [0, 0];
  const asked: string[] = [];
  const { found } = world(async (path) => {
    asked.push(path);
    most = Math.max(most, (now += 1));
    await settle();
    now -= 1;
    // A failed look frees its turn, too.
    if (path.endsWith("/team-3")) throw new Error("no answer");
  });
  const teams = Array.from({ length: 50 }, (_, index) => `team-${index}`);
  const answers = await Promise.allSettled(
    [...teams, ...teams].map((team) => found.accountOf(team)),
  );
  const failed = teams.flatMap((_, index) =>
    answers[index]?.status === "rejected" ? [index] : [],
  );
  expect(failed).toEqual([3]);
  expect(answers.slice(50)).toEqual(answers.slice(0, 50));
  expect(asked).toHaveLength(50);
  expect(most).toBe(16);
  // Failures are not cached.
  await expect(found.accountOf("team-3")).rejects.toThrow("no answer");
  expect(asked).toHaveLength(51);
});
