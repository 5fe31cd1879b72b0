import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Standalone } from "../program.ts";
import type { Receiver } from "../../receiver.ts";
import { findChrome } from "./chrome.ts";
import { keyboard } from "./keyboard.ts";
import { openWindow, type Owner } from "./owner.ts";
import { openStage, type Stage } from "./stage.ts";

const chrome = findChrome();

/** The steps run in order; each goes on where the one before it ended. Nothing is clicked. */
describe.skipIf(chrome === undefined)("with the keyboard alone", () => {
  let stage: Stage;
  let program: Standalone;
  let owner: Owner;
  let receiver: Receiver;
  let page: Page;
  let complaints: string[];
  let keys: ReturnType<typeof keyboard>;
  beforeAll(async () => {
    stage = await openStage({ name: "keyboard", chrome });
    ({ program, owner, receiver } = stage);
    ({ page, complaints } = await openWindow(stage.browser, program.url));
    keys = keyboard(page);
  });
  afterAll(() => stage?.close());

  const button = (name: string) => page.getByRole("button", { name, exact: true });
  const heading = (name: string) => page.getByRole("heading", { level: 1, name });
  const focusOn = async (what: ReturnType<typeof button>) => {
    await expect.poll(() => keys.has(what)).toBe(true);
  };
  /**
   * Opens the menu of the focused button. The menu takes the focus a moment after it appears; arrow keys before that
   * are lost.
   */
  const openMenu = async () => {
    await keys.press("Enter");
    const inside = `document.activeElement?.closest('[role="menu"]') != null`;
    await expect.poll(() => page.evaluate(inside)).toBe(true);
  };
  const skip = () => page.getByRole("link", { name: "Skip to the content" });
  const place = (name: string) =>
    page.getByRole("navigation", { name: "Main" }).getByRole("link", { name, exact: true });

  test("signs in", async () => {
    await page.goto(`${program.printed("Dashboard")}`);
    await keys.tabTo(page.getByLabel("Email"));
    await keys.type(owner.email);
    const password = page.locator("input[name=password]");
    await keys.tabTo(password);
    await keys.type(owner.password);
    await keys.use(page.getByRole("button", { name: "Toggle password visibility" }), "Space");
    expect(await password.getAttribute("type")).toBe("text");
    await keys.tabTo(password, "Shift+Tab");
    await keys.press("Enter");
    await heading("Overview").waitFor();
    await focusOn(heading("Overview"));
    expect(await page.title()).toBe("Overview · Carillon");
  });

  test("skips the navigation", async () => {
    await page.reload();
    await heading("Overview").waitFor();
    await keys.press("Tab");
    await focusOn(skip());
    expect((await skip().boundingBox())?.y).toBeGreaterThanOrEqual(0);
    await keys.press("Enter");
    await keys.press("Tab");
    const inside = await page.evaluate(
      `document.querySelector("#content").contains(document.activeElement)`,
    );
    expect(inside).toBe(true);
  });

  test("goes to a page, and is told which", async () => {
    await page.reload();
    await heading("Overview").waitFor();
    await keys.use(place("API keys"));
    await focusOn(heading("API keys"));
    expect(await page.title()).toBe("API keys · Carillon");
    await page.reload();
    await heading("API keys").waitFor();
    await keys.press("Tab");
    await focusOn(skip());
  });

  test("creates a key and copies it, inside the dialog until it is done", async () => {
    const opener = button("Create API key");
    await keys.use(opener);
    await focusOn(page.getByLabel("Label"));
    await keys.type("by keyboard");
    await keys.press("Enter");
    await keys.tabTo(button("Copy the key"));
    await keys.press("Space");
    await button("Copied").waitFor();
    expect(await page.evaluate("navigator.clipboard.readText()")).toMatch(/^svc_live_/);
    for (let stop = 0; stop < 10; stop += 1) {
      await keys.press("Tab");
      const inside = await page.evaluate(
        `document.querySelector('[role="dialog"]').contains(document.activeElement)`,
      );
      expect([(await keys.focused()).name, inside]).toEqual([expect.any(String), true]);
    }
    await keys.use(button("Done"));
    await focusOn(opener);
  });

  test("leaves a dialog by Escape, and is where it was opened", async () => {
    const opener = button("Delete the key by keyboard");
    await keys.use(opener);
    await page.getByRole("dialog").waitFor();
    await keys.press("Escape");
    await focusOn(opener);
    expect(await page.getByRole("dialog").count()).toBe(0);
  });

  test("creates a job", async () => {
    await keys.tabTo(place("Jobs"), "Shift+Tab");
    await keys.press("Enter");
    await focusOn(heading("Jobs"));
    await keys.use(page.getByRole("link", { name: "Create job" }).first());
    await focusOn(heading("Create a job"));
    await keys.tabTo(page.getByLabel("Name"));
    await keys.type("By keyboard");
    // Arrow keys choose among the kinds, and back.
    await keys.tabTo(page.getByRole("radio", { name: "Call a webhook" }));
    await keys.press("ArrowRight");
    await page.getByLabel("Subject").waitFor();
    await keys.press("ArrowLeft");
    await keys.tabTo(page.getByLabel("URL"));
    await keys.type(`${receiver.url}/keyboard`);
    const zone = page
      .getByRole("combobox", { name: "Time zone" })
      .or(page.getByRole("textbox", { name: "Time zone" }));
    await keys.tabTo(zone);
    await keys.press("Control+A");
    await keys.type("Lisbon");
    await page.getByRole("option", { name: "Europe/Lisbon" }).waitFor();
    // A list looks for the present choice in a timer after it opens. The test's keys may be faster than that; nobody's
    // fingers are.
    await page.evaluate("new Promise((done) => setTimeout(done))");
    await keys.press("ArrowDown");
    await keys.press("Enter");
    expect(await zone.inputValue()).toBe("Europe/Lisbon");
    await keys.use(button("Create job"));
    await focusOn(heading("By keyboard"));
  });

  test("opens it from the list, runs it and pauses it", async () => {
    await keys.tabTo(place("Jobs"), "Shift+Tab");
    await keys.press("Enter");
    await focusOn(heading("Jobs"));
    await keys.use(page.getByRole("link", { name: "By keyboard" }));
    await focusOn(heading("By keyboard"));
    let runs = 0;
    page.on("request", (request) => {
      if (request.url().endsWith("/run")) runs += 1;
    });
    await keys.tabTo(button("Run now"));
    await page.keyboard.down("Enter");
    await page.getByText("success", { exact: true }).first().waitFor();
    expect(receiver.received.map(({ path }) => path)).toEqual(["/keyboard"]);
    // A key that is held for longer than a run takes repeats.
    await expect.poll(() => button("Run now").getAttribute("aria-disabled")).toBe("false");
    await page.keyboard.down("Enter");
    await page.keyboard.up("Enter");
    await keys.use(button("Pause"), "Space");
    await focusOn(button("Resume"));
    expect(runs).toBe(1);
  });

  test("deletes it, having thought twice", async () => {
    const more = button("More actions");
    const chooseDelete = async () => {
      await keys.tabTo(more);
      await openMenu();
      await keys.press("ArrowUp");
      await focusOn(page.getByRole("menuitem", { name: /Delete/ }));
      await keys.press("Enter");
      await page.getByRole("dialog").waitFor();
    };
    await chooseDelete();
    await keys.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    await focusOn(more);
    await chooseDelete();
    await keys.use(button("Delete the job"));
    await focusOn(heading("Jobs"));
    await page.getByText("No jobs yet").waitFor();
    expect(await page.getByRole("link", { name: "By keyboard" }).count()).toBe(0);
  });

  test("signs out", async () => {
    await keys.tabTo(page.getByRole("button", { name: /your user/ }), "Shift+Tab");
    await openMenu();
    await keys.press("ArrowUp");
    await focusOn(page.getByRole("menuitem", { name: "Sign out" }));
    await keys.press("Enter");
    await button("Sign in").waitFor();
    expect(await page.getByRole("navigation").count()).toBe(0);
  });

  test("sees at every stop where it is", () => {
    expect([...new Set(keys.problems)]).toEqual([]);
    expect(complaints).toEqual([]);
  });
});
