import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findChrome } from "./chrome.ts";
import { hold } from "./held.ts";
import { button, copied, dialog, heading, place } from "./locators.ts";
import { openStage, type Stage } from "./stage.ts";

const chrome = findChrome();
const VALUE = "Bearer it's hush";

const code = (page: Page, name: string) => page.getByRole("region", { name, exact: true });
const question = (page: Page) => page.getByRole("dialog", { name: "Leave this page?" });

/** What is made with a dialog and shown only once. */
const ONCE = [
  {
    what: "an API key",
    title: "API keys",
    opener: "Create API key",
    fields: { Label: "asked" },
    action: "Create",
    shown: "API key",
  },
  {
    what: "an invitation",
    title: "Settings",
    opener: "Invite",
    fields: { Email: "asked@example.com" },
    action: "Invite",
    shown: "Invitation link",
  },
  {
    what: "the invitation of an account's owner",
    title: "Accounts",
    opener: "Create account",
    fields: { Name: "asked", "Owner's email": "owner@example.com" },
    action: "Create",
    shown: "Invitation link",
  },
] as const;

async function make(page: Page, { opener, fields, action }: (typeof ONCE)[number]): Promise<void> {
  await button(page, opener).click();
  for (const [name, text] of Object.entries(fields))
    await dialog(page).getByRole("textbox", { name, exact: true }).fill(text);
  await dialog(page).getByRole("button", { name: action, exact: true }).click();
}

describe.skipIf(chrome === undefined)("secrets", () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await openStage({ name: "secrets", chrome });
  });
  afterAll(() => stage?.close());

  test("that a duplicate will not have the headers that come from Secrets is said", async () => {
    const id = await stage.createJob({ name: "Original" });
    const { page } = await stage.openPage("jobs");
    // As of a job that kubectl made: the program of this test has no Secrets.
    await page.route(`**/dashboard/api/jobs/${id}`, async (route) => {
      const response = await route.fetch();
      const view = (await response.json()) as object;
      await route.fulfill({ json: { ...view, secret_headers: ["Authorization"] } });
    });
    await page.getByRole("link", { name: "Original" }).click();
    await page.getByText("Headers from Secrets").waitFor();
    await button(page, "More actions").click();
    await page.getByRole("menuitem", { name: "Duplicate" }).click();
    await heading(page, "Create a job").waitFor();
    await page.getByText("whose values come from Secrets: Authorization.").waitFor();
    await place(page, "Jobs").click();
    await page.getByRole("link", { name: "Create job" }).click();
    await heading(page, "Create a job").waitFor();
    await page.getByLabel("Name").waitFor();
    expect(await page.getByText("come from Secrets").count()).toBe(0);
  });

  test("values of headers are masked everywhere on a job's page until they are shown, and copied as they are", async () => {
    const headers = { Authorization: VALUE, "X-Team": "blue" };
    const id = await stage.createJob({ name: "Masked", webhook_headers: headers });
    const { page } = await stage.openPage(`jobs/${id}`);
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
  });

  test("saved values of headers are masked in the form, too, and saved as they are", async () => {
    const headers = { "X-Team": "blue", Authorization: VALUE };
    const id = await stage.createJob({ name: "Masked form", webhook_headers: headers });
    const { page } = await stage.openPage(`jobs/${id}/edit`);
    const value = (number: number) => page.getByLabel(`Header ${number} value`);
    const isMasked = (number: number) =>
      page.evaluate(
        `getComputedStyle(document.querySelector('[aria-label="Header ${number} value"]')).webkitTextSecurity === "disc"`,
      );
    expect([await isMasked(1), await isMasked(2)]).toEqual([true, true]);
    // What is being typed can be read.
    await value(1).fill("red");
    expect([await isMasked(1), await isMasked(2)]).toEqual([false, true]);
    await button(page, "Add a header").click();
    await page.getByLabel("Header 3 name").fill("X-New");
    await value(3).fill("typed");
    expect(await isMasked(3)).toBe(false);
    await button(page, "Show the values of the headers").click();
    expect(await isMasked(2)).toBe(false);
    await button(page, "Hide the values of the headers").click();
    expect(await isMasked(2)).toBe(true);
    await button(page, "Save").click();
    await page.getByText("Job saved").waitFor();
    expect((await stage.rest({ path: `/jobs/${id}` })).body).toMatchObject({
      webhook_headers: { Authorization: VALUE, "X-Team": "red", "X-New": "typed" },
    });
  });

  test.each(ONCE)("who leaves while $what is shown once is asked first", async (once) => {
    const { page } = await stage.openPage("");
    const asked: string[] = [];
    page.on("dialog", (shown) => {
      asked.push(shown.type());
      void shown.accept();
    });
    await place(page, once.title).click();
    await heading(page, once.title).waitFor();
    const { pathname } = new URL(page.url());
    await make(page, once);
    const secret = code(page, once.shown);
    await secret.waitFor();
    await page.goBack();
    await question(page).getByRole("button", { name: "Stay" }).click();
    await question(page).waitFor({ state: "detached" });
    expect(await secret.count()).toBe(1);
    expect(new URL(page.url()).pathname).toBe(pathname);
    await button(page, "Done").click();
    await dialog(page).waitFor({ state: "detached" });
    await page.goBack();
    await heading(page, "Overview").waitFor();
    await page.reload();
    expect(asked).toEqual([]);
  });

  test("who leaves all the same is asked once", async () => {
    const { page } = await stage.openPage("");
    const asked: string[] = [];
    page.on("dialog", (shown) => {
      asked.push(shown.type());
      void shown.accept();
    });
    const [key] = ONCE;
    await place(page, key.title).click();
    await make(page, key);
    await code(page, key.shown).waitFor();
    await page.goBack();
    await question(page).getByRole("button", { name: "Leave" }).click();
    await heading(page, "Overview").waitFor();
    expect(asked).toEqual([]);
    await page.goForward();
    await make(page, key);
    await code(page, key.shown).waitFor();
    await page.reload();
    expect(asked).toEqual(["beforeunload"]);
  });

  test("who leaves while a key is made is asked, too: it would never be shown", async () => {
    const { page } = await stage.openPage("");
    const [key] = ONCE;
    await place(page, key.title).click();
    await heading(page, key.title).waitFor();
    const made = await hold(page, "POST", "**/dashboard/api/api-keys");
    await make(page, key);
    await made.asked;
    await page.goBack();
    await question(page).getByRole("button", { name: "Stay" }).click();
    made.release();
    await expect.poll(() => code(page, key.shown).innerText()).toMatch(/^svc_live_/);
  });

  test("until when old signing secrets sign is told after a reload, too", async () => {
    const { page } = await stage.openPage("signing-secret");
    const rotate = async (secrets: number) => {
      await button(page, "Rotate the secret").click();
      await dialog(page).getByRole("button", { name: "Rotate" }).click();
      await page.getByText(`${secrets} secrets sign at the moment`).waitFor();
      await dialog(page).waitFor({ state: "detached" });
      return page.getByText("secrets sign at the moment").innerText();
    };
    const said = await rotate(2);
    expect(said).toMatch(/the newest first\. The old one signs until .*\d\d:\d\d.*\.$/);
    await page.reload();
    await page.getByText(said, { exact: true }).waitFor();
    expect(await rotate(3)).toMatch(/The old ones sign until .*\d\d:\d\d.*; .*\d\d:\d\d.*\.$/);
  });
});
