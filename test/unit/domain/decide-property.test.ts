import * as fc from "fast-check";
import { expect, test } from "vitest";
import type { Cursor } from "../../../src/domain/cursor.ts";
import { decide, type Decision } from "../../../src/domain/decide.ts";
import { MINUTE, SECOND, isoUtc, type Instant } from "../../../src/domain/instant.ts";
import type { Job, JobSpec } from "../../../src/domain/job.ts";
import type { UnfinishedRun } from "../../../src/domain/run.ts";
import { revisionOf } from "../../../src/domain/revision.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import { aJob, at } from "./decide-builders.ts";

/**
 * A small world: a ledger with the contract of src/domain/ports/run-ledger.ts, a job that is edited at random, two
 * leaders that may both be active and have stale cursors and jobs, and workers that start due runs. The oracle is the
 * job's own history of revisions.
 */
interface WorldRun extends UnfinishedRun {
  key: string;
  generation: number;
  finished: boolean;
  startedAt: Instant | null;
}

class World {
  now = at("12:00");
  job: Job;
  cursor: Cursor | undefined;
  runs: WorldRun[] = [];
  missed: { at: Instant; reason: string }[] = [];
  /** When the job was halted: fire times in between are neither executed nor missed. */
  readonly halts: { from: Instant; to: Instant }[] = [];
  /** Each revision, and when it was made. */
  readonly history: { since: Instant; job: Job }[] = [];

  constructor(job: Job) {
    this.job = { ...job, createdAt: this.now };
    this.history.push({ since: this.now, job: this.job });
  }

  edit(change: Partial<JobSpec>): void {
    const spec = { ...this.job.spec, ...change };
    this.job = { ...this.job, spec, generation: this.job.generation + 1 };
    this.history.push({ since: this.now, job: this.job });
  }

  apply(job: Job, from: Cursor | undefined, decision: Decision): boolean {
    if (from?.version !== this.cursor?.version) return false;
    const { to } = decision;
    const keys = new Set(decision.create.map((run) => run.key));
    if (job.spec.schedule.kind === "once")
      for (const { first } of decision.missed) keys.add(isoUtc(first));
    for (const run of this.runs) {
      if (run.finished || run.started) continue;
      if (run.generation === job.generation && to.startable) continue;
      this.runs = this.runs.filter((other) => other !== run);
      // A future fire time is not missed: when its run is dropped, it must be decided again.
      if (run.scheduledAt > this.now && run.scheduledAt <= to.position && !keys.has(run.key))
        throw new Error(`${run.key} was given up before its time`);
      if (run.scheduledAt <= to.position && !keys.has(run.key))
        this.missed.push({ at: run.scheduledAt, reason: "superseded" });
    }
    for (const run of decision.create) {
      if (this.runs.some((other) => other.key === run.key)) continue;
      this.runs.push({
        id: `run-${this.runs.length}-${run.key}`,
        scheduledAt: run.scheduledAt,
        key: run.key,
        generation: job.generation,
        started: false,
        attempts: 0,
        finished: false,
        startedAt: null,
      });
    }
    const { schedule } = timingOf(job.spec).compiled as {
      schedule: { next(a: Instant): Instant | null };
    };
    for (const span of decision.missed) {
      let count = 0;
      for (let t: Instant | null = span.first; t !== null && t <= span.last; t = schedule.next(t)) {
        this.missed.push({ at: t, reason: span.reason });
        count += 1;
      }
      if (count !== span.count) throw new Error(`span of ${count}, said to be ${span.count}`);
    }
    this.cursor = { ...to, jobUid: job.uid, version: (from?.version ?? 0) + 1 };
    const stopped = this.halts.at(-1);
    if (to.startable && stopped?.to === Infinity) stopped.to = this.now;
    return true;
  }

