import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findChrome } from "./chrome.ts";
import { button, copied, dialog, heading } from "./locators.ts";
import { openWindow, settled, signIn } from "./owner.ts";
import { openStage, type Stage } from "./stage.ts";

const chrome = findChrome();

describe.skipIf(chrome === undefined)("a member of a new account", () => {
  let stage: Stage;
  let page: Page;
  beforeAll(async () => {
    stage = await openStage({ name: "member", chrome });
    ({ page } = await openWindow(stage.browser, stage.program.url));
    await signIn(page, stage.owner);
    await page.goto("/dashboard/settings");
    await button(page, "Invite").click();
    await dialog(page).getByRole("textbox", { name: "Email" }).fill("member@example.com");
    await dialog(page).getByRole("button", { name: "Invite" }).click();
    await page.goto(await copied(page, "Copy the link"));
    await page.locator("input[type=password]").fill("a very good password");
    await button(page, "Accept and sign in").click();
    await heading(page, "Overview").waitFor();
  });
  afterAll(() => stage?.close());

  const open = async (path: string) => {
    await page.goto(`/dashboard/${path}`);
    await settled(page);
  };

  test("is led only to the first steps that members may take", async () => {
    await page.route("**/dashboard/api/overview?*", async (route) => {
      const response = await route.fetch();
      const overview = (await response.json()) as { first_steps: object };
      const json = { ...overview, first_steps: { ...overview.first_steps, smtp: false } };
      await route.fulfill({ json });
    });
    await open("");
    const steps = page.getByRole("listitem");
    expect(await steps.allInnerTexts()).toEqual([
      "Enter the SMTP server to send through (an owner does this)",
      "Create an API key and use it (an owner does this)",
      "Send a first email",
      "Create a scheduled job",
    ]);
    expect(await steps.getByRole("link").allInnerTexts()).toEqual([
      "Send a first email",
      "Create a scheduled job",
    ]);
  });

  test("is told who has an API key to give, where there is no email yet", async () => {
    await open("logs");
    await page.getByText("No email yet").waitFor();
    await page.getByText("an API key, which an owner creates").waitFor();
    expect(await page.getByRole("link", { name: "Get an API key" }).count()).toBe(0);
  });
});
