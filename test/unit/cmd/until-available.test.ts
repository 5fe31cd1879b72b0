import { expect, test } from "vitest";
import { untilAvailable } from "../../../cmd/until-available.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { FakeTime } from "../controller/controller-world.ts";

function tried(dependency: "postgres" | "kubernetes", answersAt: number, error?: Error) {
  const time = new FakeTime(0);
  const said: string[] = [];
  const outcome = untilAvailable(
    async () => {
      if (error) throw error;
      if (time.now() < answersAt) throw new DependencyUnavailable(dependency);
      return time.now();
    },
    { waitMs: 25_000, say: (line) => said.push(line), monotonic: () => time.now(), timers: time },
  ).catch((reason: unknown) => reason);
  return { time, said, outcome };
}

test("what answers at last is not given up, and what is waited for is said now and then", async () => {
  const { time, said, outcome } = tried("postgres", 21_500);
  await time.advanceTo(22_000);
  expect(await outcome).toBe(22_000);
  expect(said).toEqual([0, 10, 20].map((at) => `Waiting for PostgreSQL, ${at} of 25 s`));
});

test("what never answers is given up in time", async () => {
  const { time, said, outcome } = tried("kubernetes", Infinity);
  await time.advanceTo(25_000);
  expect(await outcome).toBeInstanceOf(DependencyUnavailable);
  expect(said[0]).toBe("Waiting for the Kubernetes API, 0 of 25 s");
});

test("another failure is not waited for", async () => {
  const error = new Error("no such role");
  const { said, outcome } = tried("postgres", 0, error);
  expect(await outcome).toBe(error);
  expect(said).toEqual([]);
});
