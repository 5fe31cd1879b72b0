import type { Browser, BrowserContext, Page } from "playwright-core";

export interface Owner {
  email: string;
  password: string;
}

export interface View {
  width: number;
  height: number;
}

export const DESKTOP: View = { width: 1280, height: 860 };
export const PHONE: View = { width: 390, height: 844 };

/** The address and the password that a first start prints. */
export function printedOwner(line: string | undefined): Owner {
  const [email = "", password = ""] = (line ?? "").split(" ");
  if (password === "") throw new Error(`no credentials were printed: ${line}`);
  return { email, password };
}

/** A new browser window. `complaints` collects errors of its pages. */
export async function openWindow(
  browser: Browser,
  url: string,
  options: { view?: View; scheme?: "light" | "dark"; timeZone?: string } = {},
): Promise<{ context: BrowserContext; page: Page; complaints: string[] }> {
  const view = options.view ?? DESKTOP;
  const context = await browser.newContext({
    baseURL: url,
    viewport: view,
    colorScheme: options.scheme ?? "light",
    hasTouch: view.width < 500,
    timezoneId: options.timeZone ?? "Europe/Berlin",
    locale: "en-GB",
    permissions: ["clipboard-read", "clipboard-write"],
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // The browser also logs answers 4xx as errors; the page shows them to the user.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      complaints.push(message.text());
  });
  return { context, page, complaints };
}

export async function signIn(page: Page, owner: Owner): Promise<void> {
  await page.goto("/dashboard/");
  await page.getByLabel("Email").fill(owner.email);
  await page.locator("input[name=password]").fill(owner.password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
}

/** Signs the window in as the form does, but without two pages that most tests are not about. */
export async function signInWithoutForm(context: BrowserContext, owner: Owner): Promise<void> {
  const headers = { "sec-fetch-site": "same-origin" };
  const answer = await context.request.post("/dashboard/api/session", { data: owner, headers });
  if (!answer.ok()) throw new Error(`signing in: ${answer.status()} ${await answer.text()}`);
}

/**
 * Waits until the page shows what it was opened for, and nothing of it is being loaded any more. The browser's own
 * "networkidle" would cost half a second with each page.
 */
export async function settled(page: Page, title?: string): Promise<void> {
  // A heading inside of #content: the page that is shown during loading has one elsewhere.
  const heading = { level: 1, ...(title === undefined ? {} : { name: title }) };
  await page.locator("#content").getByRole("heading", heading).waitFor();
  await page.getByLabel("Loading", { exact: true }).first().waitFor({ state: "detached" });
}

/** As when the user goes to another tab, or comes back to this one: the page looks whether anything has changed. */
export const show = (page: Page, state: "hidden" | "visible") =>
  page.evaluate(`(() => {
    Object.defineProperty(document, "visibilityState", { configurable: true, value: "${state}" });
    dispatchEvent(new Event("visibilitychange"));
  })()`);
