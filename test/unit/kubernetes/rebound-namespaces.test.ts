import { addAbortSignal, PassThrough } from "node:stream";
import { expect, test } from "vitest";
import type { Bindings } from "../../../src/domain/ports/account-namespaces.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import {
  ChangeUnread,
  PositionExpired,
  type JobEvent,
} from "../../../src/domain/ports/job-store.ts";
import type { KubernetesClient } from "../../../src/kubernetes/client.ts";
import { untilAborted } from "../../../src/waiting/until-aborted.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import { settle } from "../controller/controller-world.ts";
import { jobWatchOn } from "./job-watch-on.ts";

const job = (uid: string, resourceVersion: string) => ({
  metadata: { namespace: "team", name: uid, uid, resourceVersion },
  spec: { schedule: { cron: "@daily" }, webhook: { url: "https://example.com/" } },
});
const told = (type: "ADDED" | "MODIFIED" | "DELETED", uid: string, resourceVersion: string) => ({
  type,
  object: job(uid, resourceVersion),
});

const nameIn = (path: string) => /namespaces\/([^/]+)/.exec(path)?.[1] ?? "all";

/** A watch from position 1, of a server whose lists and watches the test gives, and what the server was asked for. */
function world(scopes: readonly (string | undefined)[] = [undefined]) {
  const asked: string[] = [];
  const server = {
    /** What `team` has, by page. */
    pages: [[]] as object[][],
    listedAt: "10",
    /** What each watch tells, the first one first; it ends there if it is lost, and is silent otherwise. */
    watches: [] as object[][],
    lost: false,
    /** Whoever asked for the list wants nothing any more when it comes. */
    tooLate: false,
    /** Nobody can say whose a job is. */
    databaseAway: false,
  };
  let listedUnder: Bindings = new Map();
  let stop = new AbortController();
  let bound: Bindings = new Map();
  let change = Promise.withResolvers<void>();
  /** From now on these namespaces, and no others, are bound. */
  const bind = (...namespaces: string[]): void => {
    bound = new Map(namespaces.map((namespace) => [namespace, "somebody"]));
    change.resolve();
    change = Promise.withResolvers();
  };
  const client: Pick<KubernetesClient, "call" | "watch"> = {
    async call({ path, query, signal }) {
      if (query?.["limit"] === 1)
        return { metadata: { resourceVersion: "99" }, items: [] } as never;
      asked.push(`list ${nameIn(path)}`);
      if (server.tooLate) stop.abort();
      signal?.throwIfAborted();
      const page = Number(query?.["continue"] ?? 0);
      const next = page + 1 < server.pages.length ? String(page + 1) : "";
      const metadata = { resourceVersion: server.listedAt, continue: next };
      return { metadata, items: server.pages[page] } as never;
    },
    async watch({ path, query, signal }) {
      asked.push(`watch ${nameIn(path)} from ${query["resourceVersion"]}`);
      const body = new PassThrough();
      for (const event of server.watches.shift() ?? []) body.write(`${JSON.stringify(event)}\n`);
      if (server.lost) body.end();
      return addAbortSignal(signal, body) as never;
    },
  };
  const accounts = namespaceAccounts(["team"]);
  const watch = jobWatchOn(client, {
    listedUnder: () => listedUnder,
    accountNamespaces: {
      ...accounts,
      async accountOf(namespace) {
        if (server.databaseAway) throw new DependencyUnavailable("postgresql");
        return accounts.accountOf(namespace);
      },
      async changedSince(before, signal) {
        if (before.size === bound.size)
          await untilAborted(change.promise, signal).catch(() => undefined);
        return signal.aborted ? undefined : bound;
      },
    },
    scopes,
  });
  const beginning = scopes.map((scope) => (scope === undefined ? "1" : `${scope}=1`)).join("&");
  /** What comes up to `last`; `on` hears of each. */
  const until = async (
    last: string,
    on: (line: string) => void = () => undefined,
    from = beginning,
  ) => {
    const lines: string[] = [];
    stop = new AbortController();
    for await (const event of watch(from, stop.signal)) {
      lines.push(lineOf(event));
      on(lineOf(event));
      if (lineOf(event) === last) break;
    }
    return lines;
  };
  /** All jobs are listed. */
  const listAll = (): void => {
    listedUnder = bound;
  };
  return { asked, bind, server, until, listAll, halt: () => stop.abort() };
}

function lineOf(event: JobEvent): string {
  if (event.type === "changed")
    return `${event.job.uid} of ${event.job.account} at ${event.position}`;
  return event.type === "deleted" ? `no ${event.uid} at ${event.position}` : `at ${event.position}`;
}

test("their jobs are listed in between; what the list has shown is not told again, but for deletions", async () => {
  const { asked, bind, server, until } = world();
  server.pages = [[job("a", "5")], [job("b", "10")]];
  server.watches = [
    [told("ADDED", "a", "2")],
    [
      told("ADDED", "b", "3"),
      told("ADDED", "c", "4"),
      told("DELETED", "c", "6"),
      told("MODIFIED", "b", "10"),
      told("MODIFIED", "a", "11"),
      told("ADDED", "d", "9"),
    ],
  ];
  const lines = await until("d of account-of-team at 9", (line) => {
    if (line.startsWith("a of account-of-team at 2") && asked.length === 1) bind("team");
  });
  expect(lines).toEqual([
    "at 1",
    "a of account-of-team at 2",
    "a of account-of-team at 2",
    "b of account-of-team at 2",
    "at 2",
    "at 3",
    "at 4",
    "no c at 6",
    "at 10",
    "a of account-of-team at 11",
    // Behind the list nothing is held back any more.
    "d of account-of-team at 9",
  ]);
  expect(asked).toEqual(["watch all from 1", "list team", "list team", "watch all from 2"]);
});

