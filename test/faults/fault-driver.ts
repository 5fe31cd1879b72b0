import { setTimeout as delay } from "node:timers/promises";
import type { TcpProxy } from "../network/tcp-proxy.ts";
import {
  faultLabel,
  PROCESSES,
  type Fault,
  type FaultPlan,
  type ProcessName,
  type Who,
  type WireName,
  type Wires,
} from "./fault-plan.ts";
import type { RoundTime } from "./job-driver.ts";
import type { Receiver } from "./receiver.ts";
import type { SystemUnderTest } from "./system-under-test.ts";

/** Milliseconds by which a slow wire delays each chunk. */
const SLOW_MS = 150;

export interface FaultCounts {
  /** By `faultLabel`. */
  committed: Record<string, number>;
  skipped: number;
}

/** Commits the planned faults, and undoes each. Resolves when nothing is damaged any more. */
export async function driveFaults(options: {
  faults: readonly FaultPlan[];
  /** Begins when all the others are over, at the earliest at `at`. */
  last: { fault: Fault; at: number };
  system: SystemUnderTest;
  receivers: readonly Receiver[];
  time: RoundTime;
  /** Called when a fault begins. */
  say: (line: string) => void;
}): Promise<FaultCounts> {
  const { system, receivers, time, say } = options;
  const { members, database } = system;
  /** Faults of the same thing take turns: a process that is stopped, for instance, cannot end in order. */
  const turns = new Map<string, { queued: number; last: Promise<void> }>();
  const committed: Record<string, number> = {};
  let skipped = 0;

  async function inTurn(key: string, work: () => Promise<void>): Promise<void> {
    const turn = turns.get(key) ?? { queued: 0, last: Promise.resolve() };
    turns.set(key, turn);
    turn.queued += 1;
    turn.last = turn.last.then(work).finally(() => {
      turn.queued -= 1;
    });
    return turn.last;
  }

  const busy = (key: string): boolean => (turns.get(key)?.queued ?? 0) > 0;

  /**
   * The processes to which a fault is done. `keysOf` tells what is damaged of a process. If something is being done to
   * that already, `all` leaves the process out, and in place of the leader or the follower the other one is taken.
   */
  async function processesFor(
    who: Who | "all",
    keysOf: (name: ProcessName) => readonly string[] = (name) => [name],
  ): Promise<readonly ProcessName[]> {
    const free = (name: ProcessName): boolean => !keysOf(name).some(busy);
    if (who === "all") return PROCESSES.filter(free);
    if (who !== "leader" && who !== "follower") return [who];
    const leads = (await system.leader()) ?? "controller-a";
    const follows: ProcessName = leads === "controller-a" ? "controller-b" : "controller-a";
    const wanted = who === "leader" ? leads : follows;
    const other = who === "leader" ? follows : leads;
    return [free(wanted) || !free(other) ? wanted : other];
  }

  /** Calls `tell` with the processes to which it is done, and without any if it is not a fault of a process. */
  async function commit(fault: Fault, tell: (who?: readonly string[]) => void): Promise<void> {
    switch (fault.kind) {
      case "kill":
        return doTo(fault.process, tell, async (name) => {
          members[name].signal("SIGKILL");
          await members[name].ended();
          await delay(fault.seconds * 1_000);
          members[name].start();
        });
      case "terminate":
        return doTo(fault.process, tell, async (name) => {
          await members[name].terminate();
          members[name].start();
        });
      case "stall":
        return doTo(fault.process, tell, async (name) => {
          members[name].signal("SIGSTOP");
          await delay(fault.seconds * 1_000);
          members[name].signal("SIGCONT");
        });
      case "cut": {
        const names = await processesFor(fault.process, () => []);
        tell(names);
        for (const name of names) for (const wire of wiresOf(name, fault.wires)) wire.proxy.cut();
        return undefined;
      }
      case "hang":
        return damageWires(fault, tell, (wire) => {
          wire.hang();
        });
      case "slow":
        return damageWires(fault, tell, (wire) => {
          wire.slow({ everyMs: SLOW_MS });
        });
      case "database-restart":
        tell();
        return inTurn("database", async () => {
          await database.stop(fault.how);
          await delay(fault.seconds * 1_000);
          await database.start();
        });
      case "read-only":
        tell();
        return inTurn("database", async () => {
          await database.readOnly(true);
          await delay(fault.seconds * 1_000);
          await database.readOnly(false);
        });
      case "api-server":
        tell();
        return inTurn("api-server", async () => {
          if (system.cluster === undefined) throw new Error("there is no API server to damage");
          await system.cluster[fault.how](fault.seconds);
        });
      case "receiver":
        tell();
        return inTurn(`receiver ${fault.receiver}`, async () => {
          const receiver = receivers[fault.receiver];
          if (receiver === undefined) throw new Error(`no receiver ${fault.receiver}`);
          receiver.mood = fault.mood;
          await delay(fault.seconds * 1_000);
          receiver.mood = "well";
        });
      case "clock-jump":
        tell();
        return inTurn("clock", async () => {
          await system.setClock?.(fault.bySeconds);
          await delay(fault.seconds * 1_000);
          await system.setClock?.(0);
        });
    }
  }

  async function doTo(
    who: Who,
    tell: (who?: readonly string[]) => void,
    work: (name: ProcessName) => Promise<void>,
  ): Promise<void> {
    const names = await processesFor(who);
    tell(names);
    await Promise.all(names.map((name) => inTurn(name, () => work(name))));
  }

  function wiresOf(name: ProcessName, wires: Wires): { key: string; proxy: TcpProxy }[] {
    const to: WireName[] = wires === "both" ? ["database", "api-server"] : [wires];
    return to.flatMap((each) => {
      const proxy = system.wire(name, each);
      return proxy ? [{ key: `wire ${name} ${each}`, proxy }] : [];
    });
  }

  async function damageWires(
    fault: { process: Who | "all"; wires: Wires; seconds: number },
    tell: (who?: readonly string[]) => void,
    how: (wire: TcpProxy) => void,
  ): Promise<void> {
    const keysOf = (name: ProcessName) => wiresOf(name, fault.wires).map(({ key }) => key);
    const names = await processesFor(fault.process, keysOf);
    tell(names);
    await Promise.all(
      names
        .flatMap((name) => wiresOf(name, fault.wires))
        .map(({ key, proxy }) =>
          inTurn(key, async () => {
            how(proxy);
            await delay(fault.seconds * 1_000);
            proxy.heal();
          }),
        ),
    );
  }

  const sayAt = (line: string): void => {
    say(`${time.now().toFixed(1).padStart(6)} s  ${line}`);
  };

  async function begin(fault: Fault): Promise<void> {
    const label = faultLabel(fault);
    if (fault.kind === "clock-jump" && system.setClock === undefined) {
      skipped += 1;
      sayAt(`SKIPPED ${label}: libfaketime is not installed`);
      return;
    }
    const seconds = "seconds" in fault ? ` for ${fault.seconds.toFixed(1)} s` : "";
    await commit(fault, (who) => {
      if (who?.length === 0) {
        sayAt(`SPARED ${label}: the same is done to all of them already`);
        return;
      }
      committed[label] = (committed[label] ?? 0) + 1;
      const names = who?.length === 1 ? ` (${who.join()})` : "";
      sayAt(`${label}${names}${seconds}`);
    });
  }

  await Promise.all(
    options.faults.map(async (fault) => {
      await time.at(fault.at);
      await begin(fault);
    }),
  );
  await time.at(options.last.at);
  await begin(options.last.fault);
  return { committed, skipped };
}
