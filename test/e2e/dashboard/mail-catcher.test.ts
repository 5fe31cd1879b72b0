import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { violations } from "./axe.ts";
import { findChrome } from "./chrome.ts";
import { hold } from "./held.ts";
import { openStage, openTestWindow, type Stage } from "./stage.ts";

const chrome = findChrome();

const listed = (page: Page, subject: string) =>
  page.getByRole("navigation", { name: "Messages" }).getByRole("button", { name: subject });
const shown = (page: Page, subject: string) =>
  page.getByRole("heading", { level: 2, name: subject });

/** By how many pixels the first letter of the newest mail's subject, at its right end, lies outside of its line. */
const hiddenBeginning = `(() => {
  const line = document.querySelector("nav b");
  const first = document.createRange();
  first.setStart(line.firstChild, 0);
  first.setEnd(line.firstChild, 1);
  return first.getBoundingClientRect().right - line.getBoundingClientRect().right;
})()`;

describe.skipIf(chrome === undefined)("the mail catcher's page", () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await openStage({ name: "mail-catcher", chrome });
  });
  afterAll(() => stage?.close());

  const send = async (subject: string) => {
    const body = { to: "you@example.com", subject, body: `The text of ${subject}.` };
    expect((await stage.rest({ method: "POST", path: "/send", body })).status).toBe(200);
  };
  const open = async () => {
    const window = await openTestWindow(stage.browser, stage.program.catcherUrl);
    await window.page.goto("/");
    return window;
  };

  test("its policy lets in the icon that a tab shows", async () => {
    const { page } = await open();
    const drawn = page.evaluate(`(async () => {
      const image = new Image();
      image.src = document.querySelector("link[rel=icon]").href;
      await image.decode();
      return image.naturalWidth > 0;
    })()`);
    expect(await drawn).toBe(true);
  });

  test("shows the mail that was chosen last, whichever answer comes last", async () => {
    await send("slow");
    await send("quick");
    const { page, complaints } = await open();
    await listed(page, "slow").click();
    await shown(page, "slow").waitFor();
    const slow = new URL(page.url()).hash.slice(1);
    await listed(page, "quick").click();
    await shown(page, "quick").waitFor();
    const held = await hold(page, "GET", `**/api/messages/${slow}`, "answer");
    await listed(page, "slow").click();
    await held.asked;
    await listed(page, "quick").click();
    const late = page.waitForResponse(`**/api/messages/${slow}`);
    held.release();
    await (await late).finished();
    // This answer comes after the late one, which would have been drawn by now.
    await page.evaluate(`fetch("api/messages").then((answer) => answer.text())`);
    await shown(page, "quick").waitFor();
    expect(await shown(page, "slow").count()).toBe(0);
    expect(complaints).toEqual([]);
  });

  test("reads well for everybody", async () => {
    await send("to be read");
    const { page } = await open();
    expect(await violations(page)).toEqual([]);
    await listed(page, "to be read").click();
    await shown(page, "to be read").waitFor();
    expect(await violations(page)).toEqual([]);
  });

  test("a subject that runs from right to left loses its end where there is no room, not its beginning", async () => {
    const subject = "\u05e9\u05dc\u05d5\u05dd ".repeat(40).trim();
    await send(subject);
    const { page } = await open();
    await listed(page, subject).waitFor();
    expect(await page.evaluate(hiddenBeginning)).toBeLessThan(1);
  });

  test("forced colours keep the mail that is shown apart from the others", async () => {
    await send("other");
    await send("marked");
    const { page } = await open();
    await page.emulateMedia({ forcedColors: "active" });
    await listed(page, "marked").click();
    await shown(page, "marked").waitFor();
    // The colours of the text: the computed backgrounds differ in any case, but forced colours hide them.
    const words = (current: boolean) =>
      page.evaluate(
        `getComputedStyle(document.querySelector("nav [aria-current=${current}]")).color`,
      );
    await expect.poll(async () => (await words(true)) === (await words(false))).toBe(false);
  });

  test("what is asked for while the program is away is told as not done", async () => {
    await send("first");
    await send("second");
    const { page } = await open();
    await listed(page, "first").click();
    await shown(page, "first").waitFor();
    await page.route("**/api/messages**", (route) => route.abort());
    const problem = page.getByRole("alert");
    await page.getByRole("button", { name: "Delete all" }).click();
    await problem.getByText("Nothing was deleted").waitFor();
    await listed(page, "second").click();
    await problem.getByText("The mail cannot be shown").waitFor();
    expect(await shown(page, "first").count()).toBe(0);
    await page.unroute("**/api/messages**");
    await listed(page, "first").click();
    await shown(page, "first").waitFor();
    await expect.poll(() => problem.count()).toBe(0);
  });

  test("a list that was asked for before all was deleted brings nothing back", async () => {
    await send("deleted");
    const { page } = await openTestWindow(stage.browser, stage.program.catcherUrl);
    const list = await hold(page, "GET", "**/api/messages", "answer", 1);
    await page.goto("/");
    await list.asked;
    await page.getByRole("button", { name: "Delete all" }).click();
    await page.getByText("No mail yet.").waitFor();
    const late = page.waitForResponse((response) => response.status() === 200);
    list.release();
    await (await late).finished();
    // This answer comes after the late one, which would have been drawn by now.
    await page.evaluate(`fetch("api/messages").then((answer) => answer.text())`);
    expect(await listed(page, "deleted").count()).toBe(0);
  });

  test("a mail that arrives leaves the focus where it is", async () => {
    await send("looked at");
    const { page } = await open();
    const button = listed(page, "looked at");
    await button.focus();
    await send("just arrived");
    await listed(page, "just arrived").waitFor();
    expect(await button.and(page.locator(":focus")).count()).toBe(1);
    const subjects = await page.getByRole("navigation").locator("b").allTextContents();
    expect(subjects.slice(0, 2)).toEqual(["just arrived", "looked at"]);
    await page.getByRole("button", { name: "Delete all" }).click();
    await page.getByText("No mail yet.").waitFor();
    expect(await page.getByRole("navigation").getByRole("button").count()).toBe(0);
  });
});
