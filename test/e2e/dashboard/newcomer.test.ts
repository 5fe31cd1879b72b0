import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../../until.ts";
import { call, type Standalone } from "../program.ts";
import type { Receiver } from "../../receiver.ts";
import { findChrome } from "./chrome.ts";
import { copied } from "./locators.ts";
import { databaseAway } from "./outages.ts";
import { openWindow, PHONE, DESKTOP, signIn, type Owner } from "./owner.ts";
import { openStage, type Stage } from "./stage.ts";

const chrome = findChrome();

/** The steps run in the order in which a newcomer takes them; each builds on those before. */
describe.skipIf(chrome === undefined).each([
  { name: "desktop", view: DESKTOP },
  { name: "phone", view: PHONE },
])("a newcomer on a $name", ({ view }) => {
  let stage: Stage;
  let program: Standalone;
  let receiver: Receiver;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  let complaints: string[];
  let owner: Owner;
  let key: string;
  beforeAll(async () => {
    stage = await openStage({ name: "newcomer", chrome });
    ({ program, owner, receiver, browser } = stage);
    ({ context, page, complaints } = await openWindow(browser, program.url, { view }));
  });
  afterAll(() => stage?.close());

  async function go(place: string): Promise<void> {
    const burger = page.getByRole("button", { name: "Open the navigation" });
    if (view === PHONE) await burger.click();
    await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: place }).click();
    await page.getByRole("heading", { level: 1, name: place }).waitFor();
  }
  const button = (name: string | RegExp) => page.getByRole("button", { name });
  /** The page behind the dialog has a button of almost the same name, which would be found before the dialog opens. */
  const inDialog = (name: string) => page.getByRole("dialog").getByRole("button", { name });
  const toast = (text: string) => page.getByText(text).first().waitFor();
  /** What is shown only once must not be closed by a key or a click by mistake. */
  const hitEscapeAndBeside = async () => {
    await page.keyboard.press("Escape");
    await page.mouse.click(3, view.height / 2);
  };

  test("signs in with what the start printed, and not with anything else", async () => {
    await page.goto(`${program.printed("Dashboard")}`);
    await page.getByLabel("Email").fill(owner.email);
    await page.locator("input[name=password]").fill("not the password");
    await button("Sign in").click();
    await page.getByRole("alert").getByText("The address or the password is wrong.").waitFor();
    await signIn(page, owner);
    // The heading is there before the overview's data.
    const steps = page.getByText("First steps");
    await expect.poll(() => steps.isVisible()).toBe(true);
  });

  test("creates an API key, which is shown once and works", async () => {
    await go("API keys");
    await button("Create API key").click();
    await page.getByLabel("Label").fill("my first program");
    await inDialog("Create").click();
    await button("Copy the key").waitFor();
    await hitEscapeAndBeside();
    key = await copied(page, "Copy the key");
    expect(key).toMatch(/^svc_live_/);
    await page.getByRole("region", { name: "Example" }).getByText(key).waitFor();
    await button("Done").click();
    await page.getByText("my first program").waitFor();
    expect(await page.content()).not.toContain(key);
    expect((await call(program.url, { key, path: "/jobs" })).status).toBe(200);
  });

  test("tests the SMTP settings, sees the conversation when they are wrong, and saves them", async () => {
    await go("SMTP");
    const from = page.getByLabel("From address");
    await from.fill("hello@example.com");
    await button("Send a test").click();
    await page.getByText("The server accepted the mail.").waitFor();
    await page
      .getByRole("textbox", { name: "Encryption" })
      .or(page.getByRole("combobox", { name: "Encryption" }))
      .first()
      .click();
    await page.getByRole("option", { name: /STARTTLS/ }).click();
    await button("Send a test").click();
    await page
      .getByRole("region", { name: "SMTP transcript" })
      .getByText(/S: 220/)
      .waitFor();
    await page
      .getByRole("textbox", { name: "Encryption" })
      .or(page.getByRole("combobox", { name: "Encryption" }))
      .first()
      .click();
    await page.getByRole("option", { name: /None/ }).click();
    await button("Save").click();
    await toast("SMTP settings saved");
    expect(await page.getByLabel("From address").inputValue()).toBe("hello@example.com");
  });

  test("creates a job that says in words when it runs, and watches it run", async () => {
    await go("Jobs");
    await page.getByRole("link", { name: "Create job" }).first().click();
    await page.getByLabel("Name").fill("Order <b>coffee</b> ☕");
    await page.getByLabel("URL").fill("ftp://example.com");
    await page.getByText("must be an http or https URL").waitFor();
    await page.getByLabel("URL").fill(`${receiver.url}/coffee`);
    await page.getByLabel("Payload").fill('{"cups": 2');
    await page
      .getByText(/is not JSON/)
      .first()
      .waitFor();
    await page.getByLabel("Payload").fill('{"cups": 2}');
    await page.getByLabel("Cron expression").fill("30 2 * * *");
    await page.getByText("At 02:30, every day").waitFor();
    await button("Create job").click();
    await page.getByRole("heading", { level: 1, name: "Order <b>coffee</b> ☕" }).waitFor();
    await page.getByText("It has not run yet.").waitFor();
    await button("Run now").click();
    await page.getByText("success", { exact: true }).first().waitFor();
    const [received] = receiver.received;
    expect(JSON.parse(received?.body ?? "")).toEqual({ cups: 2 });
  });

  test("pauses, resumes, changes, duplicates and copies the job", async () => {
    await button("Pause").click();
    await button("Resume").click();
    await button("Pause").waitFor();
    await page.getByRole("link", { name: "Edit" }).click();
    await page.getByRole("heading", { level: 1, name: /^Edit/ }).waitFor();
    await page.getByLabel("Name").fill("Order tea");
    await button("Save").click();
    await page.getByRole("heading", { level: 1, name: "Order tea" }).waitFor();
    await button("More actions").click();
    await page.getByRole("menuitem", { name: "Copy as ScheduledJob YAML" }).click();
    await toast("YAML copied");
    const yaml = (await page.evaluate("navigator.clipboard.readText()")) as string;
    expect(yaml).toContain("kind: ScheduledJob");
    expect(yaml).toContain("displayName: Order tea");
    await button("More actions").click();
    await page.getByRole("menuitem", { name: "Duplicate" }).click();
    await page.getByRole("heading", { level: 1, name: "Create a job" }).waitFor();
    const name = page.getByLabel("Name");
    await expect.poll(() => name.inputValue()).toBe("Order tea (copy)");
    await button("Create job").click();
    await page.getByRole("heading", { level: 1, name: "Order tea (copy)" }).waitFor();
  });

  test("renames a job that runs once, which keeps its time to the millisecond", async () => {
    const runAt = `${new Date(Date.now() + 86_400_000).toISOString().slice(0, 19)}.123Z`;
    const made = await call(program.url, {
      key,
      method: "POST",
      path: "/jobs",
      body: {
        name: "Launch",
        type: "webhook",
        schedule_type: "one_time",
        run_at: runAt,
        webhook_url: `${receiver.url}/launch`,
        webhook_payload: { stage: 1 },
      },
    });
    const { id } = made.body as { id: string };
    const saved = async () => (await call(program.url, { key, path: `/jobs/${id}` })).body;
    await page.goto(`/dashboard/jobs/${id}/edit`);
    const name = page.getByLabel("Name");
    await expect.poll(() => name.inputValue()).toBe("Launch");
    // Changes that somebody else saves while the form is open stay, too.
    await call(program.url, {
      key,
      method: "PATCH",
      path: `/jobs/${id}`,
      body: { max_retries: 3 },
    });
    await name.fill("Lift-off");
    await button("Save").click();
    await page.getByRole("heading", { level: 1, name: "Lift-off" }).waitFor();
    expect(await saved()).toMatchObject({ name: "Lift-off", run_at: runAt, max_retries: 3 });
    await page.getByRole("link", { name: "Edit" }).click();
    await button("Save").click();
    await toast("Nothing was changed");
    await call(program.url, { key, method: "DELETE", path: `/jobs/${id}` });
  });

  test("finds jobs, pauses several at once, and deletes one", async () => {
    await go("Jobs");
    await page.getByLabel("Search").fill("(copy)");
    await page.getByText("1 job", { exact: true }).waitFor();
    await page.getByLabel("Search").fill("");
    await page.getByText("2 jobs", { exact: true }).waitFor();
    await page
      .getByLabel(/^Select Order tea/)
      .first()
      .check();
    await page
      .getByLabel(/^Select Order tea/)
      .last()
      .check();
    await button("Pause").click();
    await toast("2 jobs paused");
    await page.getByRole("link", { name: "Order tea (copy)" }).click();
    await button("More actions").click();
    await page.getByRole("menuitem", { name: /Delete/ }).click();
    await button("Delete the job").click();
    await page.getByText("1 job", { exact: true }).waitFor();
    expect(await page.getByRole("link", { name: "Order tea (copy)" }).count()).toBe(0);
  });

  test("finds the mail in the log, without reloading", async () => {
    await go("Email log");
    await page.getByText("No email yet").waitFor();
    const sent = await call(program.url, {
      key,
      method: "POST",
      path: "/send",
      body: { to: "ada@example.com", subject: "<img src=x onerror=alert(1)>", body: "Hello" },
    });
    expect(sent.status).toBe(200);
    await page.getByText("<img src=x onerror=alert(1)>").waitFor();
    await page.getByText("ada@example.com").waitFor();
  });

  test("shows, rotates and verifies with the signing secret", async () => {
    await go("Webhook signing");
    await button("Show").click();
    const secret = page.getByRole("region", { name: "Signing secret" });
    const before = await secret.innerText();
    await button("Rotate the secret").click();
    await inDialog("Rotate").click();
    await page.getByText("2 secrets sign at the moment").waitFor();
    expect(await secret.innerText()).toContain(before);
  });

  test("invites a colleague, who becomes a member", async () => {
    await go("Settings");
    await button("Invite").click();
    await page.getByRole("textbox", { name: "Email", exact: true }).fill("colleague@example.com");
    await inDialog("Invite").click();
    await button("Copy the link").waitFor();
    await hitEscapeAndBeside();
    const link = await copied(page, "Copy the link");
    await button("Done").click();
    const guest = await openWindow(browser, program.url, { view });
    await guest.page.goto(link);
    await guest.page.getByText("colleague@example.com").waitFor();
    await guest.page.locator("input[type=password]").fill("a very good password");
    await guest.page.getByRole("button", { name: "Accept and sign in" }).click();
    const overview = guest.page.getByRole("heading", { level: 1, name: "Overview" });
    await expect.poll(() => overview.and(guest.page.locator(":focus")).count()).toBe(1);
    await guest.page.goto("/dashboard/api-keys");
    await guest.page.getByText("my first program").waitFor();
    expect(await guest.page.getByRole("button", { name: "Create API key" }).count()).toBe(0);
    expect(guest.complaints).toEqual([]);
    await guest.context.close();
  });

  test("deletes the key, which stops working", async () => {
    await go("API keys");
    await button("Delete the key my first program").click();
    await inDialog("Delete the key").click();
    await until("the key is gone", async () =>
      (await page.getByText("my first program").count()) === 0 ? true : undefined,
    );
    expect((await call(program.url, { key, path: "/jobs" })).status).toBe(401);
  });

  const SESSION = "**/dashboard/api/session";
  test.each([
    {
      what: "there is no network",
      begin: () => context.setOffline(true),
      end: () => context.setOffline(false),
      said: "Carillon cannot be reached.",
    },
    {
      what: "the server cannot do it",
      begin: () =>
        page.route(SESSION, async (route) =>
          route.request().method() === "DELETE" ? databaseAway(route) : route.continue(),
        ),
      end: () => page.unroute(SESSION),
      said: "The database is away.",
    },
  ])("is told that signing out did not work when $what", async ({ begin, end, said }) => {
    await begin();
    await button(/your user/).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    const alert = page.getByRole("alert").filter({ hasText: said });
    await alert.getByText("You may still be signed in").waitFor();
    await end();
    expect((await context.request.get("/dashboard/api/session")).status()).toBe(200);
    await go("Jobs");
  });

  test("signs out, and is out", async () => {
    await button(/your user/).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await button("Sign in").waitFor();
    await expect.poll(() => page.getByText("You may still be signed in").count()).toBe(0);
    await page.goto("/dashboard/jobs");
    await button("Sign in").waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });
});
