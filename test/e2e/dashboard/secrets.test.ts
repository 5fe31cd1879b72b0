import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findChrome } from "./chrome.ts";
import { button, copied } from "./locators.ts";
import { openStage, type Stage } from "./stage.ts";

const chrome = findChrome();
const VALUE = "Bearer it's hush";

const code = (page: Page, name: string) => page.getByRole("region", { name, exact: true });

describe.skipIf(chrome === undefined)("secrets", () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await openStage({ name: "secrets", chrome });
  });
  afterAll(() => stage?.close());

  test("values of headers are masked everywhere on a job's page until they are shown, and copied as they are", async () => {
    const headers = { Authorization: VALUE, "X-Team": "blue" };
    const id = await stage.createJob({ name: "Masked", webhook_headers: headers });
    const { context, page } = await stage.openPage(`jobs/${id}`);
    const content = page.locator("#content");
    const show = button(page, "Show the values of the headers");
    const yaml = code(page, "ScheduledJob YAML");
    await expect.poll(() => yaml.innerText()).toContain('Authorization: "••••"');
    expect(await content.innerText()).toContain("X-Team: ••••");
    expect(await content.innerText()).not.toContain(VALUE);
    expect(await copied(page, "Copy the YAML")).toContain(`Authorization: "${VALUE}"`);
    await page.getByRole("tab", { name: "curl" }).click();
    await expect.poll(() => code(page, "curl").innerText()).toContain('"Authorization": "••••"');
    expect(await content.innerText()).not.toContain("hush");
    expect(await copied(page, "Copy the command")).toContain("hush");
    await show.click();
    await expect.poll(() => code(page, "curl").innerText()).toContain("hush");
    expect(await content.innerText()).toContain(`Authorization: ${VALUE}`);
    await page.getByRole("tab", { name: "ScheduledJob YAML" }).click();
    await expect.poll(() => yaml.innerText()).toContain(VALUE);
    await button(page, "Hide the values of the headers").click();
    await expect.poll(() => content.innerText()).not.toContain(VALUE);
    await context.close();
  });
});
