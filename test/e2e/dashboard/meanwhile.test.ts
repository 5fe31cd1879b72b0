import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { startReceiver } from "../../receiver.ts";
import { findChrome } from "./chrome.ts";
import { hold } from "./held.ts";
import { button, choice, dialog, heading, place } from "./locators.ts";
import { databaseAway, noWayThere } from "./outages.ts";
import { openStage, type Stage } from "./stage.ts";

const chrome = findChrome();

/**
 * Does the steps right after each other, as events come on a busy machine: React has no time in between for what can
 * wait.
 */
const hurry = (page: Page, ...steps: string[]) =>
  page.evaluate(`(async () => {
    const named = (selector, text) =>
      [...document.querySelectorAll(selector)].find((each) => each.textContent === text);
    const type = (label, text) => {
      const box = document.querySelector("[aria-label=" + label + "]");
      box.focus();
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(box, text);
      box.dispatchEvent(new Event("input", { bubbles: true }));
    };
    const steps = [${steps.map((step) => `() => ${step}`).join(", ")}];
    for (const step of steps) await scheduler.postTask(step, { priority: "user-blocking" });
  })()`);

/** The second click of a double click, on whatever is there by then. */
async function clickAgain(page: Page): Promise<void> {
  await page.mouse.down({ clickCount: 2 });
  await page.mouse.up({ clickCount: 2 });
  await page.evaluate(
    `new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))`,
  );
}

/** URL of a receiver, for the test under way, that answers with this status. */
async function receiverThatAnswers(status: number): Promise<string> {
  const receiver = await startReceiver((_, response) => response.writeHead(status).end());
  onTestFinished(() => receiver.close());
  return `${receiver.url}/`;
}

