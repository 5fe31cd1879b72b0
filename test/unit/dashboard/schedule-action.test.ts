import { expect, test } from "vitest";
import { scheduleActionOf } from "../../../src/dashboard/src/pages/schedule-action.ts";

type View = Parameters<typeof scheduleActionOf>[0];

const cases: {
  name: string;
  status: View["job"]["status"];
  suspended?: boolean;
  alone: "pause" | "resume" | undefined;
  managed: "pause" | "resume" | undefined;
}[] = [
  { name: "active", status: "active", alone: "pause", managed: undefined },
  { name: "suspended", status: "paused", suspended: true, alone: "resume", managed: undefined },
  { name: "halted by a 410", status: "paused", alone: "resume", managed: "resume" },
  { name: "done", status: "completed", alone: undefined, managed: undefined },
];

test.each(cases)("a job that is $name", ({ status, suspended = false, alone, managed }) => {
  const job = { status };
  const owner = { tool: "Argo CD", name: "shop" };
  expect(scheduleActionOf({ job, suspended, managed_by: null })).toBe(alone);
  expect(scheduleActionOf({ job, suspended, managed_by: owner })).toBe(managed);
});
