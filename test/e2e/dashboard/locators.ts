import type { Locator, Page } from "playwright-core";

/** The link to a page in the navigation. */
export const place = (page: Page, name: string): Locator =>
  page.getByRole("navigation", { name: "Main" }).getByRole("link", { name, exact: true });

/** A page's main heading. */
export const heading = (page: Page, name: string): Locator =>
  page.getByRole("heading", { level: 1, name });

export const button = (page: Page, name: string): Locator =>
  page.getByRole("button", { name, exact: true });

/** Presses a button that copies something, and returns what it copied. */
export async function copied(page: Page, name: string): Promise<string> {
  await button(page, name).click();
  await button(page, "Copied").waitFor();
  return String(await page.evaluate("navigator.clipboard.readText()"));
}

export const dialog = (page: Page): Locator => page.getByRole("dialog");

/** A field in which one chooses from a list. Mantine gives it one role or the other. */
export const choice = (page: Page, name: string): Locator =>
  page.getByRole("combobox", { name }).or(page.getByRole("textbox", { name })).first();
