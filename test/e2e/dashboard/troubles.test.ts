import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run, type Standalone } from "../program.ts";
import type { Receiver } from "../../receiver.ts";
import { violations } from "./axe.ts";
import { findChrome } from "./chrome.ts";
import { keyboard } from "./keyboard.ts";
import { databaseAway } from "./outages.ts";
import { PHONE, signIn, type Owner, type View } from "./owner.ts";
import { choice, copied, dialog, place } from "./locators.ts";
import { openStage, openTestWindow, type Stage } from "./stage.ts";

const chrome = findChrome();
/** The size of a desktop's window at a zoom of 200 %. */
const ZOOMED: View = { width: 640, height: 430 };

const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name });

/** The lowest contrast of a field's edge with its background (WCAG 2.2, 1.4.11 requires 3). */
const FAINTEST_EDGE = `(() => {
  const luminance = (colour) => {
    const [red, green, blue] = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
      const share = Number(part) / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const ground = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    return colour === "rgba(0, 0, 0, 0)" ? ground(element.parentElement) : colour;
  };
  const fields = [...document.querySelectorAll("main input.mantine-Input-input, main textarea, main input[type=checkbox]")];
  return Math.min(...fields.filter((field) => field.checkVisibility()).map((field) => {
    const [dark, light] = [getComputedStyle(field).borderTopColor, ground(field.parentElement)].map(luminance).sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  }));
})()`;

/** Texts that are cut off by their box without an ellipsis, unless nobody is to see them, and elements that overlap the name of the program. */
const CUT = `(() => {
  const boxes = [...document.querySelectorAll("header *, main *")].filter((each) =>
    each.checkVisibility() && each.clientWidth > 1 && !each.closest(".clip, pre, svg") && !each.matches("input, textarea"));
  const cut = boxes.filter((each) =>
    getComputedStyle(each).overflowX === "hidden" && getComputedStyle(each).clip === "auto" && each.scrollWidth > each.clientWidth + 1);
  const [name, colours] = ["header a p", "header button[aria-label$=colours]"].map((selector) =>
    document.querySelector(selector).getBoundingClientRect());
  return [...cut.map((each) => each.textContent), ...(name.right > colours.left ? ["Carillon"] : [])];
})()`;

/** Buttons whose words are not in the middle of their height. */
const BESIDE_THE_MIDDLE = `(() => {
  const middle = (element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return (top + bottom) / 2;
  };
  return [...document.querySelectorAll(".mantine-Button-label")]
    .filter((label) => label.checkVisibility())
    .filter((label) => Math.abs(middle(label) - middle(label.closest(".mantine-Button-root"))) > 2)
    .map((label) => label.textContent);
})()`;

/** How many different grounds the options of an open list have. */
const GROUNDS_OF_OPTIONS = `new Set(
  [...document.querySelectorAll("[role=option]")].map((each) => getComputedStyle(each).backgroundColor),
).size`;

const groundOf = async (page: Page, selector: string) => {
  await page.locator(selector).first().waitFor();
  return page.evaluate(
    `getComputedStyle(document.querySelector(${JSON.stringify(selector)})).backgroundColor`,
  );
};

async function createKey(page: Page, label: string): Promise<void> {
  await button(page, "Create API key").click();
  await page.getByLabel("Label").fill(label);
  await page.keyboard.press("Enter");
}

