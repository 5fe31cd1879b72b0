import type { Random } from "../../src/domain/ports/clock.ts";
import { RECEIVERS } from "./job-plan.ts";
import type { Topology } from "./plan.ts";
import { between, pick, shuffled } from "./seeded-random.ts";

export const CONTROLLERS = ["controller-a", "controller-b"] as const;
export const PROCESSES = ["gateway", ...CONTROLLERS] as const;
export type ControllerName = (typeof CONTROLLERS)[number];
export type ProcessName = (typeof PROCESSES)[number];

/** A process, or the one that has this part when the fault is committed. */
export type Who = ProcessName | "leader" | "follower";
/** What a process is connected to; with jobs in PostgreSQL only the database. */
export type WireName = "database" | "api-server";
export type Wires = WireName | "both";
export type ReceiverMood = "well" | "fails" | "busy" | "hangs" | "resets" | "slow";

export type Fault =
  /** kill -9, and a new process after `seconds`. */
  | { kind: "kill"; process: Who; seconds: number }
  /** SIGTERM, and a new process once it has ended. */
  | { kind: "terminate"; process: Who }
  /** SIGSTOP … SIGCONT; it may last longer than the lease of the process's claims and of its leadership. */
  | { kind: "stall"; process: Who; seconds: number }
  | { kind: "cut"; process: Who | "all"; wires: Wires }
  /** Connections are half-open: nothing passes, and neither side is told. */
  | { kind: "hang"; process: Who | "all"; wires: Wires; seconds: number }
  | { kind: "slow"; process: Who | "all"; wires: Wires; seconds: number }
  | { kind: "database-restart"; how: "fast" | "crash"; seconds: number }
  | { kind: "read-only"; seconds: number }
  /** kill -9 of kube-apiserver and a new start after `seconds`, or SIGSTOP … SIGCONT. */
  | { kind: "api-server"; how: "restart" | "stall"; seconds: number }
  | { kind: "receiver"; receiver: number; mood: Exclude<ReceiverMood, "well">; seconds: number }
  /** The wall clock of one process jumps. */
  | { kind: "clock-jump"; bySeconds: number; seconds: number };

export type FaultPlan = { at: number } & Fault;

/** The lease of a claim: a process that is stopped for longer loses its runs. */
const LEASE_SECONDS = 20;
const FIRST_FAULT = 3;
/** The last outage takes less than so many seconds. All other faults end before it. */
const LAST_OUTAGE = 5;

interface Size {
  topology: Topology;
  seconds: number;
}
/** A kind of fault; each call draws its details. */
type Kind = () => Fault;

/**
 * One long fault first, because it must end within the round, then others from a shuffled deck: every kind comes before
 * any comes twice. Faults may overlap. All end before the last outage.
 */
export function drawFaults(random: Random, { topology, seconds }: Size): FaultPlan[] {
  const end = seconds - LAST_OUTAGE;
  const faults: FaultPlan[] = [];
  let deck: Kind[] = [];
  const [long] = shuffled(random, longKinds(random, topology));
  const first = long?.();
  if (first && FIRST_FAULT + duration(first) <= end) faults.push({ at: FIRST_FAULT, ...first });
  for (let at = FIRST_FAULT + 1; at < end - 1; at += between(random, 1.5, 4.5)) {
    if (deck.length === 0) deck = shuffled(random, kinds(random, topology));
    const fault = deal(deck, end - at);
    if (fault) faults.push({ at, ...fault });
  }
  return faults;
}

/** Takes from the deck the first fault that ends in time. */
function deal(deck: Kind[], seconds: number): Fault | undefined {
  for (const [index, kind] of deck.entries()) {
    const fault = kind();
    if (duration(fault) > seconds) continue;
    deck.splice(index, 1);
    return fault;
  }
  return undefined;
}

function duration(fault: Fault): number {
  return "seconds" in fault ? fault.seconds : 0;
}

/** Every round ends with an outage of PostgreSQL, so that every round shows how long recovery takes. */
export function drawLastOutage(random: Random, { topology }: Size): Fault {
  const seconds = between(random, 1, LAST_OUTAGE - 1);
  const outages: [Fault, ...Fault[]] = [
    { kind: "database-restart", how: "fast", seconds },
    { kind: "database-restart", how: "crash", seconds },
    { kind: "read-only", seconds },
    { kind: "hang", process: "all", wires: "database", seconds },
  ];
  if (topology === "kubernetes")
    outages.push({ kind: "hang", process: "all", wires: "both", seconds });
  return pick(random, outages);
}

