import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import { expect, test } from "vitest";
import { holdProcessLock } from "../../../src/standalone/process-lock.ts";

test("keeps a second one out, says who has it, and is free when it is released", async () => {
  const name = `carillon-test-${randomUUID()}`;
  const first = await holdProcessLock(name);
  if (first.kind !== "held") throw new Error("somebody has it");
  expect(await holdProcessLock(name)).toEqual({ kind: "taken", pid: process.pid });
  const other = await holdProcessLock(`${name}-other`);
  expect(other.kind).toBe("held");
  if (other.kind === "held") await other.release();
  await first.release();
  const second = await holdProcessLock(name);
  expect(second.kind).toBe("held");
  if (second.kind === "held") await second.release();
});

test.runIf(process.platform === "linux")("a holder that does not answer holds it", async () => {
  const name = `carillon-test-${randomUUID()}`;
  const stopped = createServer({ pauseOnConnect: true });
  stopped.listen(`\0${name}`);
  await once(stopped, "listening");
  expect(await holdProcessLock(name)).toEqual({ kind: "taken", pid: undefined });
  stopped.close();
});
