import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import {
  ChangeUnread,
  PositionExpired,
  type JobEvent,
} from "../../../src/domain/ports/job-store.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import type { KubernetesClient } from "../../../src/kubernetes/client.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import { FakeTime } from "../controller/controller-world.ts";
import { jobWatchOn } from "./job-watch-on.ts";

/**
 * A watch of these events, of which each piece comes at once. `forgotten`: the namespaces whose cached answers it
 * dropped.
 */
function watchOf(
  pieces: readonly (readonly object[])[],
  accountOf: (namespace: string) => Promise<string | null>,
) {
  const forgotten: string[] = [];
  const lines = pieces.map((events) =>
    Buffer.from(events.map((event) => `${JSON.stringify(event)}\n`).join("")),
  );
  const client: Pick<KubernetesClient, "call" | "watch"> = {
    call: async () => ({ metadata: { resourceVersion: "1" } }) as never,
    watch: async () => Readable.from(lines) as Awaited<ReturnType<KubernetesClient["watch"]>>,
  };
  const watch = jobWatchOn(client, {
    accountNamespaces: {
      ...namespaceAccounts([]),
      accountOf,
      forget: (namespace = "every namespace") => forgotten.push(namespace),
    },
    scopes: [undefined],
  });
  return { told: watch("1", new AbortController().signal), forgotten };
}

/** The namespaces whose cached answers are dropped during these events. */
async function forgottenBy(
  events: readonly object[],
  accountOf: () => Promise<string | null> = async () => null,
): Promise<string[]> {
  const pieces = events.map((event) => [event]);
  const { told, forgotten } = watchOf(pieces, accountOf);
  let left = events.length;
  for await (const { type } of told) if (type !== "bookmark" && --left === 0) break;
  return forgotten;
}

const of = (type: "ADDED" | "DELETED", namespace: string) => ({
  type,
  object: {
    metadata: { namespace, name: "job", uid: `of-${namespace}`, resourceVersion: "2" },
    spec: { schedule: { cron: "@daily" }, webhook: { url: "https://example.com/" } },
  },
});

test("a change of which PostgreSQL does not say whose it is has not been taken in", async () => {
  const cause = new Error("no answer");
  const watched = forgottenBy([of("ADDED", "team")], async () => {
    throw new DependencyUnavailable("postgres", { cause });
  });
  const error: unknown = await watched.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ChangeUnread);
  expect(error).toMatchObject({ dependency: "postgres", cause });
});

describe("what has come in together", () => {
  const events = [of("ADDED", "a"), of("ADDED", "b"), of("DELETED", "b"), of("ADDED", "c")];

  test("is asked about at once, and told in its order whichever answer is first", async () => {
    const answers = new Map<string, (account: string) => void>();
    const { told } = watchOf([events], (namespace) => {
      const { promise, resolve } = Promise.withResolvers<string>();
      answers.set(namespace, resolve);
      return promise;
    });
    const seen: unknown[] = [];
    const read = (async () => {
      for await (const event of told) {
        if (event.type === "changed") seen.push(event.job.account);
        if (event.type === "deleted") seen.push(event.uid);
        if (seen.length === events.length) break;
      }
    })();
    await expect.poll(() => [...answers.keys()]).toEqual(["a", "b", "c"]);
    for (const [namespace, answer] of [...answers].reverse()) answer(`account of ${namespace}`);
    await read;
    expect(seen).toEqual(["account of a", "account of b", "of-b", "account of c"]);
  });

  test("is told up to the first of which nobody says whose it is", async () => {
    const seen: string[] = [];
    const { told } = watchOf([events], async (namespace) => {
      if (namespace !== "a") throw new DependencyUnavailable(`PostgreSQL for ${namespace}`);
      return null;
    });
    const read = (async () => {
      for await (const event of told) if (event.type === "changed") seen.push(event.job.uid);
    })();
    await expect(read).rejects.toMatchObject({
      name: "ChangeUnread",
      dependency: "PostgreSQL for b",
    });
    expect(seen).toEqual(["of-a"]);
  });

  test("is asked anew where a namespace was made again in between", async () => {
    const again = [of("ADDED", "b"), of("DELETED", "b"), of("ADDED", "b"), of("ADDED", "b")];
    const asked: number[] = [];
    const { told, forgotten } = watchOf([again], async () => {
      asked.push(forgotten.length);
      return null;
    });
    let left = again.length;
    for await (const { type } of told) if (type !== "bookmark" && --left === 0) break;
    expect(forgotten).toEqual(["b"]);
    expect(asked).toEqual([0, 1, 1]);
  });
});

test("whose a namespace is, is asked anew for the first job behind a deletion", async () => {
  const events = [of("DELETED", "team"), of("DELETED", "other"), of("ADDED", "team")];
  expect(await forgottenBy([...events, of("ADDED", "team")])).toEqual(["team"]);
});

