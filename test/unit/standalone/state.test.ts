import { expect, test } from "vitest";
import { StartProblem } from "../../../src/configuration/start-problem.ts";
import { readState, writeState, type StandaloneState } from "../../../src/standalone/state.ts";

function directory(content?: string) {
  let text = content;
  return {
    path: "/data",
    read: async () => text,
    write: async (_name: string, written: string) => void (text = written),
  };
}

test.each<StandaloneState>([
  {},
  { firstStart: "begun" },
  { firstStart: "done", mailCatcher: { smtpPort: 2525, httpPort: 0 } },
])("what was written is read: %j", async (state) => {
  const place = directory();
  expect(await readState(place)).toEqual({});
  await writeState(place, state);
  expect(await readState(place)).toEqual(state);
});

test.each([
  "",
  "{",
  "null",
  "[]",
  '"done"',
  '{"firstStart":"later"}',
  '{"mailCatcher":null}',
  '{"mailCatcher":{"smtpPort":2525}}',
  '{"mailCatcher":{"smtpPort":"2525","httpPort":8025}}',
  '{"mailCatcher":{"smtpPort":65536,"httpPort":8025}}',
])("what no start can have written is named as damaged: %s", async (text) => {
  await expect(readState(directory(text))).rejects.toThrow(StartProblem);
  await expect(readState(directory(text))).rejects.toThrow("/data/state.json is damaged");
});
