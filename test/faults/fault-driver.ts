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

/** Milliseconds that each chunk is held up on a slow wire. */
const SLOW_MS = 150;

export interface FaultCounts {
  /** By what they are, without their times. */
  committed: Record<string, number>;
  skipped: number;
}

/** Commits the planned faults, and undoes each. Resolves when everything is whole again. */
export async function driveFaults(options: {
  faults: readonly FaultPlan[];
  /** Follows all the others. */
  last: { fault: Fault; at: number };
  system: SystemUnderTest;
  receivers: readonly Receiver[];
  time: RoundTime;
  /** Told as each fault begins. */
  say: (line: string) => void;
}): Promise<FaultCounts> {
  const { system, receivers, time, say } = options;
  const { members, database } = system;
  /** Faults of one thing follow each other: a process that is stopped cannot end in order. */
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
   * Which process has that part now. One that the same is done to already is spared: then it is the
   * other's turn.
   */
  async function named(
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

  /** `tell` hears which processes it is done to, unless it is none of theirs. */
  async function commit(fault: Fault, tell: (who?: readonly string[]) => void): Promise<void> {
    switch (fault.kind) {
      case "kill":
        return done(fault.process, tell, async (name) => {
          members[name].signal("SIGKILL");
          await members[name].ended();
          await delay(fault.seconds * 1_000);
          members[name].start();
        });
      case "terminate":
        return done(fault.process, tell, async (name) => {
          await members[name].terminate();
          members[name].start();
        });
      case "stall":
        return done(fault.process, tell, async (name) => {
          members[name].signal("SIGSTOP");
          await delay(fault.seconds * 1_000);
          members[name].signal("SIGCONT");
        });
      case "cut": {
        const names = await named(fault.process, () => []);
        tell(names);
        for (const name of names) for (const wire of wiresOf(name, fault.wires)) wire.proxy.cut();
        return undefined;
      }
      case "hang":
        return damage(fault, tell, (wire) => {
          wire.hang();
        });
      case "slow":
        return damage(fault, tell, (wire) => {
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

  async function done(
    who: Who,
    tell: (who?: readonly string[]) => void,
    work: (name: ProcessName) => Promise<void>,
  ): Promise<void> {
    const names = await named(who);
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

  async function damage(
    fault: { process: Who | "all"; wires: Wires; seconds: number },
    tell: (who?: readonly string[]) => void,
    how: (wire: TcpProxy) => void,
  ): Promise<void> {
    const keysOf = (name: ProcessName) => wiresOf(name, fault.wires).map(({ key }) => key);
    const names = await named(fault.process, keysOf);
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

  const tellTime = (line: string): void => {
    say(`${time.now().toFixed(1).padStart(6)} s  ${line}`);
  };

  async function begin(fault: Fault): Promise<void> {
    const label = faultLabel(fault);
    if (fault.kind === "clock-jump" && system.setClock === undefined) {
      skipped += 1;
      tellTime(`SKIPPED ${label}: libfaketime is not installed`);
      return;
    }
    const seconds = "seconds" in fault ? ` for ${fault.seconds.toFixed(1)} s` : "";
    await commit(fault, (who) => {
      if (who?.length === 0) {
        tellTime(`SPARED ${label}: the same is done to all of them already`);
        return;
      }
      committed[label] = (committed[label] ?? 0) + 1;
      const names = who?.length === 1 ? ` (${who.join()})` : "";
      tellTime(`${label}${names}${seconds}`);
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