/** The user goes on while an answer is under way, or before the effect of a click is shown. */
describe.skipIf(chrome === undefined)("what somebody does meanwhile", () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await openStage({ name: "meanwhile", chrome });
  });
  afterAll(() => stage?.close());

  const open = (path: string) => stage.openPage(path);
  const createJob = (name: string) => stage.createJob({ name });

  test("a job that is saved while another page is loaded does not keep from that page", async () => {
    const { page } = await open(`jobs/${await createJob("Saved")}/edit`);
    const save = await hold(page, "PATCH", "**/dashboard/api/jobs/*");
    const code = await hold(page, "GET", "**/assets/api-keys-*.js");
    await page.getByLabel("Name").fill("Saved, renamed");
    await button(page, "Save").click();
    await save.asked;
    await place(page, "API keys").click();
    await code.asked;
    save.release();
    await page.getByText("Job saved").waitFor();
    code.release();
    await heading(page, "API keys").waitFor();
    expect(new URL(page.url()).pathname).toBe("/dashboard/api-keys");
  });

  test("that a job was not saved is said to whoever is on the way to another page", async () => {
    const id = await createJob("Never saved");
    const { page } = await open(`jobs/${id}/edit`);
    const save = await hold(page, "PATCH", "**/dashboard/api/jobs/*");
    const code = await hold(page, "GET", "**/assets/api-keys-*.js");
    await page.getByLabel("Name").fill("Never saved, renamed");
    await button(page, "Save").click();
    await save.asked;
    await place(page, "API keys").click();
    await code.asked;
    await stage.rest({ method: "DELETE", path: `/jobs/${id}` });
    save.release();
    await page.getByText("“Never saved, renamed” was not saved").waitFor();
    code.release();
    await heading(page, "API keys").waitFor();
    expect(await page.getByText("“Never saved, renamed” was not saved").count()).toBe(1);
  });

  test("a job that somebody else deletes keeps its history, and offers nothing more to do", async () => {
    const webhook_url = await receiverThatAnswers(410);
    const id = await stage.createJob({ name: "Deleted elsewhere", webhook_url });
    const { page } = await open(`jobs/${id}`);
    await button(page, "Run now").click();
    await page.getByText("no scheduled run starts").waitFor();
    await stage.rest({ method: "DELETE", path: `/jobs/${id}` });
    await button(page, "Run now").waitFor({ state: "detached" });
    const executions = page.getByRole("heading", { name: "Executions" });
    await page.getByText("This job was deleted.").waitFor();
    await executions.waitFor();
    expect(await button(page, "More actions").count()).toBe(0);
    expect(await page.getByText("no scheduled run starts").count()).toBe(0);
    // Also for whoever comes later.
    await page.reload();
    await page.getByText("This job was deleted.").waitFor();
    await page.getByText("status 410").waitFor();
    expect(await executions.count()).toBe(1);
  });

  test("that runs wait for a receiver that keeps failing is said on the page of their job", async () => {
    const webhook_url = await receiverThatAnswers(503);
    const id = await stage.createJob({ name: "Of a failing receiver", webhook_url });
    const { page } = await open(`jobs/${id}`);
    await button(page, "Run now").waitFor();
    expect(await page.getByText("keeps failing").count()).toBe(0);
    for (let n = 0; n < 5; n += 1) await stage.rest({ method: "POST", path: `/jobs/${id}/run` });
    await page.getByText("(its circuit is open)").waitFor();
    await page.getByText("one that has waited for 3600 s fails").waitFor();
  });

  test("a run that waits for its retry is not said to come now", async () => {
    const id = await stage.createJob({
      name: "Tried again later",
      schedule_type: "one_time",
      cron_expression: undefined,
      run_at: new Date().toISOString(),
      webhook_url: await receiverThatAnswers(503),
      max_retries: 1,
      min_backoff_seconds: 3_600,
    });
    const { page } = await open(`jobs/${id}`);
    await page.getByText("the receiver answered 503").waitFor();
    const next = page.getByText("Next run", { exact: true }).locator("xpath=following-sibling::*");
    expect(await next.textContent()).toBe("none: its run is not over yet");
  });

  test("a job that a proxy does not find for a moment is not called deleted", async () => {
    const { page } = await open(`jobs/${await createJob("Behind a proxy")}`);
    await page.route("**/dashboard/api/jobs/*", noWayThere);
    await page.getByRole("alert").getByText("The server answered 404.").waitFor();
    expect(await page.getByText("This job was deleted.").count()).toBe(0);
    expect(await button(page, "Run now").count()).toBe(1);
  });

  test("a double click makes one job", async () => {
    const { page } = await open("jobs/_new");
    let asked = 0;
    await page.route("**/dashboard/api/jobs", async (route) => {
      asked += 1;
      await route.continue();
    });
    await page.getByLabel("Name").fill("Once");
    await page.getByLabel("URL").fill("https://example.com/once");
    const click = `named("button", "Create job").click()`;
    await hurry(page, click, click);
    await heading(page, "Once").waitFor();
    expect(asked).toBe(1);
  });

  test("a double click does once what a button does, and leaves what it opens", async () => {
    const id = await createJob("Double-clicked");
    const { page } = await open(`jobs/${id}`);
    const asked: string[] = [];
    page.on("request", (request) => {
      const path = new URL(request.url()).pathname.split(`/jobs/${id}/`)[1];
      if (request.method() === "POST" && path !== undefined) asked.push(path);
    });
    await button(page, "Run now").click();
    await page.getByText("Run queued").waitFor();
    await expect.poll(() => button(page, "Run now").getAttribute("aria-disabled")).toBe("false");
    await clickAgain(page);
    await button(page, "Pause").click();
    await button(page, "Resume").waitFor();
    await clickAgain(page);
    expect(asked).toEqual(["run", "pause"]);
    await place(page, "API keys").click();
    await button(page, "Create API key").click();
    await dialog(page).waitFor();
    await clickAgain(page);
    expect(await dialog(page).count()).toBe(1);
    await page.mouse.click(5, 5);
    await dialog(page).waitFor({ state: "detached" });
  });

  test("what is answered while a button is pressed moves it only when it is up", async () => {
    const { page } = await open("jobs/_new");
    await page.getByText("Once", { exact: true }).click();
    await page.getByText("appear here").waitFor();
    const check = await hold(page, "POST", "**/jobs/check", "answer");
    for (const name of ["Nameless", ""]) await page.getByLabel("Name").fill(name);
    await page.getByLabel("URL").fill("no URL");
    await check.asked;
    const create = button(page, "Create job");
    // A button at the form's end moves with the height of the form, which is compared.
    const form = page.locator("form");
    const before = await form.boundingBox();
    await create.hover();
    await page.mouse.down();
    const answer = page.waitForResponse("**/jobs/check");
    check.release();
    await (await answer).finished();
    // Two frames have been drawn after a later answer has come.
    await page.evaluate(`fetch("/healthz").then(() => new Promise((drawn) =>
      requestAnimationFrame(() => requestAnimationFrame(drawn))))`);
    expect(await form.boundingBox()).toEqual(before);
    await page.mouse.up();
    await page.getByRole("alert").getByText("Time: ").waitFor();
    await expect.poll(() => form.boundingBox()).not.toEqual(before);
  });

  test("a list is filtered at an address with a slash too many", async () => {
    for (const name of ["Slashed", "Other"]) await createJob(name);
    const { page } = await open("jobs//");
    await page.getByLabel("Search").fill("Slashed");
    await page.getByText("1 job", { exact: true }).waitFor();
    expect(new URL(page.url()).search).toBe("?q=Slashed");
  });

  test("a second filter does not take back the first one", async () => {
    await createJob("Choice");
    const { page } = await open("jobs");
    await choice(page, "Status").click();
    await page.getByRole("option", { name: "paused" }).waitFor();
    await hurry(
      page,
      `named("[role=option]", "paused").click()`,
      `document.querySelector("input[aria-label=Type]").click()`,
      `named("[role=option]", "webhook").click()`,
    );
    await expect.poll(() => new URL(page.url()).search).toBe("?status=paused&type=webhook");
  });

  test("what is typed after a filter was chosen stays", async () => {
    await createJob("Choice");
    const { page } = await open("jobs");
    await choice(page, "Status").click();
    await page.getByRole("option", { name: "paused" }).waitFor();
    await hurry(page, `named("[role=option]", "paused").click()`, `type("Search", "Cho")`);
    await expect.poll(() => new URL(page.url()).search).toBe("?status=paused&q=Cho");
    expect(await page.getByLabel("Search").inputValue()).toBe("Cho");
    // Back and a link to the list change the address, and the text box follows.
    await page.goBack();
    await expect.poll(() => page.getByLabel("Search").inputValue()).toBe("");
    await page.goForward();
    await expect.poll(() => page.getByLabel("Search").inputValue()).toBe("Cho");
  });

  test("a page that is not there any more does not keep from leaving", async () => {
    const oldest = await createJob("Crowd, the first");
    for (let count = 0; count < 25; count += 1) await createJob(`Crowd ${count}`);
    const { page } = await open("jobs?q=Crowd&page=2");
    await page.getByRole("link", { name: "Crowd, the first" }).waitFor();
    const code = await hold(page, "GET", "**/assets/api-keys-*.js");
    const list = await hold(page, "GET", "**/dashboard/api/jobs?*");
    await stage.rest({ method: "DELETE", path: `/jobs/${oldest}` });
    await list.asked;
    await place(page, "API keys").click();
    await code.asked;
    list.release();
    await page.getByText("25 jobs", { exact: true }).waitFor();
    code.release();
    await heading(page, "API keys").waitFor();
    expect(new URL(page.url()).pathname).toBe("/dashboard/api-keys");
  });

  test("what was tested are the settings as they were, not as they are now", async () => {
    const { page } = await open("smtp");
    const tested = await hold(page, "POST", "**/dashboard/api/smtp/test", "answer");
    const send = button(page, "Send a test");
    await send.click();
    await tested.asked;
    await page.getByLabel("Host").fill("elsewhere.example.com");
    tested.release();
    await expect.poll(() => send.getAttribute("aria-disabled")).toBe("false");
    expect(await page.getByText("The server accepted the mail.").count()).toBe(0);
  });

  test("an address that is corrected while the test is sent is not refused for what it was", async () => {
    const { page } = await open("smtp");
    const tested = await hold(page, "POST", "**/dashboard/api/smtp/test");
    const to = page.getByLabel("Send the test to");
    await to.fill("ada..lovelace@example.com");
    await button(page, "Send a test").click();
    await tested.asked;
    await to.fill("ada.lovelace@example.com");
    tested.release();
    await page.getByRole("alert").waitFor();
    expect(await page.locator(".mantine-InputWrapper-error").allTextContents()).toEqual([]);
  });

  test("what is typed while settings are saved stays", async () => {
    const { page } = await open("smtp");
    const saved = await hold(page, "POST", "**/dashboard/api/smtp", "answer");
    const [from, password] = [
      page.getByLabel("From address"),
      page.locator("input[type=password]"),
    ];
    await button(page, "Save").click();
    await saved.asked;
    await from.fill("typed@example.com");
    await password.fill("typed");
    saved.release();
    await page.getByText("SMTP settings saved").waitFor();
    await expect.poll(() => button(page, "Save").getAttribute("aria-disabled")).toBe("false");
    expect([await from.inputValue(), await password.inputValue()]).toEqual([
      "typed@example.com",
      "typed",
    ]);
  });

  test("what is corrected while it is saved is not refused for what it was", async () => {
    const { page } = await open(`jobs/${await createJob("Refused")}/edit`);
    const save = await hold(page, "PATCH", "**/dashboard/api/jobs/*");
    await page.getByLabel("URL").fill("ftp://example.com");
    await button(page, "Save").click();
    await save.asked;
    await page.getByLabel("URL").fill("https://example.com");
    save.release();
    await page.getByRole("alert").getByText("URL: must").waitFor();
    const errors = page.locator(".mantine-InputWrapper-error");
    await expect.poll(() => errors.allTextContents()).toEqual([]);
  });

  test("what is typed while a job is saved stays, and is saved the next time", async () => {
    const id = await createJob("Typed on");
    const { page } = await open(`jobs/${id}/edit`);
    const save = await hold(page, "PATCH", "**/dashboard/api/jobs/*", "request", 1);
    await page.getByLabel("Name").fill("Typed on, renamed");
    await button(page, "Save").click();
    await save.asked;
    await page.getByLabel("URL").fill("https://example.com/typed-on");
    save.release();
    await page.getByText("Job saved").waitFor();
    await expect.poll(() => button(page, "Save").getAttribute("aria-disabled")).toBe("false");
    expect(await page.getByLabel("URL").inputValue()).toBe("https://example.com/typed-on");
    // The next time saves that alone: the name is somebody else's by then.
    await stage.rest({ method: "PATCH", path: `/jobs/${id}`, body: { name: "Theirs" } });
    await button(page, "Save").click();
    await heading(page, "Theirs").waitFor();
    expect((await stage.rest({ path: `/jobs/${id}` })).body).toMatchObject({
      name: "Theirs",
      webhook_url: "https://example.com/typed-on",
    });
  });

  test("what is typed while a job is made becomes a change of that job", async () => {
    const { page } = await open("jobs/_new");
    const making = await hold(page, "POST", "**/dashboard/api/jobs");
    await page.getByLabel("Name").fill("Made");
    await page.getByLabel("URL").fill("https://example.com/made");
    await button(page, "Create job").click();
    await making.asked;
    await page.getByLabel("Name").fill("Made, and renamed");
    making.release();
    await heading(page, "Edit Made").waitFor();
    await page.getByText("What you typed is here again").waitFor();
    expect(await page.getByLabel("Name").inputValue()).toBe("Made, and renamed");
    await button(page, "Save").click();
    await heading(page, "Made, and renamed").waitFor();
    // The form of the next job is empty.
    await place(page, "Jobs").click();
    await page.getByRole("link", { name: "Create job" }).click();
    await heading(page, "Create a job").waitFor();
    expect(await page.getByLabel("Name").inputValue()).toBe("");
  });

  test("a job that somebody else changes: that is said once, and what nobody else touches is theirs", async () => {
    const id = await createJob("Changed by two");
    const { page } = await open(`jobs/${id}/edit`);
    const theirs = {
      name: "Theirs",
      webhook_url: "https://example.com/theirs",
      webhook_payload: { theirs: true },
    };
    await stage.rest({ method: "PATCH", path: `/jobs/${id}`, body: theirs });
    await page.getByLabel("URL").fill("https://example.com/mine");
    await page.getByLabel("Payload").fill(`{"mine":true}`);
    await button(page, "Save").click();
    const alert = page.getByRole("alert");
    await alert.getByText("URL: was changed meanwhile, to “https://example.com/theirs”.").waitFor();
    await alert.getByText("Payload: was changed meanwhile. Save again").waitFor();
    const saved = async () => (await stage.rest({ path: `/jobs/${id}` })).body;
    expect(await saved()).toMatchObject(theirs);
    await button(page, "Save").click();
    await heading(page, "Theirs").waitFor();
    expect(await saved()).toMatchObject({
      name: "Theirs",
      webhook_url: "https://example.com/mine",
      webhook_payload: { mine: true },
    });
  });

  test("a job that somebody else makes another kind of: saving again makes it what the form shows", async () => {
    const id = await createJob("Of two kinds");
    const { page } = await open(`jobs/${id}/edit`);
    const email = {
      type: "email",
      email_to: "theirs@example.com",
      email_subject: "Theirs",
      email_body: "Theirs.",
    };
    const once = { schedule_type: "one_time", run_at: "2030-01-01T00:00:00Z" };
    await stage.rest({ method: "PATCH", path: `/jobs/${id}`, body: { ...email, ...once } });
    await page.getByLabel("URL").fill("https://example.com/mine");
    await button(page, "Save").click();
    const alert = page.getByRole("alert");
    await alert.getByText("What it does: was changed meanwhile, to “email”. Save again").waitFor();
    expect(await alert.getByText("URL: was").count()).toBe(0);
    await button(page, "Save").click();
    const edit = page.getByRole("link", { name: "Edit" });
    await edit.waitFor();
    // The kind of its schedule is theirs: nothing of the schedule was edited here.
    expect((await stage.rest({ path: `/jobs/${id}` })).body).toMatchObject({
      type: "webhook",
      webhook_url: "https://example.com/mine",
      schedule_type: "one_time",
    });
    await edit.click();
    await page.locator("input[type=datetime-local]").fill("2031-01-01T00:00:00");
    const cron = { schedule_type: "cron", cron_expression: "5 4 * * *" };
    await stage.rest({ method: "PATCH", path: `/jobs/${id}`, body: cron });
    await button(page, "Save").click();
    await alert.getByText("When: was changed meanwhile, to “cron”. Save again").waitFor();
    await button(page, "Save").click();
    await edit.waitFor();
    expect((await stage.rest({ path: `/jobs/${id}` })).body).toMatchObject({
      schedule_type: "one_time",
      cron_expression: null,
    });
  });

  test("a job that was saved although no answer came is saved again without a question", async () => {
    const id = await createJob("Saved unheard");
    const { page } = await open(`jobs/${id}/edit`);
    await page.getByLabel("Name").fill("Mine");
    await stage.rest({ method: "PATCH", path: `/jobs/${id}`, body: { name: "Mine" } });
    await button(page, "Save").click();
    await heading(page, "Mine").waitFor();
    expect(await page.getByText("was changed meanwhile").count()).toBe(0);
  });

  test("settings that somebody else changes: that is said once", async () => {
    const { context, page } = await open("smtp");
    const other = await context.newPage();
    await other.goto("/dashboard/smtp");
    await other.getByLabel("From address").fill("theirs@example.com");
    await button(other, "Save").click();
    await other.getByText("SMTP settings saved").waitFor();
    await page.getByLabel("From address").fill("mine@example.com");
    await button(page, "Save").click();
    const said = "From address: was changed meanwhile, to “theirs@example.com”.";
    await page.getByRole("alert").getByText(said).waitFor();
    await button(page, "Save").click();
    await page.getByText("SMTP settings saved").waitFor();
    await other.reload();
    await other.getByLabel("From address").waitFor();
    expect(await other.getByLabel("From address").inputValue()).toBe("mine@example.com");
  });

  test("settings of the account that somebody else has changed stay, also when one saves twice", async () => {
    const { context, page } = await open("settings");
    const other = await context.newPage();
    await other.goto("/dashboard/settings");
    const days = "Days to keep executions and the email log";
    await choice(other, "Time zone").click();
    await choice(other, "Time zone").fill("Asia/Tokyo");
    await other.getByRole("option", { name: "Asia/Tokyo" }).click();
    await button(other, "Save").click();
    await other.getByText("Settings saved").waitFor();
    for (const typed of ["70", "60"]) {
      const saved = page.waitForResponse((response) => response.request().method() === "PATCH");
      await page.getByLabel(days).fill(typed);
      await button(page, "Save").click();
      await saved;
      await expect.poll(() => choice(page, "Time zone").inputValue()).toBe("Asia/Tokyo");
    }
    await other.reload();
    await other.getByLabel(days).waitFor();
    expect(await choice(other, "Time zone").inputValue()).toBe("Asia/Tokyo");
    expect(await other.getByLabel(days).inputValue()).toBe("60");
  });

  test("settings of the account that somebody else changes stay, where only others are changed", async () => {
    const { context, page } = await open("settings");
    const other = await context.newPage();
    await other.goto("/dashboard/settings");
    const days = "Days to keep executions and the email log";
    await other.getByLabel(days).fill("80");
    await button(other, "Save").click();
    await other.getByText("Settings saved").waitFor();
    await choice(page, "Time zone").click();
    await choice(page, "Time zone").fill("Europe/Paris");
    await page.getByRole("option", { name: "Europe/Paris" }).click();
    await button(page, "Save").click();
    await page.getByText("Settings saved").waitFor();
    await other.reload();
    await other.getByLabel(days).waitFor();
    expect(await other.getByLabel(days).inputValue()).toBe("80");
  });

  test("a namespace is bound with its dialog open, so that its end closes no other", async () => {
    const { page } = await open("");
    await page.route("**/dashboard/api/session", async (route) => {
      const response = await route.fetch();
      const session = (await response.json()) as { installation: object };
      await route.fulfill({
        json: { ...session, installation: { ...session.installation, kubernetes: true } },
      });
    });
    const bound = await hold(page, "POST", "**/dashboard/api/accounts/*/namespace");
    await page.goto("/dashboard/accounts");
    await page.getByRole("button", { name: /^Bind/ }).click();
    const namespace = dialog(page).getByLabel("Kubernetes namespace");
    await namespace.fill("team-a");
    await dialog(page).getByRole("button", { name: "Bind" }).click();
    await bound.asked;
    await page.keyboard.press("Escape");
    await page.mouse.click(5, 400);
    expect(await dialog(page).getByRole("button", { name: "Close" }).count()).toBe(0);
    expect(await namespace.inputValue()).toBe("team-a");
    bound.release();
    // The gateway has no cluster, and says so.
    await dialog(page).getByRole("alert").waitFor();
    await page.keyboard.press("Escape");
    await dialog(page).waitFor({ state: "detached" });
  });

  test("what is selected, and where the focus is, while selected jobs are paused", async () => {
    await createJob("First");
    await createJob("Second");
    const { page } = await open("jobs");
    const bulk = await hold(page, "POST", "**/dashboard/api/jobs/bulk");
    const [first, second] = [page.getByLabel("Select First"), page.getByLabel("Select Second")];
    await first.check();
    await button(page, "Pause").click();
    await bulk.asked;
    await second.check();
    const search = page.getByLabel("Search");
    await search.focus();
    bulk.release();
    await page.getByText("1 job paused").waitFor();
    await expect.poll(() => first.isChecked()).toBe(false);
    expect(await second.isChecked()).toBe(true);
    expect(await search.and(page.locator(":focus")).count()).toBe(1);
  });

  test("a job that is paused while it is run: each of both is done once, and why one failed is said", async () => {
    const { page } = await open(`jobs/${await createJob("Both")}`);
    const released = Promise.withResolvers<void>();
    let runs = 0;
    await page.route("**/run", async (route) => {
      runs += 1;
      await released.promise;
      await databaseAway(route);
    });
    await button(page, "Run now").click();
    await button(page, "Pause").click();
    await button(page, "Resume").waitFor();
    await button(page, "Run now").click({ force: true });
    released.resolve();
    await page.getByRole("alert").getByText("The database is away.").waitFor();
    expect(runs).toBe(1);
    // The error of the last action is not shown for the next one.
    await button(page, "Resume").click();
    await button(page, "Pause").waitFor();
    expect(await page.getByRole("alert").getByText("The database is away.").count()).toBe(0);
  });

  test("from the form of one job straight to that of another: what was typed does not go along", async () => {
    for (const name of ["One", "Two"]) await createJob(name);
    const { page } = await open("jobs");
    const edit = async (name: string) => {
      await page.getByRole("link", { name, exact: true }).click();
      await heading(page, name).waitFor();
      await page.getByRole("link", { name: "Edit" }).click();
      await heading(page, `Edit ${name}`).waitFor();
    };
    await edit("One");
    await place(page, "Jobs").click();
    await edit("Two");
    await page.getByLabel("Name").fill("Two, renamed");
    // As with the list of pages that a browser shows at its Back button.
    await page.evaluate("history.go(-3)");
    await heading(page, "Edit One").waitFor();
    expect(await page.getByLabel("Name").inputValue()).toBe("One");
  });

  test("a field is not called empty any more when it has its first letter", async () => {
    const { page } = await open("jobs/_new");
    await page.getByText("At 03:00, every day").waitFor();
    const check = await hold(page, "POST", "**/jobs/check");
    const name = page.getByLabel("Name");
    const empty = page.getByText("must not be empty");
    await name.fill("R");
    await check.asked;
    expect(await empty.count()).toBe(0);
    check.release();
    await name.fill("");
    await empty.waitFor();
    await name.fill("R");
    expect(await empty.count()).toBe(0);
  });

  test("fire times do not stand below the words of another schedule", async () => {
    const { page } = await open("jobs/_new");
    await page.getByText("At 03:00, every day").waitFor();
    const check = await hold(page, "POST", "**/jobs/check", "answer");
    await page.getByLabel("Cron expression").fill("5 4 * * 1");
    await check.asked;
    expect(await page.getByText("At 03:00, every day").count()).toBe(1);
    check.release();
    await page.getByText("At 04:05, only on Monday").waitFor();
  });

  test("another schedule that begins with the same run has its own fire times", async () => {
    const hour = new Date().getUTCHours();
    const [soon, later] = [(hour + 2) % 24, (hour + 12) % 24];
    const id = await stage.createJob({ name: "Often", cron_expression: `0 ${soon} * * *` });
    const { page } = await open(`jobs/${id}`);
    const times = page.locator("td").filter({ hasText: new RegExp(`, ${pad(later)}:00$`) });
    await page.getByText(`At ${pad(soon)}:00, every day`).waitFor();
    expect(await times.count()).toBe(0);
    const body = { cron_expression: `0 ${soon},${later} * * *` };
    await stage.rest({ method: "PATCH", path: `/jobs/${id}`, body });
    await times.first().waitFor();
  });

  test("of more jobs than one request takes, those that were paused are said when a later request fails", async () => {
    await Promise.all(Array.from({ length: 201 }, (_, number) => createJob(`Many ${number}`)));
    const { page } = await open("jobs?q=Many");
    const all = page.getByLabel("Select all on this page");
    for (let selected = 25; ; selected = Math.min(201, selected + 25)) {
      await all.check();
      await page.getByText(`${selected} selected`, { exact: true }).waitFor();
      if (selected === 201) break;
      await button(page, "next page").click();
      await expect.poll(() => all.isChecked()).toBe(false);
    }
    let requests = 0;
    await page.route("**/dashboard/api/jobs/bulk", async (route) => {
      requests += 1;
      await (requests === 1 ? route.continue() : databaseAway(route));
    });
    await button(page, "Pause").click();
    await page.getByRole("alert").getByText("The database is away.").waitFor();
    await page.getByText("200 jobs paused").waitFor();
    await page.getByText("1 selected", { exact: true }).waitFor();
  });

  test("Back leads from a new job to where it was asked for, not to a form that would make it again", async () => {
    const { page } = await open("jobs");
    await page.getByRole("link", { name: "Create job" }).click();
    await page.getByLabel("Name").fill("Made once");
    await page.getByLabel("URL").fill("https://example.com/once");
    await button(page, "Create job").click();
    await heading(page, "Made once").waitFor();
    await page.goBack();
    await heading(page, "Jobs").waitFor();
    expect(new URL(page.url()).pathname).toBe("/dashboard/jobs");
  });
});

const pad = (hour: number) => String(hour).padStart(2, "0");
