import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { untilTerminated } from "../../../cmd/termination.ts";
import { aborted } from "../../../src/waiting/until-aborted.ts";

const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
const before = new Map(SIGNALS.map((name) => [name, process.listeners(name)]));

/** Calls only the listeners of the code under test: the test runner has its own. */
function send(name: (typeof SIGNALS)[number]): void {
  for (const listener of process.listeners(name))
    if (!before.get(name)?.includes(listener)) listener(name);
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  for (const name of SIGNALS)
    for (const listener of process.listeners(name))
      if (!before.get(name)?.includes(listener)) process.off(name, listener);
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test.each(SIGNALS)("%s ends the process, and within 30 s whatever hangs", async (name) => {
  const exit = vi.spyOn(process, "exit").mockReturnValue(undefined as never);
  const said = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const terminated = untilTerminated();
  const waiting = aborted(terminated);
  send(name);
  await waiting;
  await aborted(terminated);
  vi.advanceTimersByTime(20_000);
  // The same signal again, as npm forwards it: the time does not begin again.
  send(name);
  expect(exit).not.toHaveBeenCalled();
  vi.advanceTimersByTime(9_999);
  expect(exit.mock.calls).toEqual([[1]]);
  expect(said.mock.calls).toEqual([["carillon: not everything ended in time\n"]]);
});