/** Longer than the leases: others take over what the process claimed or led while it still believes to have it. */
function longKinds(random: Random, topology: Topology): Kind[] {
  const seconds = () => LEASE_SECONDS + between(random, 2, 6);
  if (topology === "standalone") {
    const process = () => pick(random, CONTROLLERS);
    return [
      () => ({ kind: "stall", process: process(), seconds: seconds() }),
      () => ({ kind: "hang", process: process(), wires: "database", seconds: seconds() }),
    ];
  }
  return [
    () => ({ kind: "stall", process: "leader", seconds: seconds() }),
    () => ({ kind: "stall", process: "follower", seconds: seconds() }),
    () => ({ kind: "hang", process: "leader", wires: "both", seconds: seconds() }),
    () => ({ kind: "hang", process: "leader", wires: "database", seconds: seconds() }),
    () => ({ kind: "hang", process: "leader", wires: "api-server", seconds: seconds() }),
    () => ({ kind: "hang", process: "follower", wires: "database", seconds: seconds() }),
    () => ({ kind: "kill", process: "leader", seconds: seconds() }),
  ];
}

function kinds(random: Random, topology: Topology): Kind[] {
  const own = topology === "kubernetes" ? kubernetesKinds(random) : standaloneKinds(random);
  return [...own, ...commonKinds(random)];
}

function standaloneKinds(random: Random): Kind[] {
  const someone = () => pick(random, PROCESSES);
  const controller = () => pick(random, CONTROLLERS);
  const anyone = () => pick(random, [...PROCESSES, "all"] as const);
  const wires = "database";
  const seconds = (least: number, most: number) => between(random, least, most);
  return [
    () => ({ kind: "kill", process: controller(), seconds: seconds(0, 3) }),
    () => ({ kind: "kill", process: controller(), seconds: seconds(0, 10) }),
    () => ({ kind: "terminate", process: someone() }),
    () => ({ kind: "stall", process: someone(), seconds: seconds(1, 6) }),
    () => ({ kind: "cut", process: anyone(), wires }),
    () => ({ kind: "hang", process: anyone(), wires, seconds: seconds(3, 15) }),
    () => ({ kind: "slow", process: anyone(), wires, seconds: seconds(3, 8) }),
  ];
}

function kubernetesKinds(random: Random): Kind[] {
  const seconds = (least: number, most: number) => between(random, least, most);
  const wires = () => pick(random, ["database", "api-server", "both"] as const);
  const anyone = () => pick(random, ["gateway", "leader", "follower", "all"] as const);
  return [
    () => ({ kind: "kill", process: "leader", seconds: seconds(0, 3) }),
    () => ({ kind: "kill", process: "leader", seconds: seconds(0, 10) }),
    () => ({ kind: "kill", process: "follower", seconds: seconds(0, 10) }),
    () => ({ kind: "terminate", process: pick(random, ["leader", "follower", "gateway"]) }),
    () => ({ kind: "stall", process: "leader", seconds: seconds(1, 6) }),
    () => ({
      kind: "stall",
      process: pick(random, ["follower", "gateway"]),
      seconds: seconds(1, 6),
    }),
    () => ({ kind: "cut", process: anyone(), wires: wires() }),
    () => ({ kind: "cut", process: "leader", wires: "both" }),
    // The leader gives up 10 s after its last renewal; another one follows 15 s after it.
    () => ({ kind: "hang", process: "leader", wires: "api-server", seconds: seconds(6, 18) }),
    () => ({ kind: "hang", process: "leader", wires: "database", seconds: seconds(3, 15) }),
    () => ({ kind: "hang", process: "follower", wires: wires(), seconds: seconds(3, 15) }),
    () => ({ kind: "hang", process: "gateway", wires: wires(), seconds: seconds(3, 10) }),
    () => ({ kind: "hang", process: "all", wires: wires(), seconds: seconds(3, 12) }),
    () => ({ kind: "slow", process: anyone(), wires: wires(), seconds: seconds(3, 8) }),
    () => ({ kind: "api-server", how: "restart", seconds: seconds(0, 4) }),
    () => ({ kind: "api-server", how: "stall", seconds: seconds(3, 14) }),
  ];
}

function commonKinds(random: Random): Kind[] {
  const receiver = () => Math.floor(random() * RECEIVERS);
  const seconds = (least: number, most: number) => between(random, least, most);
  return [
    () => ({ kind: "kill", process: "gateway", seconds: seconds(0, 2) }),
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
      seconds: seconds(3, 10),
    }),
  ];
}

/** What it is called in the report, without its times. The report counts faults by this. */
export function faultLabel(fault: Fault): string {
  switch (fault.kind) {
    case "kill":
    case "terminate":
    case "stall":
      return `${fault.kind} ${fault.process}`;
    case "cut":
    case "hang":
    case "slow":
      return `${fault.kind} ${fault.process} ${fault.wires}`;
    case "database-restart":
      return fault.how === "fast" ? "database restart" : "database crash";
    case "read-only":
      return "database read-only";
    case "api-server":
      return `API server ${fault.how}`;
    case "receiver":
      return `receiver ${fault.mood}`;
    case "clock-jump":
      break;
  }
  return "clock jump";
}
