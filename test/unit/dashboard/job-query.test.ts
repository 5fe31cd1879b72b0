import { QueryClient } from "@tanstack/react-query";
import { expect, test } from "vitest";
import type { JobView } from "../../../src/dashboard/src/api-types.ts";
import { parseExactly } from "../../../src/dashboard/src/exact-json.ts";
import { jobQuery } from "../../../src/dashboard/src/pages/job-query.ts";

test("a job that is loaded again is as it is now, and the same object if nothing has changed", () => {
  const client = new QueryClient();
  const query = client.getQueryCache().build<JobView>(client, jobQuery("job"));
  const load = (payload: string) =>
    query.setData(parseExactly(`{"job":{"webhook_payload":${payload}}}`) as JobView);
  const first = load('{"note":1,"__proto__":{"id":9007199254740993}}');
  expect(load('{"note":1,"__proto__":{"id":9007199254740993}}')).toBe(first);
  const changed = '{"note":2,"__proto__":{"id":9007199254740995}}';
  expect(JSON.stringify(load(changed).job.webhook_payload)).toBe(changed);
});
