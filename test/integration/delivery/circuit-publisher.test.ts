import { randomBytes } from "node:crypto";
import { Writable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { timers } from "../../../cmd/system.ts";
import { createCircuitBreakers } from "../../../src/delivery/circuit-breakers.ts";
import { createCircuitPublisher } from "../../../src/delivery/circuit-publisher.ts";
import { destinationKey } from "../../../src/domain/destination.ts";
import type { Circuits } from "../../../src/domain/ports/circuits.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { createCircuits } from "../../../src/postgres/circuits.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";
import { webhookJob } from "./worker-fixture.ts";

let database: TestDatabase;
let pool: Pool;
beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool();
  return () => database.drop();
});

function publishing(circuits: Pick<Circuits, "publish" | "confirm">, worker: string) {
  const lines: { state?: unknown }[] = [];
  const output = new Writable({
    write: (line: Buffer, _encoding, done) => {
      lines.push(JSON.parse(line.toString("utf8")) as { state?: unknown });
      done();
    },
  });
  const publisher = createCircuitPublisher({
    circuits,
    worker,
    timers,
    log: createLogger({ level: "info", output }),
  });
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  const breakers = createCircuitBreakers({
    clock: { now: Date.now, known: true },
    monotonic: () => performance.now(),
    timers,
    metrics,
    resetMs: 200,
    onTransition: (transition) => {
      publisher.transition(transition);
    },
  });
  return { lines, metrics, breakers, publisher };
}

const silent = (): void => undefined;

test("a circuit that opens, is tried and closes is seen by metric, log line and table", async () => {
  const account = crypto.randomUUID();
  const circuits = createCircuits({ pool });
  const { lines, metrics, breakers, publisher } = publishing(circuits, "w1");
  const states = async () =>
    (await circuits.list(account)).map(({ destination, state, worker }) => ({
      destination,
      state,
      worker,
    }));
  const key = destinationKey(account, webhookJob("https://down.example/a?b").spec.target);
  for (let call = 0; call < 5; call += 1) {
    const admission = breakers.admit(key);
    if (admission.kind === "admitted") admission.permit.settle("failure");
  }
  const published = { destination: "https://down.example", worker: "w1" };
  await expect.poll(() => lines.map(({ state }) => state)).toContain("open");
  expect((await metrics.render()).text).toMatch(
    /carillon_circuits\{state="(?:open|half_open)"\} 1/,
  );
  await expect.poll(states).toEqual([{ ...published, state: "half_open" }]);
  expect(await circuits.listAll()).toContainEqual(
    expect.objectContaining({ account, ...published }),
  );
  const probe = breakers.admit(key);
  if (probe.kind === "open") throw new Error("half-open admits one");
  probe.permit.settle("success");
  await expect.poll(states).toEqual([]);
  // The tries every half minute are not logged.
  expect(lines.map(({ state }) => state)).toEqual(["open", "closed"]);
  expect((await metrics.render()).text).toMatch(
    /carillon_circuit_transitions_total\{state="closed"\} 1/,
  );
  publisher.close();
  breakers.close();
});

test("while the database is away the latest state is kept, and published afterwards", async () => {
  const account = crypto.randomUUID();
  const circuits = createCircuits({ pool });
  let away = true;
  let tries = 0;
  const { publisher, breakers } = publishing(
    {
      publish: async (circuit) => {
        tries += 1;
        if (away) throw new DependencyUnavailable("postgres");
        await circuits.publish(circuit);
      },
      confirm: (worker) => circuits.confirm(worker),
    },
    "w2",
  );
  const destination = `${account} https://down.example`;
  publisher.transition({ destination, from: "open", state: "half_open" });
  await expect.poll(() => tries).toBe(1);
  publisher.transition({ destination, from: "half_open", state: "open" });
  // There is not one try for each transition when many circuits change.
  expect(tries).toBe(1);
  away = false;
  await expect
    .poll(async () => (await circuits.list(account)).map(({ state }) => state))
    .toEqual(["open"]);
  await circuits.forget("w2");
  expect(await circuits.list(account)).toEqual([]);
  publisher.close();
  breakers.close();
});

