import type { Page, Route } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findChrome } from "./chrome.ts";
import { databaseAway } from "./outages.ts";
import { openWindow, show, signIn, type Owner } from "./owner.ts";
import { hold } from "./held.ts";
import { button, choice, copied, heading, place } from "./locators.ts";
import { openStage, type Stage } from "./stage.ts";

const chrome = findChrome();
const PASSWORD = "a very good password";

const field = (page: Page, name: string) => page.getByRole("textbox", { name, exact: true });

/** The user comes back to the tab: the page asks who is signed in. */
const lookAt = (page: Page) => show(page, "visible");

async function enter(page: Page, { email, password }: Owner): Promise<void> {
  await field(page, "Email").fill(email);
  await page.locator("input[name=password]").fill(password);
  await button(page, "Sign in").click();
}

/** The session ends with the next request `method path`, whose answer arrives only with `release`. */
async function endWith(page: Page, method: string, path: string) {
  const held = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  let first = true;
  await page.route(path, async (route: Route) => {
    if (!first || route.request().method() !== method) return route.fallback();
    first = false;
    await page.context().clearCookies();
    const { cookie: _, ...headers } = route.request().headers();
    const response = await route.fetch({ headers });
    expect(response.status()).toBe(401);
    held.resolve();
    await released.promise;
    await route.fulfill({ response });
    arrived.resolve();
  });
  return {
    held: held.promise,
    async release(): Promise<void> {
      released.resolve();
      await arrived.promise;
      // The answer to a later request has come: the page has handled both.
      await page.evaluate(`fetch("/dashboard/api/session").then((answer) => answer.text())`);
    },
  };
}