/** What happens when something fails, is done twice, or comes in an unexpected order. */
describe.skipIf(chrome === undefined)("the dashboard in trouble", () => {
  let stage: Stage;
  let program: Standalone;
  let owner: Owner;
  let receiver: Receiver;
  beforeAll(async () => {
    stage = await openStage({ name: "troubles", chrome });
    ({ program, owner, receiver } = stage);
  });
  afterAll(() => stage?.close());

  const open = (path: string, view?: View) => stage.openPage(path, view);
  const createJob = (fields: object = {}) => stage.createJob({ name: "Trouble", ...fields });

  test("what the browser thinks of the network does not stop a program on the same machine", async () => {
    const { page } = await open(`jobs/${await createJob()}`);
    await page.getByText("It has not run yet.").waitFor();
    await page.evaluate(`dispatchEvent(new Event("offline"))`);
    await button(page, "Run now").click();
    await expect.poll(() => receiver.received.length).toBe(1);
    await place(page, "Email log").click();
    await page.getByText("No email yet").waitFor();
  });

  test("without a network what was clicked fails, and is not done later", async () => {
    const { context, page } = await open(`jobs/${await createJob()}`);
    const before = receiver.received.length;
    await context.setOffline(true);
    await button(page, "Run now").click();
    await page.getByRole("alert").filter({ hasText: "Carillon cannot be reached." }).waitFor();
    await context.setOffline(false);
    await page.reload();
    await page.getByText("It has not run yet.").waitFor();
    expect(receiver.received.length).toBe(before);
  });

  test("a page whose files are gone says so to everybody, and can be loaded again", async () => {
    const { page } = await open("");
    await page.getByText("Next runs").waitFor();
    const gone = "**/dashboard/assets/jobs-*.js";
    await page.route(gone, (route) => route.fulfill({ status: 404 }));
    await place(page, "Jobs").click();
    const title = page.getByRole("heading", { level: 1, name: "This page could not be shown" });
    await expect.poll(() => keyboard(page).has(title)).toBe(true);
    expect(await page.title()).toBe("This page could not be shown · Carillon");
    expect(await violations(page)).toEqual([]);
    // The navigation to the other pages still works.
    await place(page, "Email log").click();
    await page.getByRole("heading", { level: 1, name: "Email log" }).waitFor();
    await place(page, "Jobs").click();
    await title.waitFor();
    await page.unroute(gone);
    await button(page, "Load again").click();
    await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
  });

  test("a new key is shown, however the list fares", async () => {
    const { page } = await open("api-keys");
    let created = false;
    await page.route("**/dashboard/api/api-keys", async (route) => {
      if (route.request().method() === "POST") created = true;
      else if (created) return;
      await route.continue();
    });
    await createKey(page, "of a slow network");
    await button(page, "Copy the key").waitFor();
    expect(
      await dialog(page)
        .getByText(/^svc_live_/)
        .count(),
    ).toBe(1);
  });

  test.each([
    {
      what: "API key",
      path: "api-keys",
      opener: "Create API key",
      action: "Create",
      api: "api-keys",
      field: "Label",
      copy: "Copy the key",
    },
    {
      what: "invitation",
      path: "settings",
      opener: "Invite",
      action: "Invite",
      api: "invitations",
      field: "Email",
      copy: "Copy the link",
    },
  ])(
    "$what: the dialog stays while it is made, and shows it",
    async ({ path, opener, action, api, field, copy }) => {
      const { page } = await open(path);
      const asked = Promise.withResolvers<void>();
      const released = Promise.withResolvers<void>();
      await page.route(`**/dashboard/api/${api}`, async (route) => {
        if (route.request().method() !== "POST") return route.fallback();
        const response = await route.fetch();
        asked.resolve();
        await released.promise;
        await route.fulfill({ response });
      });
      await button(page, opener).click();
      await dialog(page).getByRole("textbox", { name: field }).fill("slow@example.com");
      await dialog(page).getByRole("button", { name: action, exact: true }).click();
      await asked.promise;
      await page.keyboard.press("Escape");
      await page.mouse.click(5, 400);
      const cross = dialog(page).getByRole("button", { name: "Close" });
      expect(await cross.count()).toBe(0);
      released.resolve();
      await button(page, copy).waitFor();
      await page.keyboard.press("Escape");
      await cross.click();
      await dialog(page).waitFor({ state: "detached" });
    },
  );

  test("a copy that the browser refuses is said", async () => {
    const { page } = await open("api-keys");
    await page.evaluate(`navigator.clipboard.writeText = () => Promise.reject(new Error("no"))`);
    await createKey(page, "not to be copied");
    await button(page, "Copy the key").click();
    await dialog(page).getByText("The browser did not allow it.").waitFor();
    expect(await page.getByText("Copied", { exact: true }).count()).toBe(0);
  });

  test("the focus stays on a button that works, and comes back when its row is gone", async () => {
    const { page } = await open("api-keys");
    const keys = keyboard(page);
    await createKey(page, "soon gone");
    await button(page, "Done").click();
    await page.route("**/dashboard/api/api-keys", async (route) =>
      route.request().method() === "POST" ? databaseAway(route) : route.continue(),
    );
    await button(page, "Create API key").click();
    await page.getByLabel("Label").fill("refused");
    const create = dialog(page).getByRole("button", { name: "Create", exact: true });
    await keys.use(create);
    await dialog(page).getByText("The database is away.").waitFor();
    expect(await keys.has(create)).toBe(true);
    await page.keyboard.press("Escape");
    await keys.use(button(page, "Delete the key soon gone"));
    await keys.use(dialog(page).getByRole("button", { name: "Delete the key" }));
    await expect.poll(() => keys.has(button(page, "Create API key"))).toBe(true);
  });

  test("the focus comes back when its row goes only after the question", async () => {
    const { page } = await open("api-keys");
    const keys = keyboard(page);
    await createKey(page, "gone later");
    await button(page, "Done").click();
    const row = button(page, "Delete the key gone later");
    await row.waitFor();
    // The list that is loaded after the deletion is one of before, as a replica that lags behind would answer.
    const list = await page.evaluate(
      `fetch("/dashboard/api/api-keys").then((each) => each.json())`,
    );
    await page.clock.install();
    await page.route("**/dashboard/api/api-keys", (route) => route.fulfill({ json: list }), {
      times: 1,
    });
    await keys.use(row);
    await keys.use(dialog(page).getByRole("button", { name: "Delete the key" }));
    await dialog(page).waitFor({ state: "detached" });
    await expect.poll(() => keys.has(row)).toBe(true);
    await page.clock.fastForward("00:16");
    await row.waitFor({ state: "detached" });
    await expect.poll(() => keys.has(button(page, "Create API key"))).toBe(true);
  });

  test("another tab signs in as somebody else: this one is theirs, too", async () => {
    const { context, page } = await open("accounts");
    await button(page, "Create account").click();
    await page.getByLabel("Name").fill("others");
    await page.getByLabel("Owner's email").fill("other@example.com");
    await dialog(page).getByRole("button", { name: "Create", exact: true }).click();
    const link = await copied(page, "Copy the link");
    await page.goto("/dashboard/jobs/_new");
    await page.getByLabel("Name").fill("of the first user");
    const other = await context.newPage();
    await other.goto(link);
    await other.locator("input[type=password]").fill("a very good password");
    await button(other, "Accept and sign in").click();
    await other.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await page.getByRole("banner").getByText("others").waitFor();
    expect(await page.getByLabel("Name").inputValue()).toBe("");
  });

  test("a session that ends in the middle is said", async () => {
    const { context, page } = await open("jobs/_new");
    // The page has sent all requests that it sends by itself: only typing finds out that the session has ended.
    await page.getByText("At 03:00, every day").waitFor();
    await context.clearCookies();
    await page.getByLabel("Name").fill("Too late");
    await page.getByRole("alert").filter({ hasText: "Your session has ended." }).waitFor();
    expect(await page.title()).toBe("Sign in · Carillon");
  });

  test("a second invitation in the same tab is another one, and half a link is said", async () => {
    const { page } = await open("settings");
    const links: string[] = [];
    for (const email of ["one@example.com", "two@example.com"]) {
      await button(page, "Invite").click();
      await page.getByRole("textbox", { name: "Email", exact: true }).fill(email);
      await dialog(page).getByRole("button", { name: "Invite" }).click();
      links.push(await copied(page, "Copy the link"));
      await button(page, "Done").click();
    }
    await button(page, /^Withdraw the invitation of one/).click();
    await dialog(page).getByText("stops working.").waitFor();
    await page.goto(links[0] ?? "");
    await page.getByText("one@example.com").waitFor();
    await page.goto(links[1] ?? "");
    await page.getByText("two@example.com").waitFor();
    await page.locator("input[type=password]").fill("a very good password");
    await button(page, "Accept and sign in").click();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    // A member is not offered what the server would refuse.
    await page.goto("/dashboard/signing-secret");
    await page.getByText("Only owners of the account may see this page.").waitFor();
    expect(await button(page, "Rotate the secret").count()).toBe(0);
    await page.goto("/dashboard/invitation");
    await page.getByText("The link is not complete").waitFor();
    expect(await page.locator("input").count()).toBe(0);
  });

  test("a history is shown to the end of what there is to show", async () => {
    const { page } = await open("");
    const limits: number[] = [];
    await page.route("**/executions?*", async (route) => {
      const limit = Number(new URL(route.request().url()).searchParams.get("limit"));
      if (limits.at(-1) !== limit) limits.push(limit);
      await route.fulfill({ json: Array.from({ length: limit }, (_, index) => execution(index)) });
    });
    const keys = keyboard(page);
    const id = await createJob();
    await page.goto(`/dashboard/jobs/${id}`);
    const more = button(page, "Show more");
    await more.focus();
    for (let turn = 1; turn <= 10; turn += 1) {
      expect(await keys.has(more)).toBe(true);
      await page.keyboard.press("Enter");
      await expect.poll(() => limits.length).toBe(turn + 1);
      const shown = Math.min(25 + 100 * turn, 1_000);
      await page.getByText(`outcome of the last ${shown},`).waitFor();
    }
    expect(limits.at(-1)).toBe(1_000);
    await page.getByText(`GET /jobs/${id}/executions?include=missed&offset=1000`).waitFor();
    expect(await more.count()).toBe(0);
  });

  test("the way back leads back, and the box shows what is searched for", async () => {
    for (let count = 0; count < 30; count += 1) await createJob({ name: `Crowd ${count}` });
    const { page } = await open("jobs");
    const search = page.getByLabel("Search");
    await page.goto("/dashboard/jobs?page=99");
    await page.waitForURL("**/jobs?page=2");
    await page.goBack();
    await page.waitForURL("**/jobs");
    await search.fill("Crowd 7");
    await page.getByText("1 job", { exact: true }).waitFor();
    await place(page, "Jobs").click();
    await expect.poll(() => search.inputValue()).toBe("");
    await page.getByRole("link", { name: "Crowd 29" }).waitFor();
    await page.goBack();
    await expect.poll(() => search.inputValue()).toBe("Crowd 7");
    await page.getByText("1 job", { exact: true }).waitFor();
  });

  test.each([
    { path: "jobs", filter: "Search", none: "0 jobs" },
    { path: "logs", filter: "Recipient", none: "0 emails" },
  ])("that nothing on /$path matches is said to whoever does not see it", async (list) => {
    await createJob();
    await stage.rest({
      method: "POST",
      path: "/send",
      body: { to: "ada@example.com", subject: "Hello", body: "Hello." },
    });
    const { page } = await open(list.path);
    const count = page.getByRole("status").and(page.getByText(/ (jobs?|emails?)$/));
    await count.evaluate((element) => Object.assign(globalThis, { before: element }));
    await page.getByLabel(list.filter).fill("nobody@example.com");
    await expect.poll(() => count.textContent()).toBe(list.none);
    // It is the same element, so that a screen reader reads its new text out.
    expect(
      await count.evaluate((element) => Object.is(Reflect.get(globalThis, "before"), element)),
    ).toBe(true);
  });

  test("at twice the size all of a page can be chosen, and the focus is not lost", async () => {
    await createJob();
    const { page } = await open("jobs", ZOOMED);
    const keys = keyboard(page);
    const all = page.getByLabel("Select all on this page");
    await keys.use(all, "Space");
    await page.getByText(/^[1-9]\d* selected$/).waitFor();
    await keys.use(button(page, "Clear"));
    await expect.poll(() => keys.has(all)).toBe(true);
  });

  test.each([16, 24])(
    "no text is cut on a window of 320 px with letters of %i px",
    async (size) => {
      const id = await createJob({ timezone: "America/Argentina/Buenos_Aires" });
      const { page } = await open("", { width: 320, height: 640 });
      for (const path of ["", "jobs", "jobs/_new", `jobs/${id}`, "smtp", "settings"]) {
        await page.goto(`/dashboard/${path}`);
        await page.locator("main .panel").first().waitFor();
        await page.evaluate(`document.documentElement.style.fontSize = "${size}px"`);
        await expect.poll(() => page.evaluate(CUT)).toEqual([]);
        expect(await page.evaluate(BESIDE_THE_MIDDLE)).toEqual([]);
      }
    },
  );

  test("a long name of an account can be read to its end, and pushes nothing out of the window", async () => {
    const name = "W".repeat(64);
    const long = { email: "long@example.com", password: "a very good password" };
    for (const { args, input } of [
      { args: ["account", "create", name], input: "" },
      {
        args: ["user", "create", "--account", name, "--email", long.email, "--password-stdin"],
        input: long.password,
      },
    ]) {
      const env = { CARILLON_DATA_DIR: stage.data };
      const made = await run("cli", { args: ["admin", ...args], env, input }).finished;
      expect(made.stderr).toBe("");
    }
    const view = { width: 320, height: 640 };
    const { page } = await openTestWindow(stage.browser, program.url, { view });
    await signIn(page, long);
    const beside = (selector: string) =>
      page.evaluate(`(() => {
        const { scrollWidth, clientWidth } = document.querySelector(${JSON.stringify(selector)});
        return scrollWidth - clientWidth;
      })()`);
    await page.getByText("sent and ran").waitFor();
    expect(await beside("html")).toBe(0);
    await page.goto("/dashboard/settings");
    await button(page, /^Delete this account/).click();
    await dialog(page).getByRole("button", { name: "Close" }).waitFor();
    expect(await beside("[role=dialog]")).toBe(0);
  });

  test.each(["light", "dark"] as const)("%s: the edge of a field can be seen", async (scheme) => {
    const { page } = await openTestWindow(stage.browser, program.url, { scheme });
    await signIn(page, owner);
    for (const path of ["jobs", "jobs/_new"]) {
      await page.goto(`/dashboard/${path}`);
      await page.locator("main input").first().waitFor();
      expect(Number(await page.evaluate(FAINTEST_EDGE))).toBeGreaterThanOrEqual(3);
    }
  });

  test("in forced colours it can be seen what is chosen", async () => {
    await createJob();
    const { page } = await open("jobs");
    await page.emulateMedia({ forcedColors: "active" });
    // Colours change within a few frames.
    const other = await groundOf(page, "nav a:not([aria-current])");
    await expect.poll(() => groundOf(page, "nav a[aria-current]")).not.toBe(other);
    const unchecked = await groundOf(page, "tbody input");
    await page
      .getByLabel(/^Select /)
      .nth(1)
      .check();
    await expect.poll(() => groundOf(page, "tbody input")).not.toBe(unchecked);
    await place(page, "Overview").click();
    await page.getByText("24 hours").waitFor();
    await expect
      .poll(async () => {
        const [chosen, others] = [
          await groundOf(page, "main label[data-active]"),
          await groundOf(page, "main label:not([data-active])"),
        ];
        return chosen === others;
      })
      .toBe(false);
    await place(page, "Webhook signing").click();
    const otherTab = await groundOf(page, "[role=tab][aria-selected=false]");
    await expect.poll(() => groundOf(page, "[role=tab][aria-selected=true]")).not.toBe(otherTab);
  });

  test("in forced colours it can be seen which option the keys have reached, and which page it is", async () => {
    await Promise.all(Array.from({ length: 30 }, () => createJob()));
    const { page } = await open("jobs");
    await page.emulateMedia({ forcedColors: "active" });
    const otherPage = await groundOf(page, "[aria-label='Page 2']");
    await expect.poll(() => groundOf(page, "[aria-label='Page 1']")).not.toBe(otherPage);
    const status = choice(page, "Status");
    await status.press("Enter");
    await page.getByRole("option", { name: "active" }).waitFor();
    await expect
      .poll(async () => {
        await status.press("ArrowDown");
        return page.evaluate(GROUNDS_OF_OPTIONS);
      })
      .toBe(2);
  });

  test("in forced colours it can be seen that something is being loaded", async () => {
    const { page } = await open("");
    await page.emulateMedia({ forcedColors: "active" });
    await page.route("**/dashboard/api/signing-secret", () => undefined);
    await place(page, "Webhook signing").click();
    const edge = `getComputedStyle(document.querySelector(".mantine-Skeleton-root")).borderTopStyle`;
    await page.getByRole("status", { name: "Loading" }).waitFor();
    await expect.poll(() => page.evaluate(edge)).toBe("solid");
  });

  test("in forced colours what lies over a page has an edge", async () => {
    const { page } = await open(`jobs/${await createJob()}`);
    await page.emulateMedia({ forcedColors: "active" });
    const edge = (selector: string) =>
      page.evaluate(
        `getComputedStyle(document.querySelector(${JSON.stringify(selector)})).borderTopStyle`,
      );
    await button(page, "More actions").click();
    await page.getByRole("menuitem", { name: "Copy as curl" }).click();
    await page.getByText("Command copied").waitFor();
    expect(await edge(".mantine-Notification-root")).toBe("solid");
    await button(page, "More actions").click();
    expect(await edge("[role=menu]")).toBe("solid");
    await page.getByRole("menuitem", { name: /Delete/ }).click();
    await dialog(page).waitFor();
    expect(await edge(".mantine-Modal-content")).toBe("solid");
  });

  test("a form says what is wrong by its own words, and no longer than it is", async () => {
    const { page } = await open("jobs/_new");
    const errors = page.locator(".mantine-InputWrapper-error");
    await button(page, "Create job").click();
    await page.getByRole("alert").getByText("URL: must").waitFor();
    await page.getByLabel("Name").fill("Corrected");
    await page.getByLabel("URL").fill(`${receiver.url}/corrected`);
    await expect.poll(() => errors.count()).toBe(0);
    await button(page, "Add a header").click();
    await page.getByLabel("Header 1 value").fill("Bearer of nothing");
    await button(page, "Create job").click();
    await page.getByRole("alert").getByText("Headers: have a value without a name").waitFor();
    await page.getByLabel("Header 1 name").fill("Host");
    await page.getByText("Host is reserved and cannot be set").waitFor();
    await button(page, "Remove header 1").click();
    await page.getByText("Once", { exact: true }).click();
    await button(page, "Create job").click();
    await page.getByRole("alert").getByText("Time: enter a date and a time").waitFor();
    await page.locator("input[type=datetime-local]").fill("12026-11-21T12:00");
    await expect.poll(() => errors.allTextContents()).toEqual(["must be in a year of four digits"]);
    expect(await page.getByText("schedule_type").count()).toBe(0);
  });

  test("settings say what is wrong by the name of the field", async () => {
    const { page } = await open("settings");
    await page.getByLabel("Days to keep").fill("91");
    await page.keyboard.press("Enter");
    await expect
      .poll(() => page.getByRole("alert").textContent())
      .toMatch(/^Days to keep executions and the email log: must be at most 90/);
  });

  test("a key without a label, as the admin command makes it, is told from others", async () => {
    const args = ["admin", "key", "create", "--account", "default"];
    const made = await run("cli", { args, env: { CARILLON_DATA_DIR: stage.data } }).finished;
    expect(made.stderr).toBe("");
    const prefix = `${made.stdout.slice(0, "svc_live_".length + 6)}…`;
    const { page } = await open("api-keys");
    await button(page, `Delete the key ${prefix}`).click();
    await dialog(page).getByText(`${prefix} stops working`).waitFor();
  });

  test("an account is deleted by the name that is shown, also if it has two spaces in a row", async () => {
    const { page } = await open("");
    await page.route("**/dashboard/api/session", async (route) => {
      const response = await route.fetch();
      const session = (await response.json()) as { account: object };
      const account = { ...session.account, name: "Two  spaces" };
      await route.fulfill({ json: { ...session, account } });
    });
    await page.goto("/dashboard/settings");
    await button(page, "Delete this account").click();
    const label = dialog(page).getByText("Type the account's name:");
    const shown = (await label.innerText()).split(": ")[1] ?? "";
    await dialog(page).getByLabel("Type the account's name:").fill(shown);
    await dialog(page).locator("input[type=password]").fill("not the password");
    expect(await button(page, "Delete for ever").isEnabled()).toBe(true);
  });

  test("what there is to choose from is not broken where there is room", async () => {
    const { page } = await open("", { width: 360, height: 740 });
    const lines = await page.evaluate(`(() => {
      const range = document.createRange();
      return [...document.querySelectorAll("main .mantine-SegmentedControl-innerLabel")].map((label) => {
        range.selectNodeContents(label);
        return range.getClientRects().length;
      });
    })()`);
    expect(lines).toEqual([1, 1, 1]);
  });

  test("exact times are shown to whoever has no mouse, in all tabs, and stay", async () => {
    const { context, page } = await open(`jobs/${await createJob()}`, PHONE);
    const second = await context.newPage();
    await second.goto("/dashboard/jobs");
    const times = page.locator("time");
    const dates = second.getByText(/ \d{4}, \d{2}:00:00$/);
    await second.locator("time").first().waitFor();
    expect(await dates.count()).toBe(0);
    const keys = keyboard(page);
    await keys.use(button(page, /your user/));
    const item = page.getByRole("menuitemcheckbox", { name: "Exact times" });
    await item.press("Enter");
    expect(await item.getAttribute("aria-checked")).toBe("true");
    await page.keyboard.press("Escape");
    for (const text of await times.allTextContents()) expect(text).toMatch(/\d{2}:\d{2}:\d{2}$/);
    await dates.first().waitFor();
    await page.reload();
    await expect.poll(() => times.first().textContent()).toMatch(/\d{2}:\d{2}:\d{2}$/);
    expect(
      await second.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth",
      ),
    ).toBe(0);
  });

  test("what could not be loaded can be asked for again", async () => {
    const id = await createJob();
    const { page } = await open("");
    for (const path of [`jobs/${id}/edit`, `jobs/_new?from=${id}`, "signing-secret", "settings"]) {
      await page.route(/\/api\/(jobs\/|signing-secret|users)/, databaseAway);
      await page.goto(`/dashboard/${path}`);
      const problem = page.getByRole("alert").filter({ hasText: "The database is away." });
      await problem.getByRole("button", { name: "Try again" }).waitFor();
      // Pressed first: the page comes back by itself, too, and then there is no button any more.
      await problem.getByRole("button", { name: "Try again" }).click();
      await page.unrouteAll();
      await expect.poll(() => problem.count()).toBe(0);
    }
  });

  test("a server that does not answer is given up, and what may have been done all the same is said so", async () => {
    const { page } = await open("");
    await page.clock.install();
    await page.route(/\/api\/(logs|api-keys|jobs\/check)/, () => undefined);
    /** Lets more time pass than anybody would wait. */
    const told = async (text: string) => {
      await page.clock.fastForward("02:01");
      return page.getByRole("alert").getByText(text, { exact: true }).count();
    };
    await place(page, "Email log").click();
    await expect.poll(() => told("Carillon does not answer.")).toBe(1);
    await place(page, "API keys").click();
    await createKey(page, "unanswered");
    const inDoubt = "Carillon does not answer. Look whether it was done all the same.";
    await expect.poll(() => told(inDoubt)).toBe(1);
    await page.goto("/dashboard/jobs/_new");
    await expect.poll(() => told("Carillon does not answer.")).toBe(1);
  });

  test("a check that cannot be made is not taken for a schedule that is wrong", async () => {
    const { page } = await open("");
    await page.route("**/jobs/check", databaseAway);
    await page.goto("/dashboard/jobs/_new");
    await page.getByRole("alert").getByText("The database is away.").waitFor();
    expect(await page.getByText("as soon as the schedule is valid").count()).toBe(0);
  });

  test("a time that has passed is not called a schedule that is wrong", async () => {
    const at = new Date(Date.now() + 1_000).toISOString();
    const fields = { schedule_type: "one_time", cron_expression: undefined, run_at: at };
    const id = await createJob(fields);
    const { page } = await open(`jobs/${id}`);
    await page.getByText("completed", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Edit" }).click();
    await page.getByText("This time has passed").waitFor();
    expect(await page.getByText("as soon as the schedule is valid").count()).toBe(0);
    await page.locator("input[type=datetime-local]").fill("");
    await page.getByText("as soon as the schedule is valid").waitFor();
  });

  test("time zones are found by the name that people use, and shown by the one that a job has", async () => {
    const id = await createJob({ timezone: "US/Eastern" });
    const { page } = await open(`jobs/${id}/edit`);
    const zone = page
      .getByRole("combobox", { name: "Time zone" })
      .or(page.getByRole("textbox", { name: "Time zone" }));
    await expect.poll(() => zone.inputValue()).toBe("US/Eastern");
    await zone.fill("Kolkata");
    await page.getByRole("option", { name: "Asia/Kolkata" }).click();
    await button(page, "Save").click();
    await page.getByText("in Asia/Kolkata").waitFor();
  });

  test("fire times say where the clocks change between them", async () => {
    const { page } = await open("jobs/_new");
    await choice(page, "Time zone").click();
    await choice(page, "Time zone").fill("America/New_York");
    await page.getByRole("option", { name: "America/New_York" }).click();
    // Ten fire times, a month apart: summer time begins or ends between them.
    await page.getByLabel("Cron expression").fill("0 12 1 * *");
    const changes = page.getByText(/^clocks go/);
    await changes.first().waitFor();
    expect([
      "clocks go forward: UTC−04:00",
      "clocks go back: UTC−05:00",
      "clocks go forward: UTC+02:00",
      "clocks go back: UTC+01:00",
    ]).toEqual(expect.arrayContaining(await changes.allTextContents()));
  });

  test("where the browser does not know its time zone, times are UTC's", async () => {
    const id = await createJob({ timezone: "Asia/Tokyo" });
    const timeZone = "Etc/Unknown";
    const { page, complaints } = await openTestWindow(stage.browser, program.url, {
      timeZone,
    });
    await signIn(page, owner);
    await page.goto(`/dashboard/jobs/${id}/edit`);
    await page.getByRole("columnheader", { name: "UTC (you)" }).waitFor();
    expect(complaints).toEqual([]);
  });

  test("what was said of SMTP settings is not said of others", async () => {
    const { page } = await open("smtp");
    const host = page.getByLabel("Host");
    const refused = page.locator(".mantine-InputWrapper-error");
    await host.fill("not a host");
    await button(page, "Save").click();
    await expect.poll(() => refused.count()).toBe(1);
    // The test's recipient is not one of the settings.
    await page.getByLabel("Send the test to").fill("ada@example.com");
    expect(await refused.count()).toBe(1);
    await page.getByLabel("Port").press("ArrowUp");
    await expect.poll(() => refused.count()).toBe(0);
    await button(page, "Save").click();
    await expect.poll(() => refused.count()).toBe(1);
    await host.fill("127.0.0.1");
    await expect.poll(() => refused.count()).toBe(0);
    expect(await page.getByRole("alert").count()).toBe(0);
  });

  test("Enter beside the test of the SMTP settings sends the test, and saves nothing", async () => {
    const { page } = await open("smtp");
    const from = page.getByLabel("From address");
    const saved = await from.inputValue();
    await from.fill("unsaved@example.com");
    await page.getByLabel("Send the test to").press("Enter");
    await page.getByText("The server accepted the mail.").waitFor();
    await page.reload();
    expect(await from.inputValue()).toBe(saved);
  });
});

function execution(index: number) {
  const at = new Date(Date.now() - index * 60_000).toISOString();
  return {
    kind: "execution",
    id: `execution-${index}`,
    status: "success",
    http_status: 200,
    duration_ms: 5,
    error_message: null,
    executed_at: at,
    attempt: 1,
    trigger: "schedule",
    scheduled_at: at,
  };
}
