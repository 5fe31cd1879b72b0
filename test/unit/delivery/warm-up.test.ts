import { expect, test } from "vitest";
import { deliveryLimits } from "../../../src/delivery/delivery-limits.ts";
import { createHeldRuns } from "../../../src/delivery/held-runs.ts";
import { createWarmUp } from "../../../src/delivery/warm-up.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { claimedRun } from "../../integration/delivery/claimed-run.ts";

const DUE = 1_000_000;

function warmUpOf(runs: readonly ClaimedRun[], signingKeys = async () => ["secret"]) {
  const held = createHeldRuns(deliveryLimits());
  held.add(runs);
  const notClosed = new Set<string>();
  const opened: string[] = [];
  const read: string[] = [];
  const warmUp = createWarmUp({
    held,
    breakers: { notClosed },
    webhook: { warmUp: (run, calls) => opened.push(`${calls} to ${run.destination}`) },
    signingKeys: (account) => {
      read.push(account);
      return signingKeys();
    },
  });
  return { held, warmUp, notClosed, opened, read };
}

const due = (host: string, notBefore = DUE): ClaimedRun =>
  claimedRun({}, { account: host, destination: `${host} http://${host}`, notBefore });

test("connections are opened and secrets read half a second before runs are due, once", () => {
  const { warmUp, opened, read } = warmUpOf([due("a"), due("a"), due("b")]);
  expect(warmUp.next()).toBe(DUE - 500);
  warmUp.look(DUE - 501);
  expect(opened).toEqual([]);
  warmUp.look(DUE - 400);
  expect(opened).toEqual(["2 to a http://a", "1 to b http://b"]);
  expect(read).toEqual(["a", "b"]);
  for (const moment of [DUE - 300, DUE, DUE + 1_000]) warmUp.look(moment);
  expect(opened).toHaveLength(2);
  expect(warmUp.next()).toBeNull();
});

test("runs that are due one after another are looked at together", () => {
  const { warmUp, opened } = warmUpOf(Array.from({ length: 200 }, (_, n) => due("a", DUE + n)));
  const looks: number[] = [];
  for (let next = warmUp.next(); next !== null; next = warmUp.next()) {
    looks.push(next);
    warmUp.look(next);
    // In between there is nothing to do.
    warmUp.look(next + 99);
  }
  expect(looks).toEqual([DUE - 500, DUE - 400, DUE - 300]);
  expect(opened).toEqual(["1 to a http://a", "100 to a http://a", "99 to a http://a"]);
});

test("what is due already is not prepared any more", () => {
  const { warmUp, opened } = warmUpOf([due("a"), due("b", DUE + 1)]);
  warmUp.look(DUE);
  expect(opened).toEqual(["1 to b http://b"]);
});

test("a receiver whose circuit is not closed is left alone", () => {
  const { warmUp, notClosed, opened, read } = warmUpOf([due("a"), due("b")]);
  notClosed.add("a http://a");
  warmUp.look(DUE - 500);
  expect([opened, read]).toEqual([["1 to b http://b"], ["b"]]);
});

test("secrets that cannot be read are left to the deliveries", async () => {
  const { warmUp, opened } = warmUpOf([due("a")], () => Promise.reject(new Error("away")));
  warmUp.look(DUE - 500);
  // An unhandled rejection would fail the test.
  await new Promise((resolve) => setImmediate(resolve));
  expect(opened).toHaveLength(1);
});

test("after the clock has stepped back, runs are prepared again", () => {
  const { held, warmUp, opened } = warmUpOf([due("a", DUE + 3_600_000)]);
  warmUp.look(DUE + 3_600_000);
  held.takeAll();
  held.add([due("b")]);
  warmUp.look(DUE - 400);
  expect(opened).toEqual(["1 to b http://b"]);
});

const ofAccount = (account: string, host: string, started = false): ClaimedRun => ({
  ...due(host),
  account,
  destination: `${account} ${host}`,
  started,
});

const many = <T>(length: number, of: () => T): T[] => Array.from({ length }, of);

test("no more connections are opened than there are slots", () => {
  const mail = { kind: "email", to: "a@b.example", subject: "", body: "", isHtml: false } as const;
  const runs = [
    ...many(200, () => ofAccount("a", "one")),
    ...many(200, () => ofAccount("a", "two")),
    ...many(200, () => ofAccount("b", "one")),
    ...many(200, () => ofAccount("c", "one")),
  ];
  runs.unshift({ ...due("mail"), spec: { ...due("mail").spec, target: mail } });
  const { warmUp, opened } = warmUpOf(runs);
  warmUp.look(DUE - 500);
  // Of a destination 160, of an account 256, in all 512; mails have connections of their own.
  expect(opened).toEqual(["160 to a one", "96 to a two", "160 to b one", "96 to c one"]);
});

test("slots that are taken count, and receivers whose circuit is not closed do not", () => {
  const { held, warmUp, notClosed, opened } = warmUpOf([
    ...many(100, () => ofAccount("a", "one", true)),
    ...many(100, () => ofAccount("a", "one")),
    ...many(200, () => ofAccount("a", "down")),
    ...many(200, () => ofAccount("a", "two")),
  ]);
  notClosed.add("a down");
  expect(held.inFlight).toBe(100);
  warmUp.look(DUE - 500);
  expect(opened).toEqual(["60 to a one", "96 to a two"]);
});