/** What the page learns of who is signed in, whatever its network and its clock do. */
describe.skipIf(chrome === undefined)("a session that ends", () => {
  let stage: Stage;
  let owner: Owner;
  let other: Owner;
  let job: string;
  beforeAll(async () => {
    stage = await openStage({ name: "session", chrome });
    ({ owner } = stage);
    job = await stage.createJob({
      name: "Kept",
      webhook_headers: { Authorization: "Bearer saved" },
    });
    other = { email: "other@example.com", password: PASSWORD };
    const { page } = await openWindow(stage.browser, stage.program.url);
    await signIn(page, owner);
    await page.goto("/dashboard/settings");
    await button(page, "Invite").click();
    await field(page, "Email").fill(other.email);
    await page.getByRole("dialog").getByRole("button", { name: "Invite" }).click();
    await page.goto(await copied(page, "Copy the link"));
    await page.locator("input[type=password]").fill(PASSWORD);
    await button(page, "Accept and sign in").click();
    await heading(page, "Overview").waitFor();
  });
  afterAll(() => stage?.close());

  const open = (path: string) => stage.openPage(path);
  /**
   * Opens a form that has sent all requests that it sends by itself: only the next action finds out that the session
   * has ended.
   */
  const openForm = async (path: string) => {
    const opened = await open(path);
    await opened.page.getByText("At 03:00, every day").waitFor();
    return opened;
  };

  test("is said, also when the page only looked", async () => {
    const { context, page } = await open("jobs/_new");
    await context.clearCookies();
    await lookAt(page);
    await page.getByRole("alert").filter({ hasText: "Your session has ended." }).waitFor();
    expect(await page.title()).toBe("Sign in · Carillon");
  });

  test("does not end the next one: an answer to who was signed in comes late", async () => {
    const { page } = await openForm("jobs/_new");
    const session = await endWith(page, "GET", "**/dashboard/api/session");
    await lookAt(page);
    await session.held;
    await field(page, "Name").fill("Too late");
    await enter(page, owner);
    await heading(page, "Create a job").waitFor();
    await session.release();
    await expect.poll(() => heading(page, "Create a job").count()).toBe(1);
    await field(page, "Name").fill("In time");
    expect(await page.title()).toBe("Create a job · Carillon");
    expect(await page.getByText("Your session has ended.").count()).toBe(0);
  });

  test("does not end the next one: an answer to what was clicked comes late", async () => {
    const { page } = await open(`jobs/${job}`);
    const run = await endWith(page, "POST", "**/run");
    await button(page, "Run now").click();
    await run.held;
    await lookAt(page);
    await enter(page, owner);
    await heading(page, "Kept").waitFor();
    await run.release();
    await page.getByRole("link", { name: "Jobs", exact: true }).first().click();
    await heading(page, "Jobs").waitFor();
    expect(await page.getByText("Your session has ended.").count()).toBe(0);
  });

  test("is not said when a proxy asks for a sign-in of its own: the page stays", async () => {
    const { page } = await openForm("jobs/_new");
    await field(page, "Name").fill("Half of it");
    let asked = 0;
    await page.route("**/dashboard/api/session", async (route) => {
      asked += 1;
      await route.fulfill({ status: 401, contentType: "text/html", body: "<h1>Sign in</h1>" });
    });
    await lookAt(page);
    await expect.poll(() => asked).toBeGreaterThan(1);
    expect(await field(page, "Name").inputValue()).toBe("Half of it");
    expect(await page.getByText("Your session has ended.").count()).toBe(0);
  });

  test("who is signed in cannot be asked for a moment: the page stays", async () => {
    const { page } = await openForm("jobs/_new");
    await field(page, "Name").fill("Half of it");
    let asked = 0;
    await page.route("**/dashboard/api/session", async (route) => {
      asked += 1;
      await databaseAway(route);
    });
    await lookAt(page);
    await expect.poll(() => asked).toBe(3);
    await page.evaluate("new Promise((done) => requestAnimationFrame(done))");
    expect(await field(page, "Name").inputValue()).toBe("Half of it");
  });

  test("what was typed is there again for the same user, but for headers", async () => {
    const { context, page } = await openForm("jobs/_new");
    await field(page, "Name").fill("Half of it");
    await button(page, "Add a header").click();
    await page.getByLabel("Header 1 name").fill("Authorization");
    await page.getByLabel("Header 1 value").fill("Bearer secret");
    await field(page, "URL").fill("https://example.com/half");
    await context.clearCookies();
    await lookAt(page);
    await enter(page, owner);
    await page.getByText("What you typed is here again").waitFor();
    expect(await field(page, "Name").inputValue()).toBe("Half of it");
    expect(await field(page, "URL").inputValue()).toBe("https://example.com/half");
    expect(await page.getByLabel("Header 1 value").count()).toBe(0);
  });

  test("what was typed is there again for who left the page, until it is not wanted or saved", async () => {
    const { page } = await openForm("jobs/_new");
    const leave = () => page.getByRole("link", { name: "← Jobs" }).click();
    const comeBack = () => page.getByRole("link", { name: "Create job" }).click();
    const again = page.getByText("What you typed is here again");
    await field(page, "Name").fill("Half of it");
    await leave();
    await comeBack();
    await again.waitFor();
    expect(await field(page, "Name").inputValue()).toBe("Half of it");
    await button(page, "Start afresh").click();
    expect(await field(page, "Name").inputValue()).toBe("");
    expect(await again.count()).toBe(0);
    await leave();
    await comeBack();
    await field(page, "Name").fill("All of it");
    expect(await again.count()).toBe(0);
    await field(page, "URL").fill("https://example.com/all");
    await button(page, "Create job").click();
    await heading(page, "All of it").waitFor();
    await page.getByRole("link", { name: "Jobs", exact: true }).first().click();
    await comeBack();
    await heading(page, "Create a job").waitFor();
    expect(await field(page, "Name").inputValue()).toBe("");
  });

  test("who closes the page with something typed is asked first", async () => {
    const { page } = await openForm("jobs/_new");
    const asked: string[] = [];
    page.on("dialog", (dialog) => {
      asked.push(dialog.type());
      void dialog.accept();
    });
    await page.reload();
    await page.getByText("At 03:00, every day").waitFor();
    expect(asked).toEqual([]);
    await field(page, "Name").fill("Half of it");
    await page.reload();
    expect(asked).toEqual(["beforeunload"]);
  });

  test("an edit goes on with what was changed, and changes nothing else", async () => {
    const { context, page } = await openForm(`jobs/${job}/edit`);
    await field(page, "Name").fill("Kept, renamed");
    await context.clearCookies();
    await lookAt(page);
    await enter(page, owner);
    await page.getByText("What you typed is here again").waitFor();
    const sent = page.waitForRequest((request) => request.method() === "PATCH");
    await button(page, "Save").click();
    expect((await sent).postDataJSON()).toEqual({ name: "Kept, renamed" });
    await heading(page, "Kept, renamed").waitFor();
  });

  test("who only looks among the providers of SMTP has typed nothing that is there again", async () => {
    const { page } = await open("smtp");
    await choice(page, "Provider").fill("Res");
    await page.getByRole("option", { name: "Resend" }).waitFor();
    await place(page, "Jobs").click();
    await heading(page, "Jobs").waitFor();
    await place(page, "SMTP").click();
    await page.getByLabel("Host").waitFor();
    expect(await page.getByText("What you typed is here again").count()).toBe(0);
  });

  test("settings of SMTP that were typed are there again for the same user, but for the password", async () => {
    const { context, page } = await open("smtp");
    const from = field(page, "From address");
    const saved = await from.inputValue();
    await field(page, "Host").fill("half.example.com");
    await page.locator("input[type=password]").fill("secret");
    await from.fill("half@example.com");
    await context.clearCookies();
    await lookAt(page);
    await enter(page, owner);
    const again = page.getByText("What you typed is here again");
    await again.waitFor();
    expect(await field(page, "Host").inputValue()).toBe("half.example.com");
    expect(await from.inputValue()).toBe("half@example.com");
    expect(await page.locator("input[type=password]").inputValue()).toBe("");
    await button(page, "Start afresh").click();
    await again.waitFor({ state: "detached" });
    expect(await from.inputValue()).toBe(saved);
    await from.fill("whole@example.com");
    await button(page, "Save").click();
    await page.getByText("SMTP settings saved").waitFor();
    // Nothing that was saved is kept as unsaved.
    await page.getByRole("link", { name: "Jobs", exact: true }).first().click();
    await heading(page, "Jobs").waitFor();
    await page.getByRole("link", { name: "SMTP", exact: true }).click();
    await from.waitFor();
    expect(await from.inputValue()).toBe("whole@example.com");
    expect(await again.count()).toBe(0);
  });

  test.each([
    {
      path: "api-keys",
      title: "API keys",
      opener: "Create API key",
      fields: { Label: "half a label" },
    },
    {
      path: "settings",
      title: "Settings",
      opener: "Invite",
      fields: { Email: "half@example.com" },
    },
    {
      path: "accounts",
      title: "Accounts",
      opener: "Create account",
      fields: { Name: "half", "Owner's email": "half@example.com" },
    },
  ])(
    "a dialog with something typed is open again on $path",
    async ({ path, title, opener, fields }) => {
      const { context, page } = await open(path);
      const dialog = page.getByRole("dialog");
      const typed = Object.entries(fields);
      await button(page, opener).click();
      for (const [name, text] of typed)
        await dialog.getByRole("textbox", { name, exact: true }).fill(text);
      await context.clearCookies();
      await lookAt(page);
      await enter(page, owner);
      await dialog.waitFor();
      for (const [name, text] of typed)
        expect(await dialog.getByRole("textbox", { name, exact: true }).inputValue()).toBe(text);
      // Whoever closes it does not want it any more.
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
      await expect.poll(() => heading(page, title).and(page.locator(":focus")).count()).toBe(1);
      await page.getByRole("link", { name: "Jobs", exact: true }).first().click();
      await heading(page, "Jobs").waitFor();
      await page.goBack();
      await button(page, opener).click();
      for (const [name] of typed)
        expect(await dialog.getByRole("textbox", { name, exact: true }).inputValue()).toBe("");
    },
  );

  test("a dialog is not open again when what was typed into it has been made", async () => {
    const { context, page } = await open("api-keys");
    await button(page, "Create API key").click();
    await field(page, "Label").fill("made");
    await button(page, "Create").click();
    await button(page, "Copy the key").waitFor();
    await context.clearCookies();
    await lookAt(page);
    await enter(page, owner);
    await button(page, "Delete the key made").waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
  });

  test("settings that were typed are there again for the same user, but for passwords", async () => {
    const { context, page } = await open("settings");
    const days = field(page, "Days to keep executions and the email log");
    const again = page.getByText("What you typed is here again.");
    const endSession = async () => {
      await days.fill("30");
      await page.getByLabel("New password").fill("a secret to keep");
      await context.clearCookies();
      await lookAt(page);
      await enter(page, owner);
      await again.waitFor();
    };
    await endSession();
    expect(await days.inputValue()).toBe("30");
    expect(await page.getByLabel("New password").inputValue()).toBe("");
    await button(page, "Start afresh").click();
    await again.waitFor({ state: "detached" });
    expect(await days.inputValue()).toBe("");
    await endSession();
    const sent = page.waitForRequest((request) => request.method() === "PATCH");
    await button(page, "Save").click();
    expect((await sent).postDataJSON()).toEqual({ retention_days: 30 });
    await page.getByText("Settings saved").waitFor();
    await again.waitFor({ state: "detached" });
  });

  test.each([
    { what: "another user", signsOut: false, as: () => other },
    { what: "whoever signs in after somebody signed out", signsOut: true, as: () => owner },
  ])("nothing that was typed is there for $what", async ({ signsOut, as }) => {
    const { context, page } = await openForm("jobs/_new");
    await field(page, "Name").fill("Half of it");
    if (signsOut) {
      await page.getByRole("button", { name: /your user/ }).click();
      await page.getByRole("menuitem", { name: "Sign out" }).click();
    } else {
      await context.clearCookies();
      await lookAt(page);
    }
    await enter(page, as());
    await heading(page, "Create a job").waitFor();
    expect(await field(page, "Name").inputValue()).toBe("");
  });

  test("is not there again when an answer to it comes late", async () => {
    const { page } = await open("settings");
    const save = await hold(page, "PATCH", "**/dashboard/api/account", "answer");
    await field(page, "Days to keep executions and the email log").fill("80");
    await button(page, "Save").click();
    await save.asked;
    await page.getByRole("button", { name: /your user/ }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await enter(page, other);
    await button(page, "other: your user").waitFor();
    save.release();
    await page.getByText("Settings saved").waitFor();
    await page.evaluate("new Promise((done) => requestAnimationFrame(done))");
    expect(await button(page, "other: your user").count()).toBe(1);
  });
});
