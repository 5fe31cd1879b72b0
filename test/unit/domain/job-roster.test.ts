import { expect, test } from "vitest";
import { createJobRoster } from "../../../src/domain/job-roster.ts";
import type { ListedJob } from "../../../src/domain/listed-job.ts";

function job(id: string, change: Partial<ListedJob> = {}): ListedJob {
  return {
    uid: `uid-${id}`,
    account: "a",
    id,
    generation: 1,
    createdAt: 1_000,
    owner: null,
    spec: {
      name: id,
      schedule: { kind: "cron", expression: "0 3 * * *", timeZone: "UTC" },
      suspend: false,
    },
    kind: "webhook",
    address: "https://example.com/",
    ...change,
  };
}

test("oldest first, the id as tie-break, whatever the order they come in", () => {
  const roster = createJobRoster();
  for (const each of [
    job("c"),
    job("b"),
    job("a", { createdAt: 2_000 }),
    job("d", { createdAt: 1 }),
  ])
    roster.put(each);
  expect(roster.jobs().map(({ id }) => id)).toEqual(["d", "b", "c", "a"]);
});

test("an equal job and an older generation change nothing, a newer one and another owner do", () => {
  const roster = createJobRoster();
  const first = job("a", { generation: 2 });
  roster.put(first);
  const list = roster.jobs();
  roster.put(job("a", { generation: 2 }));
  roster.put(job("a", { generation: 1, address: "https://old.example/" }));
  expect(roster.jobs()).toBe(list);
  expect(roster.jobs()[0]).toBe(first);
  roster.put(job("a", { generation: 3, address: "https://new.example/" }));
  expect(roster.jobs().map(({ address }) => address)).toEqual(["https://new.example/"]);
  const owned = job("a", { generation: 3, owner: { tool: "Helm", name: "release x" } });
  roster.put(owned);
  expect(roster.jobs()).toEqual([owned]);
});

test("what is removed is gone, and may come again as another incarnation", () => {
  const roster = createJobRoster();
  roster.put(job("a"));
  roster.remove("uid-a");
  roster.remove("uid-never-there");
  expect([roster.has("uid-a"), roster.jobs()]).toEqual([false, []]);
  roster.put(job("a", { uid: "uid-2" }));
  expect(roster.jobs().map(({ uid }) => uid)).toEqual(["uid-2"]);
});

test("weighs long names and addresses, and forgets the weight with the job", () => {
  const roster = createJobRoster();
  roster.put(job("a"));
  const small = roster.bytes;
  roster.put(job("a", { generation: 2, address: "x".repeat(2_048) }));
  expect(roster.bytes).toBeGreaterThan(small + 4_000);
  roster.remove("uid-a");
  roster.remove("uid-a");
  expect(roster.bytes).toBe(0);
});
