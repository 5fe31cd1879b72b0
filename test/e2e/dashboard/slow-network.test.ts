import type { Locator, Page, Route } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { violations } from "./axe.ts";
import { findChrome } from "./chrome.ts";
import { doneBut, hold } from "./held.ts";
import { button, choice, dialog, heading, place } from "./locators.ts";
import { cutOff, databaseAway } from "./outages.ts";
import { openStage, openTestWindow, type Stage } from "./stage.ts";

const chrome = findChrome();

/** What a waiting user sees: nothing at first, then that something is being loaded. */
const waiting = (page: Page): Locator => page.getByRole("progressbar", { name: "Loading" });

/** Puts two clicks into the browser's queue at once, as when a page is busy while they come. */
async function doubleClick(page: Page, target: Locator): Promise<void> {
  await target.scrollIntoViewIfNeeded();
  const { x = 0, y = 0, width = 0, height = 0 } = (await target.boundingBox()) ?? {};
  const debug = await page.context().newCDPSession(page);
  const at = { x: x + width / 2, y: y + height / 2, button: "left" } as const;
  await Promise.all(
    [1, 2].flatMap((clickCount) =>
      (["mousePressed", "mouseReleased"] as const).map((type) =>
        debug.send("Input.dispatchMouseEvent", { ...at, type, clickCount }),
      ),
    ),
  );
}

const LOOK_OF_THE_START = `(() => {
  const { textAlign, visibility } = getComputedStyle(document.querySelector(".starting"));
  return [textAlign, visibility];
})()`;

/** Answers of proxies after a time-out. */
const TIME_OUTS = [
  { contentType: "text/html", body: "<h1>Time-out</h1>" },
  { contentType: "application/json", body: '{"message":"Endpoint request timed out"}' },
  { contentType: "application/json", body: '{"error":{"code":504}}' },
  { contentType: "application/json", body: '{"status":504,"error":"Gateway Timeout"}' },
];

