import { randomBytes } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import type { OnceState } from "../../../src/domain/cursor.ts";
import { DAY } from "../../../src/domain/instant.ts";
import type { Job } from "../../../src/domain/job.ts";
import type { FinishedJob } from "../../../src/domain/ports/run-history.ts";
import { derivedJobId, newJobId, OUR_JOB_ID } from "../../../src/gateway/job-id.ts";
import { onceSpec } from "../../conformance/job-store.ts";
import { cursorOf, job, runsFixture, scheduled, type RunsFixture } from "./runs-fixture.ts";

/** A database of its own, because all jobs of a database are looked at. */
let fixture: RunsFixture;
beforeAll(async () => {
  fixture = await runsFixture();
  return () => fixture.close();
});

const NOW = Date.now();
const BEFORE = NOW - 90 * DAY;
const ago = (days: number) => NOW - days * DAY;

interface Ended {
  id?: string;
  once?: OnceState;
  decidedAgo?: number;
  attemptedAgo?: number;
  account?: null;
  deleted?: boolean;
  unfinished?: boolean;
}

async function made(ended: Ended): Promise<Job> {
  const at = ago(ended.decidedAgo ?? 91);
  const of = job({
    id: ended.id ?? newJobId(NOW, randomBytes(10)),
    spec: onceSpec(at),
    ...("account" in ended ? { account: null } : {}),
  });
  const to = { once: ended.once ?? "completed", position: at, deleted: ended.deleted ?? false };
  const create = ended.unfinished ? [scheduled(NOW + DAY)] : [];
  await fixture.apply(of, { to, create });
  if (ended.attemptedAgo !== undefined)
    await fixture.pool.query("update job_cursors set last_executed_at = $2 where job_uid = $1", [
      of.uid,
      new Date(ago(ended.attemptedAgo)),
    ]);
  return of;
}

/** Reads all as a sweep does, in pages of two. */
async function all(): Promise<FinishedJob[]> {
  const query = { before: BEFORE, jobIds: OUR_JOB_ID, limit: 2 };
  const found: (FinishedJob | undefined)[] = [];
  let page: string[] = [];
  do {
    page = await fixture.history.finished({ ...query, after: page.at(-1) });
    for (const jobUid of page)
      found.push(await fixture.history.finishedJob({ before: BEFORE, jobUid }));
  } while (page.length > 0);
  return found.filter((each) => each !== undefined);
}

test.each<Ended & { title: string; over: boolean }>([
  { title: "completed", once: "completed", over: true },
  { title: "failed", once: "failed", over: true },
  { title: "missed", once: "missed", over: true },
  { title: "attempted for the last time before, too", attemptedAgo: 91, over: true },
  { title: "not yet fired", once: "armed", over: false },
  { title: "fired, and not recorded", once: "fired", over: false },
  { title: "over for less", decidedAgo: 89, over: false },
  { title: "run by hand since", attemptedAgo: 89, over: false },
  { title: "about to be run by hand", unfinished: true, over: false },
  { title: "deleted", deleted: true, over: false },
  { title: "named by somebody", id: "job-reminder", over: false },
  { title: "of an id derived from a key", id: derivedJobId("a", "k"), over: true },
  { title: "of no account", account: null, over: false },
])("$title: over is $over", async ({ over, ...ended }) => {
  const of = await made(ended);
  const found = (await all()).find(({ cursor }) => cursor.jobUid === of.uid);
  expect(found).toEqual(
    over
      ? { account: of.account, jobId: of.id, cursor: await cursorOf(fixture.ledger, of) }
      : undefined,
  );
});

test("each comes once, by uid", async () => {
  for (let i = 0; i < 5; i += 1) await made({});
  const uids = (await all()).map(({ cursor }) => cursor.jobUid);
  expect(uids.length).toBeGreaterThanOrEqual(5);
  expect(uids).toEqual([...new Set(uids)].toSorted());
});

test("one that is no longer over between the two looks is not found", async () => {
  const of = await made({});
  const look = () => fixture.history.finishedJob({ before: BEFORE, jobUid: of.uid });
  expect(await look()).toBeDefined();
  await fixture.cancel([of]);
  expect(await look()).toBeUndefined();
});
