import { QueryClient } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { parseExactly } from "../../../src/dashboard/src/exact-json.ts";

test("a number stays exact when what is loaded again shares the rest with what was there", () => {
  const client = new QueryClient();
  const load = (text: string) => client.setQueryData(["job"], parseExactly(text));
  load('{"id":9007199254740993,"kept":[9007199254740995]}');
  load('{"id":9007199254740997,"kept":[9007199254740995]}');
  expect(JSON.stringify(client.getQueryData(["job"]))).toBe(
    '{"id":9007199254740997,"kept":[9007199254740995]}',
  );
});
