import { expect, test } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import { createServiceNamespaces } from "../../../src/kubernetes/service-namespaces.ts";
import { FakeTime } from "../controller/controller-world.ts";

const bound = async () => "team-a";
const away = () => Promise.reject(new Error("away"));
const refuses = () => Promise.reject(new ApiError(403, undefined, "get"));

/** An API server whose answers the test sets, and a clock that it moves. */
function world() {
  const time = new FakeTime(0);
  let answer: () => Promise<string | undefined> = bound;
  const seen = { asked: 0 };
  const namespaceOf = createServiceNamespaces({
    accountNamespaces: {
      namespaceOf: () => {
        seen.asked += 1;
        return answer();
      },
    },
    monotonic: () => time.now(),
    timers: time,
  });
  return {
    namespaceOf: () => namespaceOf("a"),
    seen,
    pass: (ms: number) => time.advanceTo(time.now() + ms),
    answers: (next: typeof answer) => (answer = next),
  };
}

test("a herd asks once, and again when the answer is old", async () => {
  const { namespaceOf, seen, pass, answers } = world();
  expect(await Promise.all([namespaceOf(), namespaceOf()])).toEqual(["team-a", "team-a"]);
  expect(await namespaceOf()).toBe("team-a");
  expect(seen.asked).toBe(1);
  await pass(30_000);
  answers(async () => "team-b");
  expect(await namespaceOf()).toBe("team-b");
});

test("an account without a namespace has none", async () => {
  const { namespaceOf, answers } = world();
  answers(async () => undefined);
  expect(await namespaceOf()).toBeNull();
});

test("with the API server away, the last answer stands", async () => {
  const { namespaceOf, pass, answers } = world();
  await namespaceOf();
  await pass(3_600_000);
  answers(away);
  expect(await namespaceOf()).toBe("team-a");
});

test("an API server that hangs is not waited for when there is an answer", async () => {
  const { namespaceOf, pass, answers } = world();
  await namespaceOf();
  await pass(60_000);
  answers(() => new Promise(() => undefined));
  const asked = namespaceOf();
  await pass(3_000);
  expect(await asked).toBe("team-a");
});

test("without any answer it is an error, not a refusal", async () => {
  const { namespaceOf, answers } = world();
  answers(away);
  await expect(namespaceOf()).rejects.toThrow("away");
  answers(async () => "team-a");
  expect(await namespaceOf()).toBe("team-a");
});

test("an API server that refuses us, as one that has just started does, says nothing: the run waits", async () => {
  const { namespaceOf, pass, answers } = world();
  answers(refuses);
  await expect(namespaceOf()).rejects.toThrow(DependencyUnavailable);
  answers(bound);
  await namespaceOf();
  await pass(60_000);
  answers(refuses);
  expect(await namespaceOf()).toBe("team-a");
});
