import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findChrome } from "./chrome.ts";
import { heading } from "./locators.ts";
import { settled } from "./owner.ts";
import { openStage, type Stage } from "./stage.ts";

const chrome = findChrome();

/** Has the requests of `path` answered as an earlier release does. */
async function answers(
  page: Page,
  path: string,
  older: (answer: Record<string, unknown>) => object,
): Promise<void> {
  await page.route(path, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ json: older((await response.json()) as Record<string, unknown>) });
  });
}

/** During an upgrade a page of this release has its answers from gateways of the release before, too. */
describe.skipIf(chrome === undefined)("answers of an earlier release", () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await openStage({ name: "older-answers", chrome });
  });
  afterAll(() => stage?.close());

  test("a webhook's page without what came to it later", async () => {
    const id = await stage.createJob({ name: "Seen by both", webhook_headers: { "X-Team": "a" } });
    const { context, page, complaints } = await stage.openPage("jobs");
    await answers(page, `**/dashboard/api/jobs/${id}`, (view) => ({
      ...view,
      // JSON leaves them out.
      secret_headers: undefined,
      manifest_masked: undefined,
      suspended: undefined,
    }));
    await page.goto(`/dashboard/jobs/${id}`);
    await settled(page);
    await heading(page, "Seen by both").waitFor();
    await page.getByText("X-Team: ••••", { exact: true }).waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });

  test("the overview of a job that fails, without when", async () => {
    const { context, page, complaints } = await stage.openPage("jobs");
    const job = { id: "job-1", name: "Nightly report", error_message: "the receiver answered 503" };
    await answers(page, "**/dashboard/api/overview?*", (overview) => ({
      ...overview,
      failing: { total: 1, jobs: [job] },
    }));
    await page.goto("/dashboard/");
    await settled(page, "Overview");
    await page.getByText(job.error_message).waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });
});
