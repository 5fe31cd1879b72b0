import { expect, test } from "vitest";
import { createStatusBacklog } from "../../../src/kubernetes/status-backlog.ts";

const NOBODY = new Set<string>();

/** The namespace of `a1` is `a`. */
function backlogOf(...uids: string[]) {
  const backlog = createStatusBacklog();
  for (const [since, uid] of uids.entries())
    backlog.add({ uid, namespace: uid.slice(0, 1), since });
  return backlog;
}

function all(backlog: ReturnType<typeof createStatusBacklog>, busy = NOBODY): string[] {
  const taken: string[] = [];
  for (let uid = backlog.next(Infinity, busy); uid; uid = backlog.next(Infinity, busy)) {
    taken.push(uid);
    backlog.take(uid);
  }
  return taken;
}

test("one of each namespace after the other, in each the oldest first", () => {
  const backlog = backlogOf("a1", "a2", "a3", "a4", "b1", "b2", "c1");
  expect(all(backlog)).toEqual(["a1", "b1", "c1", "a2", "b2", "a3", "a4"]);
  expect(backlog.size).toBe(0);
});

test("a namespace in which jobs come and go keeps its turn", () => {
  const backlog = backlogOf("a1", "a2", "b1", "b2");
  backlog.take("a1");
  backlog.delete("b2");
  expect(all(backlog)).toEqual(["b1", "a2"]);
});

test("who is added again keeps its place, and the time since when it is behind", () => {
  const backlog = backlogOf("a1", "a2");
  backlog.add({ uid: "a1", namespace: "a", since: 100 });
  expect(backlog.next(0, NOBODY)).toBe("a1");
  expect(backlog.size).toBe(2);
});

test("a namespace whose jobs are all too new, or busy, makes room for the next", () => {
  expect(backlogOf("a1", "b1").next(-1, NOBODY)).toBeUndefined();
  const backlog = createStatusBacklog();
  backlog.add({ uid: "a1", namespace: "a", since: 9 });
  backlog.add({ uid: "b1", namespace: "b", since: 5 });
  expect(backlog.next(7, NOBODY)).toBe("b1");
  expect(backlog.next(9, new Set(["a1"]))).toBe("b1");
});

test("the busy one is passed over, not those behind it", () => {
  expect(all(backlogOf("a1", "a2", "b1"), new Set(["a1"]))).toEqual(["a2", "b1"]);
});

test("what is deleted or cleared is gone, and can come again", () => {
  const backlog = backlogOf("a1", "a2", "b1");
  backlog.delete("a1");
  backlog.delete("never there");
  expect(all(backlog)).toEqual(["a2", "b1"]);
  const other = backlogOf("a1");
  other.clear();
  expect([other.size, other.next(Infinity, NOBODY)]).toEqual([0, undefined]);
  other.add({ uid: "a1", namespace: "a", since: 0 });
  expect(other.next(0, NOBODY)).toBe("a1");
});