test("however many namespaces come and go, no more than a thousand are remembered for it", async () => {
  const namespaces = Array.from({ length: 1_003 }, (_, index) => `gone-${index}`);
  const events = namespaces.map((namespace) => of("DELETED", namespace));
  // The oldest answers are dropped at once, and not only when a job of the namespace comes.
  const oldest = ["gone-0", "gone-1", "gone-2"];
  expect(await forgottenBy(events)).toEqual(oldest);
  expect(await forgottenBy([...events, of("ADDED", "gone-0")])).toEqual(oldest);
  expect(await forgottenBy([...events, of("ADDED", "gone-3")])).toEqual([...oldest, "gone-3"]);
});

type Asked = Parameters<KubernetesClient["watch"]>[0];

const SILENCE = Object.assign(new Error("no byte came"), { code: "UND_ERR_BODY_TIMEOUT" });

/** Watches whose answers the test gives. Each watch takes a second. */
function world(scopes: readonly (string | undefined)[] = [undefined]) {
  const time = new FakeTime(0);
  const asked: Asked[] = [];
  const bodies: Readable[] = [];
  const seen: string[] = [];
  let answers: ((path: string) => readonly object[]) | undefined;
  /**
   * `at`: its position. `silent`: no byte comes after an answer. `refused`: the namespace that may not be listed.
   * `unwatched`: one that may not be watched, once.
   */
  const server = { at: "100", silent: false, busy: false, refused: "", unwatched: "" };
  const looks: number[] = [];
  const client: Pick<KubernetesClient, "call" | "watch"> = {
    async call({ verb, path }) {
      if (server.busy) throw new DependencyUnavailable("kubernetes");
      if (verb === "list" && path.includes(`/namespaces/${server.refused}/`)) {
        looks.push(time.now());
        throw new ApiError(403, undefined, path);
      }
      return { metadata: { uid: "there", resourceVersion: server.at } } as never;
    },
    async watch(watch) {
      asked.push(watch);
      const lines = (answers?.(watch.path) ?? []).map((event) =>
        Buffer.from(`${JSON.stringify(event)}\n`),
      );
      await time.advanceTo(time.now() + 1_000);
      if (watch.path.includes(`/namespaces/${server.unwatched}/`)) {
        server.unwatched = "";
        throw new ApiError(403, undefined, watch.path);
      }
      const body = Readable.from(
        (function* () {
          yield* lines;
          if (server.silent) throw SILENCE;
        })(),
      );
      bodies.push(body);
      return body as Awaited<ReturnType<KubernetesClient["watch"]>>;
    },
  };
  const options = {
    accountNamespaces: namespaceAccounts([]),
    memory: { seen: ({ metadata }: { metadata: { uid: string } }) => seen.push(metadata.uid) },
    scopes,
  };
  const watch = jobWatchOn(client, options, time);
  /** The first `count` events of a watch, from a server that answers so. */
  const told = async (
    from: string,
    count: number,
    answer: (path: string) => readonly object[],
  ): Promise<JobEvent[]> => {
    answers = answer;
    const events: JobEvent[] = [];
    for await (const event of watch(from, new AbortController().signal)) {
      events.push(event);
      if (events.length === count) break;
    }
    return events;
  };
  return { asked, bodies, looks, seen, server, time, told };
}
const bookmark = (resourceVersion: string) => ({
  type: "BOOKMARK",
  object: { metadata: { resourceVersion } },
});

test("a watch that the server ends is taken up from its last event, or the bookmark behind it", async () => {
  const { asked, told } = world();
  const answers = [[of("ADDED", "team")], [bookmark("5")], []];
  await told("1", 5, () => answers.shift() ?? []);
  expect(asked.map(({ query }) => query["resourceVersion"])).toEqual(["1", "2", "5"]);
  expect(asked[0]?.query).toMatchObject({ allowWatchBookmarks: "true", timeoutSeconds: 450 });
});

test("an API server that falls silent is watched again, unless it is behind what was seen", async () => {
  const { asked, server, told } = world();
  server.silent = true;
  await told("5", 3, () => [bookmark("7")]);
  expect(asked.map(({ query }) => query["resourceVersion"])).toEqual(["5", "7"]);
  const restored = () => {
    server.at = "6";
    return [bookmark("7")];
  };
  await expect(told("5", 9, restored)).rejects.toThrow(PositionExpired);
  expect(asked).toHaveLength(3);
});

test("where an API server is that has no time to say so is asked again behind its next silence", async () => {
  const { server, told } = world();
  Object.assign(server, { at: "3", silent: true, busy: true });
  const watched = told("5", 9, () => {
    server.busy = false;
    return [];
  });
  await expect(watched).rejects.toThrow(PositionExpired);
});