test("a job that somebody else's finalizer keeps is not in the list", async () => {
  const { bind, server, until } = world();
  const { metadata, spec } = job("kept", "5");
  server.pages = [[{ metadata: { ...metadata, deletionTimestamp: "2026-11-23T12:00:00Z" }, spec }]];
  server.watches = [[], [told("ADDED", "a", "11")]];
  bind("team");
  expect(await until("a of account-of-team at 11")).toEqual([
    "at 1",
    "at 1",
    "a of account-of-team at 11",
  ]);
});

test("of several namespaces only the one that is bound anew is listed, and nobody hears of others", async () => {
  const { asked, bind, server, until } = world(["other", "team"]);
  server.pages = [[job("a", "5")]];
  bind("elsewhere");
  await until("a of account-of-team at other=1&team=1", (line) => {
    if (line.startsWith("at")) bind("elsewhere", "team");
  });
  expect(asked).toEqual(["watch other from 1", "watch team from 1", "list team"]);
});

test("when very many are bound anew, all jobs are listed", async () => {
  const namespaces = Array.from({ length: 21 }, (_, index) => `team-${index}`);
  const few = world();
  few.server.watches = [[], [told("ADDED", "a", "11")]];
  few.bind(...namespaces.slice(1));
  await few.until("a of account-of-team at 11");
  expect(few.asked).toHaveLength(22);
  const many = world();
  many.bind(...namespaces);
  await expect(many.until("nothing")).rejects.toThrow(PositionExpired);
});

test("where positions are no numbers, all jobs are listed", async () => {
  const { bind, server, until } = world();
  server.listedAt = "ten";
  bind("team");
  await expect(until("nothing")).rejects.toThrow(PositionExpired);
});

test("a watch that is lost before it has come as far as the list asks for a list of all jobs", async () => {
  for (const version of ["9", "10"]) {
    const { bind, server, until } = world();
    server.watches = [[], [told("ADDED", "a", version)]];
    bind("team");
    const error: unknown = await until("nothing", (line) => {
      if (line === "at 1") server.lost = true;
    }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(version === "9" ? PositionExpired : DependencyUnavailable);
  }
});

test("one that gets its former account back while no watch is open is listed once more", async () => {
  const { asked, bind, server, until } = world();
  server.pages = [[job("a", "5")]];
  server.watches = [[], [told("MODIFIED", "a", "11")]];
  bind("team");
  const lost = until("nothing", (line) => {
    if (line === "a of account-of-team at 1") server.lost = true;
  });
  await expect(lost).rejects.toThrow(DependencyUnavailable);
  bind();
  server.lost = false;
  asked.length = 0;
  expect(await until("a of account-of-team at 1")).toEqual(["at 1", "a of account-of-team at 1"]);
  expect(asked).toEqual(["watch all from 1", "list team"]);
});

test("one whose list was broken off is listed once more", async () => {
  const { asked, bind, server, until } = world();
  server.pages = [[job("a", "5")]];
  server.tooLate = true;
  bind("team");
  expect(await until("nothing")).toEqual(["at 1"]);
  server.tooLate = false;
  await until("a of account-of-team at 1");
  expect(asked).toEqual(["watch all from 1", "list team", "watch all from 1", "list team"]);
});

test("one that was bound when all jobs were listed again, and is so no more, is listed", async () => {
  const { asked, bind, until, listAll, server } = world();
  server.watches = [[told("ADDED", "b", "2")]];
  await until("b of account-of-team at 2");
  bind("team");
  listAll();
  bind();
  server.pages = [[job("a", "5")]];
  await until("a of account-of-team at 1");
  expect(asked).toEqual(["watch all from 1", "watch all from 1", "list team"]);
});

test("one that cannot be listed waits until it can", async () => {
  const { asked, bind, until, halt } = world(["other", "team"]);
  const watching = until("nothing", undefined, "other=1&team=refused");
  bind("team");
  await settle();
  halt();
  expect(await watching).toEqual(["at other=1&team=refused"]);
  expect(asked).toEqual(["watch other from 1"]);
});

test("a job of which nobody can say whose it is, behind such a list, is told of as such", async () => {
  const { bind, server, until } = world();
  const { metadata, spec } = job("x", "6");
  const elsewhere = { metadata: { ...metadata, namespace: "elsewhere" }, spec };
  server.watches = [[], [{ type: "ADDED", object: elsewhere }]];
  server.pages = [[job("a", "5")]];
  bind("team");
  const broken = until("nothing", (line) => {
    if (line === "a of account-of-team at 1") server.databaseAway = true;
  });
  await expect(broken).rejects.toThrow(ChangeUnread);
});
