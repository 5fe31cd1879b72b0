import type { Locator, Page } from "playwright-core";

export interface Opening {
  /** The page, below `/dashboard/`; `JOB` stands for a job's id. */
  path: string;
  what: string;
  /** Opens it, and resolves when it is shown. */
  open: (page: Page) => Promise<void>;
  /** Set if it exists only on such a screen. */
  only?: "desktop" | "phone";
}

const button = (page: Page, name: string | RegExp): Locator =>
  page.getByRole("button", { name, ...(typeof name === "string" ? { exact: true } : {}) });

/** Until it is shown. */
async function makeKey(page: Page): Promise<void> {
  await button(page, "Create API key").click();
  await page.getByLabel("Label").fill("shown once");
  await button(page, "Create").click();
  await button(page, "Copy the key").waitFor();
}

const dialog = (path: string, what: string, steps: readonly (string | RegExp)[]): Opening => ({
  path,
  what,
  async open(page) {
    for (const step of steps) {
      const control = button(page, step).or(page.getByRole("menuitem", { name: step }));
      await control.first().click();
    }
    await page.getByRole("dialog").waitFor();
  },
});

const options = (path: string, label: string): Opening => ({
  path,
  what: `the options of ${label}`,
  async open(page) {
    await page
      .getByRole("combobox", { name: label })
      .or(page.getByRole("textbox", { name: label }))
      .first()
      .click();
    await page.getByRole("option").first().waitFor();
  },
});

const menu = (path: string, name: string | RegExp): Opening => ({
  path,
  what: `the menu ${String(name)}`,
  async open(page) {
    await button(page, name).click();
    await page.getByRole("menuitem").first().waitFor();
  },
});

/** Everything that can be opened over a page. */
export const OPENINGS: readonly Opening[] = [
  menu("", /your user/),
  {
    path: "",
    what: "the navigation",
    only: "phone",
    async open(page) {
      await button(page, "Open the navigation").click();
      await button(page, "Close the navigation").waitFor();
    },
  },
  options("jobs", "Status"),
  options("jobs", "Type"),
  options("jobs", "Order"),
  {
    path: "jobs",
    what: "the bar of the selected jobs",
    async open(page) {
      await page
        .getByLabel(/^Select /)
        .last()
        .check();
      await page.getByRole("region", { name: "Selected jobs" }).waitFor();
    },
  },
  menu("jobs/JOB", "More actions"),
  dialog("jobs/JOB", "delete this job", ["More actions", /Delete/]),
  {
    path: "jobs/JOB",
    what: "a message",
    async open(page) {
      await button(page, "More actions").click();
      await page.getByRole("menuitem", { name: "Copy as curl" }).click();
      await page.getByText("Command copied").waitFor();
    },
  },
  options("jobs/_new", "Time zone"),
  {
    path: "jobs/_new",
    what: "the policies, with the choice of overlaps",
    async open(page) {
      await button(page, "Retries, overlaps and deadlines").click();
      await options("", "While an older run is unfinished").open(page);
    },
  },
  {
    path: "jobs/_new",
    what: "what is wrong with it",
    async open(page) {
      await button(page, "Create job").click();
      await page.getByText("must not be empty").or(page.getByRole("alert")).first().waitFor();
    },
  },
  options("logs", "Outcome"),
  options("logs", "Kind"),
  dialog("api-keys", "create an API key", ["Create API key"]),
  dialog("api-keys", "delete an API key", [/^Delete the key/]),
  {
    path: "api-keys",
    what: "the new API key",
    open: makeKey,
  },
  {
    path: "api-keys",
    what: "whether to leave the new API key",
    async open(page) {
      await makeKey(page);
      await page.locator("nav a[href$='/jobs']").dispatchEvent("click");
      await button(page, "Leave").waitFor();
    },
  },
  options("smtp", "Provider"),
  options("smtp", "Encryption"),
  dialog("signing-secret", "rotate the secret", ["Rotate the secret"]),
  options("settings", "Time zone"),
  dialog("settings", "invite somebody", ["Invite"]),
  dialog("settings", "delete the account", [/^Delete (the|this) account/]),
  dialog("accounts", "create an account", ["Create account"]),
];
