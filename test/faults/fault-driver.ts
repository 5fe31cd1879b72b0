import { setTimeout as delay } from "node:timers/promises";
import type { RoundTime } from "./job-driver.ts";
import type { FaultPlan, ProcessName } from "./plan.ts";
import { PROCESSES } from "./plan.ts";
import type { Receiver } from "./receiver.ts";
import type { SystemUnderTest } from "./system-under-test.ts";

/** Milliseconds that each chunk is held up on a slow wire. */
const SLOW_MS = 150;

/** Commits the planned faults, and undoes each. Resolves when everything is whole again. */
export async function driveFaults(options: {
  faults: readonly FaultPlan[];
  system: SystemUnderTest;
  receivers: readonly Receiver[];
  time: RoundTime;
  /** Told as each fault begins. */
  say: (line: string) => void;
}): Promise<{ committed: number; skipped: number }> {
  const { faults, system, receivers, time, say } = options;
  const { members, wires, database } = system;
  /** Faults of one thing follow each other: a process that is stopped cannot end in order. */
  const turns = new Map<string, Promise<void>>();
  let skipped = 0;

  function inTurn(key: string, work: () => Promise<void>): Promise<void> {
    const turn = (turns.get(key) ?? Promise.resolve()).then(work);
    turns.set(key, turn);
    return turn;
  }

  async function commit(fault: FaultPlan): Promise<void> {
    switch (fault.kind) {
      case "kill":
        return inTurn(fault.process, async () => {
          members[fault.process].signal("SIGKILL");
          await members[fault.process].ended();
          await delay(fault.seconds * 1_000);
          members[fault.process].start();
        });
      case "terminate":
        return inTurn(fault.process, async () => {
          members[fault.process].signal("SIGTERM");
          await members[fault.process].ended();
          members[fault.process].start();
        });
      case "stall":
        return inTurn(fault.process, async () => {
          members[fault.process].signal("SIGSTOP");
          await delay(fault.seconds * 1_000);
          members[fault.process].signal("SIGCONT");
        });
      case "cut":
        for (const name of named(fault.process)) wires[name].cut();
        return undefined;
      case "hang":
        return damage(fault.process, fault.seconds, (name) => wires[name].hang());
      case "slow":
        return damage(fault.process, fault.seconds, (name) =>
          wires[name].slow({ everyMs: SLOW_MS }),
        );
      case "database-restart":
        return inTurn("database", async () => {
          await database.stop(fault.how);
          await delay(fault.seconds * 1_000);
          await database.start();
        });
      case "read-only":
        return inTurn("database", async () => {
          await database.readOnly(true);
          await delay(fault.seconds * 1_000);
          await database.readOnly(false);
        });
      case "receiver":
        return inTurn(`receiver ${fault.receiver}`, async () => {
          const receiver = receivers[fault.receiver];
          if (receiver === undefined) throw new Error(`no receiver ${fault.receiver}`);
          receiver.mood = fault.mood;
          await delay(fault.seconds * 1_000);
          receiver.mood = "well";
        });
      case "clock-jump":
        return inTurn("clock", async () => {
          if (system.setClock === undefined) {
            skipped += 1;
            return;
          }
          await system.setClock(fault.bySeconds);
          await delay(fault.seconds * 1_000);
          await system.setClock(0);
        });
    }
  }

  async function damage(
    who: ProcessName | "all",
    seconds: number,
    how: (name: ProcessName) => void,
  ): Promise<void> {
    await Promise.all(
      named(who).map((name) =>
        inTurn(`wire ${name}`, async () => {
          how(name);
          await delay(seconds * 1_000);
          wires[name].heal();
        }),
      ),
    );
  }

  await Promise.all(
    faults.map(async (fault) => {
      await time.at(fault.at);
      say(`${fault.at.toFixed(1).padStart(6)} s  ${described(fault)}`);
      await commit(fault);
    }),
  );
  return { committed: faults.length - skipped, skipped };
}

function named(process: ProcessName | "all"): readonly ProcessName[] {
  return process === "all" ? PROCESSES : [process];
}

function described({ at: _at, ...fault }: FaultPlan): string {
  return Object.entries(fault)
    .map(([name, value]) =>
      name === "kind" ? value : `${name}=${typeof value === "number" ? value.toFixed(1) : value}`,
    )
    .join(" ");
}
