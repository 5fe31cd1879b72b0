import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findChrome } from "./chrome.ts";
import { keyboard } from "./keyboard.ts";
import { button, dialog, place } from "./locators.ts";
import { PHONE, type View } from "./owner.ts";
import { openStage, type Stage } from "./stage.ts";

const chrome = findChrome();
/** The sizes of a desktop's window at a zoom of 200 % and of 400 % (WCAG 2.2, 1.4.10). */
const TWICE: View = { width: 640, height: 430 };
const FOUR_TIMES: View = { width: 320, height: 256 };

/** More than the places to which one can tab on any page of these tests. */
const MOST_STOPS = 70;

/** Tabs from the top of the page to its end and back. Returns where the focus could not be seen. */
async function walk(page: Page): Promise<string[]> {
  const keys = keyboard(page);
  const problems = new Set<string>();
  for (const key of ["Tab", "Shift+Tab"])
    for (let stop = 0; stop < MOST_STOPS; stop += 1) {
      await page.keyboard.press(key);
      const { name, problem } = await keys.focused();
      if (name === "nothing" && stop > 0) break;
      if (problem !== null) problems.add(`${key}: ${name} ${problem}`);
    }
  return [...problems];
}

/** What lies in a small window, or on a page that is magnified. */
describe.skipIf(chrome === undefined)("a small window", () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await openStage({ name: "zoom", chrome });
    for (let count = 0; count < 8; count += 1)
      await stage.createJob({ name: `Report of May ${count}` });
  });
  afterAll(() => stage?.close());

  test.each([
    { zoom: "200 %", view: TWICE, path: "jobs" },
    { zoom: "200 %", view: TWICE, path: "settings" },
    { zoom: "400 %", view: FOUR_TIMES, path: "settings" },
    { zoom: "400 %", view: FOUR_TIMES, path: "smtp" },
    { zoom: "100 % on a phone", view: PHONE, path: "jobs/_new" },
  ])("at a zoom of $zoom the focus is never hidden: /$path", async ({ view, path }) => {
    const { page } = await stage.openPage(path, view);
    expect(await walk(page)).toEqual([]);
  });

  test.each([
    { zoom: "100 %", view: { width: 1_000, height: 620 } },
    { zoom: "200 %", view: TWICE },
    { zoom: "400 %", view: FOUR_TIMES },
  ])(
    "at a zoom of $zoom the bar of the selected jobs does not hide the focus",
    async ({ view }) => {
      const { page } = await stage.openPage("jobs", view);
      await page.getByLabel("Select all on this page").check();
      await page.getByText("8 selected").waitFor();
      await page.evaluate("document.activeElement.blur(); scrollTo(0, 0)");
      expect(await walk(page)).toEqual([]);
    },
  );

  test("in a window of 1,000 pixels the list shows a job's name", async () => {
    const { context, page } = await stage.openPage("jobs", { width: 1_000, height: 620 });
    await page.getByRole("link", { name: "Report of May 0" }).waitFor();
    const cut = await page.evaluate(`(() => {
      const { scrollWidth, clientWidth } = document.querySelector(".row-link").parentElement;
      return scrollWidth - clientWidth;
    })()`);
    expect(cut).toBe(0);
    await context.close();
  });

  // 1,200: the least at which it stands beside the schedule.
  test.each([1_000, 1_200])("a job's history is not cut at %s pixels", async (width) => {
    const id = await stage.createJob({ name: "With a history" });
    const { context, page } = await stage.openPage(`jobs/${id}`, { width, height: 620 });
    await button(page, "Run now").click();
    await page.getByText("success", { exact: true }).waitFor();
    const beside = await page.evaluate(`(() => {
      const { scrollWidth, clientWidth } = document.querySelector(".table-scroll");
      return scrollWidth - clientWidth;
    })()`);
    expect(beside).toBe(0);
    await stage.rest({ method: "DELETE", path: `/jobs/${id}` });
    await context.close();
  });

  test("the address of a receiver that is down can be read to its end", async () => {
    const destination = `https://${"hooks.".repeat(12)}example.com:8443`;
    const { page } = await stage.openPage("api-keys", FOUR_TIMES);
    await page.route("**/dashboard/api/overview?*", async (route) => {
      const response = await route.fetch();
      const circuit = { destination, state: "open", since: new Date().toISOString() };
      await route.fulfill({ json: { ...(await response.json()), circuits: [circuit] } });
    });
    await page.goto("/dashboard/");
    await page.getByText(destination).waitFor();
    const beside = await page.evaluate(`(() => {
      const texts = [...document.querySelectorAll("main p")];
      const { scrollWidth, clientWidth } = texts.find((text) => text.textContent === "${destination}");
      return scrollWidth - clientWidth;
    })()`);
    expect(beside).toBe(0);
  });

  test("the title of a dialog does not hide the focus", async () => {
    const { page } = await stage.openPage("accounts", FOUR_TIMES);
    await button(page, "Create account").click();
    const name = dialog(page).getByLabel("Name");
    await name.fill("half");
    const keys = keyboard(page);
    await keys.tabTo(dialog(page).getByRole("button", { name: "Create" }));
    await keys.tabTo(name, "Shift+Tab");
    expect(keys.problems).toEqual([]);
  });

  test("all places of the navigation can be reached, and it closes behind whoever leaves it", async () => {
    const { page } = await stage.openPage("", FOUR_TIMES);
    // Closed, it is not there for a screen reader or the keyboard.
    expect(await page.getByRole("navigation", { name: "Main" }).count()).toBe(0);
    await button(page, "Open the navigation").click();
    await place(page, "Overview").hover();
    await page.mouse.wheel(0, 1_000);
    await place(page, "Accounts").click({ trial: true });
    const keys = keyboard(page);
    await keys.tabTo(page.getByRole("link", { name: "API documentation" }));
    await page.keyboard.press("Tab");
    await button(page, "Open the navigation").waitFor();
    expect(keys.problems).toEqual([]);
  });
});
