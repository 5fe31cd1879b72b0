import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findChrome } from "./chrome.ts";
import { button, heading, place } from "./locators.ts";
import { cutOff, databaseAway, noWayThere } from "./outages.ts";
import { show } from "./owner.ts";
import { openStage, type Stage } from "./stage.ts";

const chrome = findChrome();

const problem = (page: Page) =>
  page
    .getByRole("alert")
    .filter({ hasText: /cannot be reached|database is away|server answered 404/ });

/** Cuts off what the page asks there, and counts how often it does. */
async function cutOffAll(page: Page, asks: string): Promise<{ asked: number }> {
  const calls = { asked: 0 };
  await page.route(`**/dashboard/api/${asks}`, async (route) => {
    calls.asked += 1;
    await cutOff(route);
  });
  return calls;
}

/** Nobody presses "Try again" here. */
describe.skipIf(chrome === undefined)("a page whose server was away", () => {
  let stage: Stage;
  let job: string;
  beforeAll(async () => {
    stage = await openStage({ name: "come-back", chrome });
    job = await stage.createJob({ name: "Nightly" });
  });
  afterAll(() => stage?.close());

  /** Opens a window in which time can pass at once. */
  const open = async (path: string) => {
    const { context, page } = await stage.openPage(path);
    await page.clock.install();
    const wait = () => page.clock.fastForward("01:00");
    /** The number of such elements after a minute. */
    const later = async (elements: Locator) => {
      await wait();
      return elements.count();
    };
    return { context, page, wait, later };
  };

  test.each([
    { what: "the form of a job", path: "jobs/JOB/edit", asks: "jobs/*", by: cutOff },
    { what: "the copy of a job", path: "jobs/_new?from=JOB", asks: "jobs/*", by: databaseAway },
    { what: "the check of a job", path: "jobs/_new", asks: "jobs/check", by: databaseAway },
    { what: "SMTP", path: "smtp", asks: "smtp", by: cutOff },
    { what: "SMTP, behind a proxy", path: "smtp", asks: "smtp", by: noWayThere },
    { what: "signing", path: "signing-secret", asks: "signing-secret", by: databaseAway },
    { what: "users", path: "settings", asks: "users", by: cutOff },
    { what: "accounts", path: "accounts", asks: "accounts", by: databaseAway },
    { what: "who is signed in", path: "settings", asks: "session", by: cutOff },
  ])("comes back by itself: $what", async ({ path, asks, by }) => {
    const { page, later } = await open("");
    await page.route(`**/dashboard/api/${asks}`, by);
    await page.goto(`/dashboard/${path.replace("JOB", job)}`);
    await problem(page).waitFor();
    await page.unrouteAll();
    await expect.poll(() => later(problem(page))).toBe(0);
    await page.getByRole("heading", { level: 1 }).waitFor();
  });

  test("comes back by itself: how one can sign in, and what was typed meanwhile stays", async () => {
    const { context, page, later } = await open("");
    await context.clearCookies();
    await page.route("**/dashboard/api/sign-in", cutOff);
    await page.goto("/dashboard/");
    await problem(page).waitFor();
    await page.getByLabel("Email").fill("ada@example.com");
    await page.unrouteAll();
    await expect.poll(() => later(problem(page))).toBe(0);
    expect(await page.getByLabel("Email").inputValue()).toBe("ada@example.com");
  });

  test("stays as it is while it is tried again, and the focus, too", async () => {
    const { page, wait } = await open("");
    const session = await cutOffAll(page, "session");
    await page.goto("/dashboard/settings");
    const again = button(page, "Try again");
    await again.focus();
    await again.evaluate((element) => Object.assign(globalThis, { before: element }));
    const before = session.asked;
    await wait();
    await expect.poll(() => session.asked).toBeGreaterThan(before);
    const same = `document.activeElement === before`;
    expect(await page.evaluate(same)).toBe(true);
  });

  test("asks nothing while it is hidden, and at once when it is shown again", async () => {
    const { page, wait } = await open("");
    const smtp = await cutOffAll(page, "smtp");
    await page.goto("/dashboard/smtp");
    await problem(page).waitFor();
    await show(page, "hidden");
    const before = smtp.asked;
    await wait();
    await wait();
    expect(smtp.asked).toBe(before);
    await page.unrouteAll();
    // No time passes any more: the page does not wait for it.
    await page.clock.pauseAt(Date.now() + 3_600_000);
    await show(page, "visible");
    await page.getByLabel("Host").waitFor();
  });

  test("sends nothing twice that was clicked, and keeps what was typed", async () => {
    const { page, later } = await open("smtp");
    let saves = 0;
    await page.route("**/dashboard/api/smtp", async (route) => {
      if (route.request().method() === "POST") {
        saves += 1;
        await route.fetch();
        // What could tell whether it was done is away, too.
        await page.route("**/dashboard/api/smtp", databaseAway);
        await cutOff(route);
      } else await route.continue();
    });
    const host = page.getByLabel("Host");
    const from = page.getByLabel("From address");
    await from.fill("saved@example.com");
    await button(page, "Save").click();
    await page.getByText("Look whether it was done all the same.").waitFor();
    const away = page.getByText("The database is away.");
    await away.waitFor();
    await host.fill("typed.example.com");
    await page.unrouteAll();
    await expect.poll(() => later(away)).toBe(0);
    expect([await host.inputValue(), await from.inputValue(), saves]).toEqual([
      "typed.example.com",
      "saved@example.com",
      1,
    ]);
  });

  test("is loaded when it could not be", async () => {
    const { context, page, later } = await open("");
    const lost = heading(page, "This page could not be shown");
    await context.setOffline(true);
    await place(page, "SMTP").click();
    await lost.waitFor();
    await context.setOffline(false);
    await expect.poll(() => later(lost)).toBe(0);
    await page.getByLabel("Host").waitFor();
  });
});