/** When answers take seconds or never come, the page shows that a click was heard, and does not wait for ever. */
describe.skipIf(chrome === undefined)("on a slow network", () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await openStage({ name: "slow-network", chrome });
    for (let count = 0; count < 60; count += 1) await stage.createJob({ name: `Crowd ${count}` });
  });
  afterAll(() => stage?.close());

  test("the first page says that it is coming, or that it does not", async () => {
    const { page } = await openTestWindow(stage.browser, stage.program.url);
    const code = await hold(page, "GET", "**/dashboard/assets/index-*.js");
    await page.goto("/dashboard/", { waitUntil: "commit" });
    await code.asked;
    // Its style sheet hides it at first; before that has come, the browser draws nothing.
    await expect.poll(() => page.evaluate(LOOK_OF_THE_START)).toEqual(["center", "visible"]);
    expect(await violations(page)).toEqual([]);
    code.release();
    await page.getByLabel("Email").waitFor();
    expect(await page.getByText("Loading …").count()).toBe(0);
    await page.route("**/dashboard/assets/index-*.js", (route) => route.abort());
    await page.reload();
    // In an element with the role of a status, so that a screen reader reads it out.
    await page.getByRole("status").getByText("The dashboard could not be loaded.").waitFor();
    await page.unrouteAll();
    await page.getByRole("link", { name: "Load again" }).click();
    await page.getByLabel("Email").waitFor();
  });

  test("a style that did not come is asked for again: the page does not stay without", async () => {
    const { page } = await openTestWindow(stage.browser, stage.program.url);
    let asked = 0;
    await page.route("**/dashboard/assets/*.css", async (route) => {
      asked += 1;
      await (asked === 1 ? route.fulfill({ status: 404 }) : route.continue());
    });
    await page.goto("/dashboard/");
    await page.getByLabel("Email").waitFor();
    // The rules of the page's own style sheet: while it is loaded again, others come first in the document.
    const rules = () =>
      page.evaluate("document.querySelector('link[rel=stylesheet]')?.sheet?.cssRules.length > 0");
    await expect.poll(rules, { timeout: 10_000 }).toBe(true);
    expect(asked).toBe(2);
  });

  test("the first page is still being loaded, and the program is there: it stays said", async () => {
    const { page } = await stage.openPage("");
    const code = await hold(page, "GET", "**/dashboard/assets/overview-*.js");
    await page.goto("/dashboard/", { waitUntil: "commit" });
    await code.asked;
    await waiting(page).waitFor();
    code.release();
    await heading(page, "Overview").waitFor();
    await expect.poll(() => waiting(page).count()).toBe(0);
  });

  test("a page that is still being loaded: the click was heard", async () => {
    const { page } = await stage.openPage("");
    const code = await hold(page, "GET", "**/dashboard/assets/jobs-*.js");
    await place(page, "Jobs").click();
    await code.asked;
    await waiting(page).waitFor();
    expect(await violations(page)).toEqual([]);
    code.release();
    await heading(page, "Jobs").waitFor();
    await expect.poll(() => waiting(page).count()).toBe(0);
  });

  test("rows that are not yet those asked for are known by what goes on above them", async () => {
    const { page } = await stage.openPage("jobs");
    await page.getByRole("link", { name: "Crowd 59" }).waitFor();
    const list = await hold(page, "GET", "**/dashboard/api/jobs?*offset=25");
    await button(page, "Page 2").click();
    await list.asked;
    await waiting(page).waitFor();
    list.release();
    await page.getByRole("link", { name: "Crowd 34", exact: true }).waitFor();
    await expect.poll(() => waiting(page).count()).toBe(0);
  });

  test("a double click leads two pages on", async () => {
    const { page } = await stage.openPage("jobs");
    await page.getByText("60 jobs").waitFor();
    await doubleClick(page, button(page, "next page"));
    await page.getByRole("link", { name: "Crowd 9", exact: true }).waitFor();
    expect(new URL(page.url()).search).toBe("?page=3");
  });

  test("what does not come is said once its time is over, and not asked for again before", async () => {
    const { page } = await stage.openPage("");
    await page.clock.install();
    let asked = 0;
    await page.route("**/dashboard/api/api-keys", () => {
      asked += 1;
    });
    await place(page, "API keys").click();
    await expect.poll(() => asked).toBe(1);
    await page.clock.runFor(31_000);
    await page.getByRole("alert").getByText("Carillon does not answer.").waitFor();
    expect(asked).toBe(1);
  });

  test("what is asked for again and again: that it failed stays until there is an answer", async () => {
    const { page } = await stage.openPage("");
    await page.route("**/dashboard/api/jobs?*", databaseAway);
    await page.goto("/dashboard/jobs");
    const problem = page.getByRole("alert").getByText("The database is away.");
    await problem.waitFor();
    const again = await hold(page, "GET", "**/dashboard/api/jobs?*");
    await again.asked;
    expect(await problem.count()).toBe(1);
    expect(await page.getByRole("status", { name: "Loading" }).count()).toBe(0);
    await page.unroute("**/dashboard/api/jobs?*", databaseAway);
    again.release();
    await page.getByText("60 jobs").waitFor();
    await expect.poll(() => problem.count()).toBe(0);
  });

  test.each([
    { page: "api-keys", asks: "api-keys" },
    { page: "signing-secret", asks: "signing-secret" },
    { page: "smtp", asks: "smtp" },
    { page: "accounts", asks: "accounts" },
    { page: "settings", asks: "users" },
    { page: "jobs/of-nobody/edit", asks: "jobs/of-nobody" },
    { page: "jobs/_new?from=of-nobody", asks: "jobs/of-nobody" },
  ])("what failed to load and is tried again on $page: the key was heard", async (at) => {
    const { page } = await stage.openPage("");
    const path = `**/dashboard/api/${at.asks}`;
    await page.route(path, databaseAway);
    await page.goto(`/dashboard/${at.page}`);
    const retry = button(page, "Try again");
    await retry.waitFor();
    const again = Promise.withResolvers<void>();
    await page.route(path, async (route) => {
      await again.promise;
      await route.fallback();
    });
    await retry.press("Enter");
    await expect.poll(() => retry.getAttribute("aria-disabled")).toBe("true");
    again.resolve();
    // It fails once more, and the button can be pressed again.
    await expect.poll(() => retry.getAttribute("aria-disabled")).not.toBe("true");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Try again");
    // Pressed first: the page comes back by itself, too, and then there is no button any more.
    await retry.press("Enter");
    await page.unroute(path, databaseAway);
    await expect.poll(() => page.getByText("The database is away.").count()).toBe(0);
  });

  test("rows that failed to load and are tried again: that stays said, without those before", async () => {
    const { page } = await stage.openPage("jobs");
    const before = page.getByRole("link", { name: "Crowd 59" });
    await before.waitFor();
    const second = "**/dashboard/api/jobs?*offset=25";
    await page.route(second, databaseAway);
    await button(page, "Page 2").click();
    const problem = page.getByRole("alert").getByText("The database is away.");
    await problem.waitFor();
    const again = await hold(page, "GET", second);
    await again.asked;
    await page.evaluate("new Promise((drawn) => requestAnimationFrame(drawn))");
    expect(await problem.count()).toBe(1);
    expect(await before.count()).toBe(0);
    await page.unroute(second, databaseAway);
    again.release();
    await page.getByRole("link", { name: "Crowd 34", exact: true }).waitFor();
  });

  test("what failed to load is not said of what is asked for next", async () => {
    const { page } = await stage.openPage("");
    await page.route("**/dashboard/api/jobs?*", databaseAway);
    await page.goto("/dashboard/jobs");
    const problem = page.getByRole("alert").getByText("The database is away.");
    await problem.waitFor();
    const others = await hold(page, "GET", "**/dashboard/api/jobs?*status=paused*");
    await choice(page, "Status").click();
    await page.getByRole("option", { name: "paused" }).click();
    await others.asked;
    await page.getByRole("status", { name: "Loading" }).waitFor();
    expect(await problem.count()).toBe(0);
    await page.unroute("**/dashboard/api/jobs?*", databaseAway);
    others.release();
    await page.getByText("No job matches.").waitFor();
  });

  test("who signs out and waits: the click was heard", async () => {
    const { page } = await stage.openPage("");
    const end = await hold(page, "DELETE", "**/dashboard/api/session");
    await page.getByRole("button", { name: /your user/ }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await end.asked;
    await expect.poll(() => waiting(page).count()).toBe(1);
    end.release();
    await page.getByLabel("Email").waitFor();
  });

  test("a connection that breaks behind a question: it may have been done all the same", async () => {
    const { page } = await stage.openPage("api-keys");
    await doneBut(page, "POST", "**/dashboard/api/api-keys", cutOff);
    await button(page, "Create API key").click();
    await page.getByLabel("Label").fill("done, but not heard");
    await page.keyboard.press("Enter");
    await expect
      .poll(() => dialog(page).getByRole("alert").textContent())
      .toBe("Carillon cannot be reached. Is it running? Look whether it was done all the same.");
    await page.reload();
    await page.getByText("done, but not heard").waitFor();
  });

  test("a connection that breaks behind a sign-out: who is out after all is told so only", async () => {
    const { page } = await stage.openPage("");
    await page.getByText("Next runs").waitFor();
    await doneBut(page, "DELETE", "**/dashboard/api/session", cutOff);
    await page.getByRole("button", { name: /your user/ }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.getByLabel("Email").waitFor();
    await expect
      .poll(() => page.locator(".mantine-Notification-root").allTextContents())
      .toEqual(["Your session has ended. Sign in again."]);
  });

  test("a proxy that refuses a sign-out: who is still in is told so", async () => {
    const { page } = await stage.openPage("");
    await page.route("**/dashboard/api/session", async (route) =>
      route.request().method() === "DELETE"
        ? route.fulfill({ status: 401, contentType: "text/html", body: "<h1>Sign in</h1>" })
        : route.fallback(),
    );
    await page.getByRole("button", { name: /your user/ }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.getByText("You may still be signed in").waitFor();
    expect(await page.title()).toBe("Overview · Carillon");
  });

  test.each(TIME_OUTS)("a proxy gives up, with $body: it may have been done", async (answer) => {
    const { page } = await stage.openPage("api-keys");
    const timeOut = (route: Route) => route.fulfill({ status: 504, ...answer });
    await doneBut(page, "POST", "**/dashboard/api/api-keys", timeOut);
    await button(page, "Create API key").click();
    await page.getByLabel("Label").fill("done behind a proxy");
    await page.keyboard.press("Enter");
    await expect
      .poll(() => dialog(page).getByRole("alert").textContent())
      .toBe("The server answered 504. Look whether it was done all the same.");
  });

  test("whoever looks whether it was done sees how it is now", async () => {
    const { page } = await stage.openPage("signing-secret");
    await doneBut(page, "POST", "**/dashboard/api/signing-secret/rotate", cutOff);
    await button(page, "Rotate the secret").click();
    await button(page, "Rotate").click();
    await dialog(page).getByText("Look whether it was done all the same.").waitFor();
    await button(page, "Cancel").click();
    const secrets = page.getByText(/secrets sign at the moment/);
    await expect.poll(() => secrets.textContent()).toMatch(/^2 /);
  });

  test("a connection that breaks behind a new job: pressing again makes no second one", async () => {
    const { page } = await stage.openPage("jobs/_new");
    let tries = 0;
    await page.route("**/dashboard/api/jobs", async (route) => {
      if (route.request().method() !== "POST") return route.fallback();
      tries += 1;
      const response = await route.fetch();
      return tries === 1 ? route.abort("connectionreset") : route.fulfill({ response });
    });
    await page.getByLabel("Name").fill("Made once");
    await page.getByLabel("URL").fill("https://example.com/once");
    await button(page, "Create job").click();
    await page.getByRole("alert").getByText("cannot be reached").waitFor();
    await button(page, "Create job").click();
    await heading(page, "Made once").waitFor();
    expect(tries).toBe(2);
    const jobs = (await stage.rest({ path: "/jobs" })).body as { id: string; name: string }[];
    const made = jobs.filter(({ name }) => name === "Made once");
    expect(made).toHaveLength(1);
    for (const { id } of made) await stage.rest({ method: "DELETE", path: `/jobs/${id}` });
  });

  test("a number that was refused is not corrected while the button is pressed that saves it", async () => {
    const { page } = await stage.openPage("jobs/_new");
    const create = button(page, "Create job");
    const retries = page.getByLabel("Retries", { exact: true });
    await page.getByLabel("Name").fill("Refused");
    await page.getByLabel("URL").fill("https://example.com/refused");
    await button(page, "Retries, overlaps and deadlines").click();
    await retries.fill("0099");
    await retries.press("Enter");
    await page.getByRole("alert").getByText("Retries: must").waitFor();
    await create.hover();
    // A button at the form's end moves with the height of the form, which is compared.
    const form = page.locator("form");
    const before = await form.boundingBox();
    await page.mouse.down();
    expect(await form.boundingBox()).toEqual(before);
    const saved = page.waitForRequest("**/dashboard/api/jobs");
    await page.mouse.up();
    expect((await saved).postDataJSON()).toMatchObject({ max_retries: 99 });
  });

  test("how one can sign in is asked again by whoever wants to, and what was typed stays", async () => {
    const { page } = await openTestWindow(stage.browser, stage.program.url);
    await page.route("**/dashboard/api/sign-in", cutOff);
    await page.goto("/dashboard/");
    await page.getByLabel("Email").fill("ada@example.com");
    await page.getByRole("alert").getByText("Carillon cannot be reached.").waitFor();
    const options = await hold(page, "GET", "**/dashboard/api/sign-in");
    await page.unroute("**/dashboard/api/sign-in", cutOff);
    await button(page, "Try again").click();
    await options.asked;
    expect(await page.getByLabel("Email").inputValue()).toBe("ada@example.com");
    options.release();
    await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  });
});