  /** A receiver answers 410 to any run. */
  halt(): void {
    if (this.cursor === undefined) return;
    const { generation: haltedGeneration, startable, haltedAt, version } = this.cursor;
    if (startable) this.halts.push({ from: this.now, to: Infinity });
    this.cursor = {
      ...this.cursor,
      version: version + 1,
      haltedGeneration,
      startable: false,
      haltedAt: startable ? this.now : haltedAt,
    };
  }

  lift(): void {
    const { cursor } = this;
    if (cursor === undefined || cursor.haltedGeneration === null) return;
    let { once, position } = cursor;
    for (const { scheduledAt } of this.runs.filter(({ started }) => !started))
      if (once === "fired") {
        once = "armed";
        position = Math.min(position, scheduledAt - 1);
      } else if (scheduledAt <= Math.min(position, this.now))
        this.missed.push({ at: scheduledAt, reason: "paused" });
    this.runs = this.runs.filter(({ started }) => started);
    const version = cursor.version + 1;
    this.cursor = { ...cursor, version, haltedGeneration: null, once, position };
  }

  /** Workers start due runs of the current revision, and finish them at once or later. */
  work(finish: boolean): void {
    for (const run of this.runs) {
      if (run.finished) continue;
      if (run.started) run.finished = finish;
      else if (
        run.scheduledAt <= this.now &&
        run.generation === this.cursor?.generation &&
        this.cursor.startable
      ) {
        run.started = true;
        run.startedAt = this.now;
        run.finished = finish;
      }
    }
    if (this.cursor?.once === "fired" && this.runs.some((run) => run.finished))
      this.cursor = { ...this.cursor, once: "completed", version: this.cursor.version + 1 };
  }
}

class Leader {
  job: Job;
  cursor: Cursor | undefined;
  readonly world: World;
  readonly ahead: number;
  constructor(world: World, ahead: number) {
    this.world = world;
    this.ahead = ahead;
    this.job = world.job;
  }
  watch(): void {
    this.job = this.world.job;
  }
  reconcile(): void {
    const { world, job } = this;
    for (let attempt = 0; attempt < 5; attempt += 1) {
      const { now } = world;
      const unfinished = world.runs.filter((run) => !run.finished);
      const decision = decide({
        job,
        revision: revisionOf(job),
        timing: timingOf(job.spec),
        cursor: this.cursor,
        unfinished,
        now,
        horizon: now + this.ahead,
      });
      if (!decision.changed) return;
      if (world.apply(job, this.cursor, decision)) {
        this.cursor = world.cursor;
        return;
      }
      this.cursor = world.cursor;
    }
    throw new Error("does not converge");
  }
}

type Step =
  | { do: "pass"; ms: number }
  | { do: "reconcile"; leader: 0 | 1; watch: boolean }
  | { do: "work"; finish: boolean }
  | { do: "halt" }
  | { do: "lift" }
  | { do: "edit"; change: Partial<JobSpec> };

const cron = (expression: string): Partial<JobSpec> => ({
  schedule: { kind: "cron", expression, timeZone: "UTC" },
});

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .constantFrom(1, 300, 5 * SECOND, 14 * SECOND, 21 * SECOND, MINUTE, 7 * MINUTE)
      .map((ms) => ({ do: "pass" as const, ms })),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("reconcile" as const),
      leader: fc.constantFrom(0 as const, 1 as const),
      watch: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("work" as const), finish: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constantFrom<Step>({ do: "halt" }, { do: "lift" }) },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom<Partial<JobSpec>>(
        { name: "other" },
        { suspend: true },
        { suspend: false },
        cron("* * * * *"),
        cron("*/2 * * * *"),
        { concurrencyPolicy: "Forbid" },
        { concurrencyPolicy: "Allow" },
        { startingDeadlineSeconds: 90 },
        { startingDeadlineSeconds: null },
      )
      .map((change) => ({ do: "edit" as const, change })),
  },
);

