/** What one round does, drawn from its seed alone: the same seed gives the same jobs and faults. */
import type { Random } from "../../src/domain/ports/clock.ts";
import { between, pick, seededRandom, shuffled } from "./seeded-random.ts";

export const CONTROLLERS = ["controller-a", "controller-b"] as const;
export const PROCESSES = ["gateway", ...CONTROLLERS] as const;
export type ControllerName = (typeof CONTROLLERS)[number];
export type ProcessName = (typeof PROCESSES)[number];

export const RECEIVERS = 4;
export type ReceiverMood = "well" | "fails" | "busy" | "hangs" | "resets" | "slow";

/** All times are seconds from the start of the round. */
export interface JobPlan {
  name: string;
  createAt: number;
  schedule: { kind: "once"; runAt: number } | { kind: "cron"; everyMinutes: number };
  maxRetries: 0 | 3;
  receiver: number;
  deliveryDeadlineSeconds: number;
  changes: readonly ChangePlan[];
}

export type ChangePlan = { at: number } & (
  { kind: "move"; runAt: number } | { kind: "pause" | "resume" | "delete" }
);

export type Fault =
  /** kill -9, and a new process after `seconds`. */
  | { kind: "kill"; process: ProcessName; seconds: number }
  /** SIGTERM, and a new process once it has ended. */
  | { kind: "terminate"; process: ProcessName }
  /** SIGSTOP … SIGCONT: also beyond the lease of its claims. */
  | { kind: "stall"; process: ProcessName; seconds: number }
  | { kind: "cut"; process: ProcessName | "all" }
  /** Half-open: nothing passes and nobody is told. */
  | { kind: "hang"; process: ProcessName | "all"; seconds: number }
  | { kind: "slow"; process: ProcessName | "all"; seconds: number }
  | { kind: "database-restart"; how: "fast" | "crash"; seconds: number }
  | { kind: "read-only"; seconds: number }
  | { kind: "receiver"; receiver: number; mood: Exclude<ReceiverMood, "well">; seconds: number }
  /** The wall clock of one process jumps. */
  | { kind: "clock-jump"; bySeconds: number; seconds: number };

export type FaultPlan = { at: number } & Fault;

export interface Plan {
  seed: number;
  /** Faults and fire times lie within. */
  seconds: number;
  jobs: readonly JobPlan[];
  faults: readonly FaultPlan[];
}

/** The lease of a claim: a process that stands still for longer has lost its runs. */
const LEASE_SECONDS = 20;
const FIRST_FAULT = 3;

export function createPlan(options: { seed: number; seconds: number; jobs: number }): Plan {
  const random = seededRandom(options.seed);
  return { ...options, jobs: drawJobs(random, options), faults: drawFaults(random, options) };
}

function drawJobs(random: Random, { seconds, jobs }: { seconds: number; jobs: number }): JobPlan[] {
  return Array.from({ length: jobs }, (_, index) => {
    const createAt = between(random, 0, seconds * 0.75);
    const name = `job ${index}`;
    const maxRetries = random() < 0.5 ? (0 as const) : (3 as const);
    const receiver = Math.floor(random() * RECEIVERS);
    const deliveryDeadlineSeconds = random() < 0.2 ? 20 : 3_600;
    const common = { name, maxRetries, receiver, deliveryDeadlineSeconds };
    if (index % 25 === 0) {
      const schedule = { kind: "cron", everyMinutes: 1 } as const;
      return { ...common, createAt: between(random, 0, 5), schedule, changes: [] };
    }
    // Whole seconds: many are due at the same time.
    const runAt = Math.round(Math.min(seconds, createAt + between(random, 3, 30)));
    const changes = random() < 0.25 ? drawChanges(random, { createAt, runAt, seconds }) : [];
    return { ...common, createAt, schedule: { kind: "once", runAt }, changes };
  });
}

const CHANGES = ["delete", "move", "pause", "toggle"] as const;

/** Around the fire time, where they cross what the scheduler and the workers are doing. */
function drawChanges(
  random: Random,
  { createAt, runAt, seconds }: { createAt: number; runAt: number; seconds: number },
): ChangePlan[] {
  const at = Math.max(createAt + 0.5, runAt + between(random, -12, 2));
  const later = Math.min(seconds, at + between(random, 1, 8));
  switch (pick(random, CHANGES)) {
    case "delete":
      return [{ kind: "delete", at }];
    case "move":
      return [{ kind: "move", at, runAt: Math.round(Math.min(seconds + 5, at + 10)) }];
    case "pause":
      return [{ kind: "pause", at }];
    case "toggle":
      break;
  }
  return [
    { kind: "pause", at },
    { kind: "resume", at: later },
  ];
}

/** A shuffled deck: every kind is dealt before any comes twice. Faults may overlap. */
function drawFaults(random: Random, { seconds }: { seconds: number }): FaultPlan[] {
  const faults: FaultPlan[] = [];
  let deck: (() => Fault)[] = [];
  for (let at = FIRST_FAULT; at < seconds - 5; at += between(random, 2, 7)) {
    if (deck.length === 0) deck = shuffled(random, kinds(random));
    const fault = deck.pop()?.();
    if (fault) faults.push({ at, ...fault });
  }
  return faults;
}

const WIRES = [...PROCESSES, "all"] as const;

function kinds(random: Random): (() => Fault)[] {
  const someone = () => pick(random, PROCESSES);
  const controller = () => pick(random, CONTROLLERS);
  const wire = () => pick(random, WIRES);
  const receiver = () => Math.floor(random() * RECEIVERS);
  const seconds = (least: number, most: number) => between(random, least, most);
  return [
    () => ({ kind: "kill", process: controller(), seconds: seconds(0, 3) }),
    () => ({ kind: "kill", process: controller(), seconds: seconds(0, 10) }),
    () => ({ kind: "kill", process: "gateway", seconds: seconds(0, 2) }),
    () => ({ kind: "terminate", process: someone() }),
    () => ({ kind: "stall", process: controller(), seconds: LEASE_SECONDS + seconds(2, 8) }),
    () => ({ kind: "stall", process: someone(), seconds: seconds(1, 6) }),
    () => ({ kind: "cut", process: wire() }),
    () => ({ kind: "hang", process: wire(), seconds: seconds(3, 15) }),
    () => ({ kind: "hang", process: controller(), seconds: LEASE_SECONDS + seconds(2, 8) }),
    () => ({ kind: "slow", process: wire(), seconds: seconds(3, 8) }),
    () => ({ kind: "database-restart", how: "fast", seconds: seconds(0, 4) }),
    () => ({ kind: "database-restart", how: "crash", seconds: seconds(0, 4) }),
    () => ({ kind: "read-only", seconds: seconds(2, 8) }),
    () => ({ kind: "receiver", receiver: receiver(), mood: "fails", seconds: seconds(3, 10) }),
    () => ({ kind: "receiver", receiver: receiver(), mood: "busy", seconds: seconds(3, 10) }),
    () => ({ kind: "receiver", receiver: receiver(), mood: "hangs", seconds: seconds(3, 10) }),
    () => ({ kind: "receiver", receiver: receiver(), mood: "resets", seconds: seconds(3, 10) }),
    () => ({ kind: "receiver", receiver: receiver(), mood: "slow", seconds: seconds(3, 10) }),
    () => ({
      kind: "clock-jump",
      bySeconds: pick(random, [3_600, -3_600, 45, -45]),
      seconds: seconds(5, 15),
    }),
  ];
}