test("one that neither tells nor says where it is counts as away, until a list has led elsewhere", async () => {
  const { asked, server, told } = world();
  Object.assign(server, { silent: true, busy: true });
  await expect(told("5", 9, () => [])).rejects.toThrow(DependencyUnavailable);
  expect(asked).toHaveLength(1);
  await expect(told("5", 9, () => [])).rejects.toThrow(DependencyUnavailable);
  expect(asked).toHaveLength(1);
  await told("6", 2, () => [bookmark("7")]);
  expect(asked).toHaveLength(2);
});

test("an API server whose positions are no numbers is watched", async () => {
  const { asked, server, told } = world();
  server.at = "abc";
  await told("abd", 2, () => [bookmark("abe")]);
  expect(asked).toHaveLength(1);
});

test("a job that somebody else's finalizer keeps is deleted, and what there is of others is remembered", async () => {
  const { seen, told } = world();
  const { object } = of("ADDED", "kept");
  const deletionTimestamp = "2026-11-23T12:00:00Z";
  const kept = { ...object, metadata: { ...object.metadata, deletionTimestamp } };
  const events = [of("ADDED", "team"), { type: "MODIFIED", object: kept }];
  expect(await told("1", 3, () => events)).toMatchObject([
    { type: "bookmark" },
    { type: "changed", job: { uid: "of-team" } },
    { type: "deleted", uid: "of-kept" },
  ]);
  expect(seen).toEqual(["of-team"]);
});

test("several namespaces: the position has the place in each, and whoever leaves ends all connections", async () => {
  const { asked, told } = world(["a", "b"]);
  const events = await told("a=10&b=20", 4, (path) => [
    bookmark(path.includes("/a/") ? "11" : "21"),
  ]);
  expect(events.at(-1)).toEqual({ type: "bookmark", position: "a=11&b=21" });
  expect(asked.slice(0, 2).map(({ query }) => query["resourceVersion"])).toEqual(["10", "20"]);
  // There may be more than two: one may have ended, and begun anew.
  expect(asked.filter(({ signal }) => !signal.aborted)).toEqual([]);
});

test("a namespace that could not be listed is looked at again, however often the watches of others break", async () => {
  const { asked, told } = world(["a", "b"]);
  const broken = async () => {
    for (let times = 0; times < 60; times += 1)
      await told("a=10&b=gone", 2, () => [bookmark("11")]);
  };
  await expect(broken()).rejects.toThrow("namespace b was gone and is listed");
  // Each watch takes a second.
  expect(asked.length).toBeGreaterThanOrEqual(29);
});

test("one that refused is looked at soon, as after a start of the API server, and then ever less often", async () => {
  const { asked, looks, server, told } = world(["a", "b"]);
  server.refused = "b";
  const broken = async (times: number) => {
    for (; times > 0; times -= 1) await told("a=10&b=refused", 2, () => [bookmark("11")]);
  };
  await broken(100);
  expect(looks.slice(1).map((at, index) => at - (looks[index] ?? 0))).toEqual([
    2_000, 4_000, 8_000, 16_000, 30_000, 30_000,
  ]);
  server.refused = "";
  await expect(broken(60)).rejects.toThrow("namespace b was refused and is listed");
  // It was listed and watched, and then is refused once more.
  await told("a=10&b=20", 2, () => [bookmark("11")]);
  asked.length = 0;
  await expect(broken(60)).rejects.toThrow("namespace b was refused and is listed");
  expect(asked.length).toBeLessThanOrEqual(3);
});

test("what an API server that has just started refuses to watch is watched a moment later", async () => {
  const { server, time, told } = world(["a", "b"]);
  server.unwatched = "b";
  let watched = 0;
  const events = await told("a=10&b=20", 20, (path) => {
    if (path.includes("/a/")) return [bookmark("11")];
    watched += 1;
    // It has started once more.
    if (watched === 3) server.unwatched = "b";
    return [bookmark("21")];
  });
  expect(watched).toBeGreaterThan(3);
  expect(events.at(-1)?.position).toBe("a=11&b=21");
  expect(time.now()).toBeLessThan(20_000);
});

const error = (code: number) => ({ type: "ERROR", object: { kind: "Status", code } });
test.each([
  { says: "that the position is gone", event: error(410), ends: PositionExpired },
  // What came before it may be lost.
  { says: "what is no event", event: ["garbage"], ends: PositionExpired },
  { says: "that it is in trouble", event: error(500), ends: DependencyUnavailable },
])("an API server that says $says ends the watch, behind what it told before", async (row) => {
  const { seen, told } = world();
  await expect(told("1", 9, () => [of("ADDED", "team"), row.event])).rejects.toThrow(row.ends);
  expect(seen).toEqual(["of-team"]);
});

test("a caller that has heard enough leaves no connection behind", async () => {
  const { bodies, told } = world();
  for (const count of [1, 2]) await told("1", count, () => [of("ADDED", "team"), bookmark("3")]);
  expect(bodies.map(({ destroyed }) => destroyed)).toEqual([true, true]);
});
