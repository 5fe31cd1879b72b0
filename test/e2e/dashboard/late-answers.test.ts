import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findChrome } from "./chrome.ts";
import { hold } from "./held.ts";
import { button, choice, dialog, heading, place } from "./locators.ts";
import { openStage, type Stage } from "./stage.ts";

const chrome = findChrome();

/** What is shown while an answer is under way, and what a late answer may still change. */
describe.skipIf(chrome === undefined)("an answer that comes late, or cut off", () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await openStage({ name: "late-answers", chrome });
  });
  afterAll(() => stage?.close());

  const open = (path: string) => stage.openPage(path);
  const createJob = (name: string) => stage.createJob({ name });

  test("another range: the chart shows the old one as what it is, and then the new one alone", async () => {
    const { page } = await open("");
    const bars = page.getByRole("img", { name: /^Emails:/ }).locator("g");
    await expect.poll(() => bars.count()).toBe(24);
    const hours = await bars.allTextContents();
    const days = await hold(page, "GET", "**/overview?range=7d");
    await page.getByText("7 days").click();
    await days.asked;
    expect(await bars.allTextContents()).toEqual(hours);
    days.release();
    await expect.poll(() => bars.count()).toBe(7);
    expect(new Set(await bars.allTextContents()).size).toBe(7);
  });

  test.each(["", "jobs", "logs", "api-keys"])(
    "half an answer on /%s is said, and the page stays",
    async (path) => {
      const { page } = await open(path);
      await page.route(/\/dashboard\/api\/(overview|jobs|logs|api-keys)/, (route) =>
        route.fulfill({ contentType: "application/json", body: '{"total": 1, ' }),
      );
      await page.reload();
      await page.getByRole("alert").filter({ hasText: "answer cannot be read" }).waitFor();
      expect(await place(page, "Settings").count()).toBe(1);
    },
  );

  test("a question stays open while it is done, so that its end closes no other", async () => {
    const { page } = await open("api-keys");
    await button(page, "Create API key").click();
    await page.getByLabel("Label").fill("slowly gone");
    await page.keyboard.press("Enter");
    await button(page, "Done").click();
    const deletion = await hold(page, "DELETE", "**/dashboard/api/api-keys/*");
    await button(page, "Delete the key slowly gone").click();
    const question = dialog(page);
    await question.getByRole("button", { name: "Delete the key" }).waitFor();
    // The second click comes as fast as a browser can deliver it.
    await page.evaluate(`{
      const named = (name) =>
        [...document.querySelectorAll("[role=dialog] button")].find((each) => each.textContent === name);
      named("Delete the key").click();
      scheduler.postTask(() => named("Cancel").click(), { priority: "user-blocking" });
    }`);
    await deletion.asked;
    await page.keyboard.press("Escape");
    await button(page, "Cancel").click({ force: true });
    expect(await question.getByText("slowly gone").count()).toBe(1);
    deletion.release();
    await question.waitFor({ state: "detached" });
  });

  test("a question that is closed does not become another one while it fades", async () => {
    const { page } = await open("settings");
    await page.emulateMedia({ reducedMotion: "no-preference" });
    await button(page, "Invite").click();
    await dialog(page).getByRole("textbox", { name: "Email" }).fill("soon@example.com");
    await dialog(page).getByRole("button", { name: "Invite" }).click();
    await button(page, "Done").click();
    await button(page, "Withdraw the invitation of soon@example.com").click();
    await dialog(page).getByText("soon@example.com").waitFor();
    await page.evaluate(`{
      globalThis.asked = [];
      const look = () => {
        const text = document.querySelector("[role=dialog]")?.textContent;
        if (text && !text.includes("soon@example.com")) globalThis.asked.push(text);
        requestAnimationFrame(look);
      };
      look();
    }`);
    await button(page, "Cancel").click();
    await dialog(page).waitFor({ state: "detached" });
    expect(await page.evaluate("globalThis.asked")).toEqual([]);
  });

  test("a job that is saved late does not lead away from where somebody went meanwhile", async () => {
    const { page } = await open(`jobs/${await createJob("Saved late")}/edit`);
    const save = await hold(page, "PATCH", "**/dashboard/api/jobs/*");
    await page.getByLabel("Name").fill("Saved late, renamed");
    await button(page, "Save").click();
    await save.asked;
    await place(page, "API keys").click();
    await button(page, "Create API key").click();
    await page.getByLabel("Label").fill("half of it");
    save.release();
    await page.getByText("Job saved").waitFor();
    expect(await heading(page, "API keys").count()).toBe(1);
    expect(await page.getByLabel("Label").inputValue()).toBe("half of it");
  });

  test("that a job was not saved is said to whoever went elsewhere meanwhile", async () => {
    const id = await createJob("Never saved");
    const { page } = await open(`jobs/${id}/edit`);
    const save = await hold(page, "PATCH", "**/dashboard/api/jobs/*");
    await page.getByLabel("Name").fill("Never saved, renamed");
    await button(page, "Save").click();
    await save.asked;
    await place(page, "API keys").click();
    await heading(page, "API keys").waitFor();
    await stage.rest({ method: "DELETE", path: `/jobs/${id}` });
    save.release();
    await page
      .getByRole("alert")
      .filter({ hasText: "“Never saved, renamed” was not saved" })
      .waitFor();
    expect(await heading(page, "API keys").count()).toBe(1);
  });

  test("the way back from a filter leads to the page that was there", async () => {
    for (let count = 0; count < 30; count += 1) await createJob(`Crowd ${count}`);
    const paused = await createJob("Crowd, paused");
    await stage.rest({ method: "POST", path: `/jobs/${paused}/pause`, body: {} });
    const { page } = await open("jobs");
    await button(page, "Page 2").click();
    await page.getByRole("link", { name: "Crowd 0", exact: true }).waitFor();
    await choice(page, "Status").click();
    await page.getByRole("option", { name: "paused" }).click();
    await page.getByText("1 job", { exact: true }).waitFor();
    await page.goBack();
    await page.getByRole("link", { name: "Crowd 0", exact: true }).waitFor();
    expect(new URL(page.url()).search).toBe("?page=2");
  });

  test("a new job above moves the rows, and the focus stays on its own", async () => {
    await createJob("Chosen");
    const { page } = await open("jobs");
    const box = page.getByLabel("Select Chosen");
    await box.focus();
    await createJob("Newer");
    await page.getByRole("link", { name: "Newer" }).waitFor();
    expect(await box.and(page.locator(":focus")).count()).toBe(1);
  });

  test("what is typed fast is searched for, and not written into the address letter by letter", async () => {
    await createJob("Choice");
    const { page } = await open("jobs");
    await page.evaluate(`{
      globalThis.writes = 0;
      const write = history.replaceState;
      history.replaceState = function (...args) {
        globalThis.writes += 1;
        return write.apply(this, args);
      };
    }`);
    const search = page.getByLabel("Search");
    await search.focus();
    await page.evaluate(`{
      const box = document.activeElement;
      const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
      for (let length = 1; length <= 150; length += 1) {
        set.call(box, "x".repeat(length));
        box.dispatchEvent(new Event("input", { bubbles: true }));
      }
    }`);
    await expect.poll(() => new URL(page.url()).searchParams.get("q")).toBe("x".repeat(150));
    // Safari throws at the hundredth write within ten seconds.
    expect(Number(await page.evaluate("globalThis.writes"))).toBeLessThan(10);
    // Text that is not yet in the address is written with another filter.
    await choice(page, "Type").click();
    await page.getByRole("option", { name: "webhook" }).waitFor();
    await page.evaluate(`{
      const box = document.querySelector("[aria-label=Search]");
      const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
      set.call(box, "Cho");
      box.dispatchEvent(new Event("input", { bubbles: true }));
      [...document.querySelectorAll("[role=option]")].find((each) => each.textContent === "webhook").click();
    }`);
    await page.waitForURL("**/jobs?q=Cho&type=webhook");
    expect(await search.inputValue()).toBe("Cho");
  });

  test("what was typed into a filter just before does not keep from leaving", async () => {
    await createJob("Choice");
    const { page } = await open("jobs");
    const code = await hold(page, "GET", "**/assets/api-keys-*.js");
    // The browser is kept busy, so that nothing is rendered between the click and the end of the filter's wait.
    await page.evaluate(`{
      const box = document.querySelector("[aria-label^=Search]");
      const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
      set.call(box, "Cho");
      box.dispatchEvent(new Event("input", { bubbles: true }));
      const typed = performance.now();
      document.querySelector("a[href$='/api-keys']").click();
      while (performance.now() < typed + 250);
    }`);
    await code.asked;
    // Timers fire in order: after this one, the filter's has fired.
    await page.evaluate("new Promise((done) => setTimeout(done, 300))");
    code.release();
    await heading(page, "API keys").waitFor();
    expect(new URL(page.url()).pathname).toBe("/dashboard/api-keys");
  });

  test("no email to other filters is not taken for no email at all", async () => {
    await stage.rest({
      method: "POST",
      path: "/send",
      body: { to: "ada@example.com", subject: "Hello", body: "Hello." },
    });
    const { page } = await open("logs?status=failed");
    await page.getByText("No email matches.").waitFor();
    const all = await hold(page, "GET", "**/dashboard/api/logs?limit=*");
    await place(page, "Email log").click();
    await all.asked;
    expect(await page.getByText("No email yet").count()).toBe(0);
    expect(await page.getByLabel("Recipient").count()).toBe(1);
    all.release();
    await page.getByText("ada@example.com").waitFor();
  });

  test("the next invitation does not begin with the role of the last one", async () => {
    const { page } = await open("settings");
    const role = dialog(page)
      .getByRole("combobox", { name: "Role" })
      .or(dialog(page).getByRole("textbox", { name: "Role" }))
      .first();
    await button(page, "Invite").click();
    await role.click();
    await page.getByRole("option", { name: /^Owner/ }).click();
    await page.keyboard.press("Escape");
    await dialog(page).waitFor({ state: "detached" });
    await button(page, "Invite").click();
    expect(await role.inputValue()).toMatch(/^Member/);
  });

  test("a clock that is two hours behind does not put the past into the future", async () => {
    const job = await createJob("Just made");
    const { context, page } = await open("");
    await context.addInitScript(`{
      const now = Date.now;
      Date.now = () => now() - 2 * 3_600_000;
    }`);
    await page.goto(`/dashboard/jobs/${job}`);
    await expect
      .poll(() => page.locator("time").allTextContents())
      .toContainEqual(expect.stringMatching(/^(now|\d+ seconds ago)$/));
  });
});