test("a state that the database does not take holds up nobody's, and is not tried again", async () => {
  const account = crypto.randomUUID();
  const circuits = createCircuits({ pool });
  const lines: unknown[] = [];
  const note = (...line: unknown[]) => lines.push(line.at(-1));
  const later: number[] = [];
  const publisher = createCircuitPublisher({
    circuits,
    worker: "w3",
    timers: {
      ...timers,
      after: (ms) => {
        later.push(ms);
        return { cancel: silent };
      },
    },
    log: { debug: note, info: note, warn: note },
  });
  // Random, so that compression cannot make it fit into an index entry.
  const tooLong = `https://${randomBytes(4_000).toString("hex")}.example`;
  for (const destination of [tooLong, "https://down.example"])
    publisher.transition({
      destination: `${account} ${destination}`,
      from: "closed",
      state: "open",
    });
  await expect
    .poll(async () => (await circuits.list(account)).map(({ destination }) => destination))
    .toEqual(["https://down.example"]);
  expect(lines.filter((line) => line === "circuit state not published")).toHaveLength(1);
  // Nothing is left to be published: the only timer is that of confirming what is there.
  await expect.poll(() => later).toEqual([60_000]);
  publisher.close();
});

test("what a process that is gone had published is not believed for long, of others it is confirmed", async () => {
  const account = crypto.randomUUID();
  const circuits = createCircuits({ pool });
  let away = false;
  let confirmed = 0;
  const due: { ms: number; ring: () => void }[] = [];
  const publisherOf = (worker: string) =>
    createCircuitPublisher({
      circuits: {
        ...circuits,
        confirm: async (of) => {
          if (away) throw new DependencyUnavailable("postgres");
          await circuits.confirm(of);
          confirmed += 1;
        },
      },
      worker,
      timers: {
        ...timers,
        after: (ms, ring) => {
          due.push({ ms, ring });
          return { cancel: silent };
        },
      },
      log: { debug: silent, info: silent, warn: silent },
    });
  const workers = async () => (await circuits.list(account)).map(({ worker }) => worker);
  /** Lets the next timer fire. */
  const pass = async (): Promise<number> => {
    await expect.poll(() => due.length).toBe(1);
    const [{ ms, ring } = expect.unreachable()] = due.splice(0);
    ring();
    return ms;
  };
  const open = (destination: string) =>
    ({ destination: `${account} ${destination}`, from: "closed", state: "open" }) as const;
  const living = publisherOf("living");
  living.transition(open("https://down.example"));
  await expect.poll(() => due.length).toBe(1);
  // A worker that died without withdrawing its circuit.
  await circuits.publish({
    account,
    destination: "https://down.example",
    worker: "gone",
    state: "open",
  });
  expect(await workers()).toEqual(["gone", "living"]);

  await pool.query(
    "update circuits set updated_at = now() - interval '5 minutes' where account = $1",
    [account],
  );
  expect(await workers()).toEqual([]);
  away = true;
  expect(await pass()).toBe(60_000);
  await expect.poll(() => due.length).toBe(1);
  away = false;
  // It comes soon after PostgreSQL is back.
  expect(await pass()).toBeLessThan(5_000);
  await expect.poll(workers).toEqual(["living"]);
  await expect.poll(() => due.map(({ ms }) => ms)).toEqual([60_000]);

  living.transition({ ...open("https://down.example"), from: "open", state: "closed" });
  await expect.poll(workers).toEqual([]);
  await pass();
  await expect.poll(() => confirmed).toBe(2);
  await turn();
  // No published circuit is left that would have to be confirmed.
  expect(due).toEqual([]);
  living.close();
});