function play(world: World, leaders: readonly [Leader, Leader], steps: readonly Step[]): void {
  for (const each of steps) {
    if (each.do === "pass") world.now += each.ms;
    else if (each.do === "edit") world.edit(each.change);
    else if (each.do === "work") world.work(each.finish);
    else if (each.do === "halt") world.halt();
    else if (each.do === "lift") world.lift();
    else {
      const leader = leaders[each.leader];
      if (each.watch) leader.watch();
      leader.reconcile();
    }
  }
  // In the end both leaders see the world as it is.
  for (const leader of leaders) {
    leader.watch();
    leader.reconcile();
  }
}

function early(world: World): WorldRun[] {
  return world.runs.filter((run) => run.startedAt !== null && run.startedAt < run.scheduledAt);
}

function unique(values: readonly Instant[]): boolean {
  return new Set(values).size === values.length;
}

test("cron: whatever is edited, no fire time is decided twice and none starts early", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.constantFrom(0, 15_000), (steps, ahead) => {
      const world = new World(aJob({ spec: cron("* * * * *") }));
      const leaders = [new Leader(world, ahead), new Leader(world, ahead)] as const;
      leaders[0].reconcile();
      play(world, leaders, steps);

      expect(early(world)).toEqual([]);
      const decided = [
        ...world.runs.map((run) => run.scheduledAt),
        ...world.missed.map((missed) => missed.at),
      ];
      expect(unique(decided), `decided twice: ${decided.map(isoUtc).join(" ")}`).toBe(true);

      for (const run of world.runs.filter((run) => !run.finished && !run.started))
        expect(run.generation).toBe(world.job.generation);
    }),
    { numRuns: 3_000 },
  );
});

const neutral = fc.constantFrom<Partial<JobSpec>>(
  { name: "a" },
  { concurrencyPolicy: "Forbid" },
  { concurrencyPolicy: "Allow" },
  { startingDeadlineSeconds: 90 },
);
const neutralStep = step.filter((each) => each.do !== "edit");

test("cron: unless the schedule changes, every fire time has exactly one run or one reason, but while it is halted", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          { weight: 8, arbitrary: neutralStep },
          { weight: 1, arbitrary: neutral.map((change) => ({ do: "edit" as const, change })) },
        ),
        { maxLength: 60 },
      ),
      (steps) => {
        const world = new World(aJob({ spec: cron("* * * * *") }));
        const leaders = [new Leader(world, 15_000), new Leader(world, 15_000)] as const;
        leaders[0].reconcile();
        play(world, leaders, steps);
        const decided = [
          ...world.runs.map((run) => run.scheduledAt),
          ...world.missed.map((missed) => missed.at),
        ];
        expect(unique(decided)).toBe(true);
        for (let t = at("12:01"); t <= world.now; t += MINUTE) {
          const halted = world.halts.some(({ from, to }) => from < t && t <= to);
          expect(halted || decided.includes(t), `${isoUtc(t)} was lost`).toBe(true);
        }
      },
    ),
    { numRuns: 3_000 },
  );
});

test("one-time: exactly one run or one reason, however it is edited and paused", () => {
  fc.assert(
    fc.property(
      fc.array(
        step.filter((each) => each.do !== "edit" || !("schedule" in each.change)),
        { maxLength: 50 },
      ),
      (steps) => {
        const time = at("12:03");
        const world = new World(aJob({ spec: { schedule: { kind: "once", at: time } } }));
        const leaders = [new Leader(world, 15_000), new Leader(world, 15_000)] as const;
        leaders[0].reconcile();
        play(world, leaders, [
          ...steps,
          { do: "edit", change: { suspend: false, startingDeadlineSeconds: null } },
          { do: "pass", ms: 10 * MINUTE },
        ]);
        expect(world.runs.length + world.missed.length).toBe(1);
        expect(early(world)).toEqual([]);
      },
    ),
    { numRuns: 3_000 },
  );
});
