import type { Locator, Page } from "playwright-core";

/** A page's link in the menu. */
export const place = (page: Page, name: string): Locator =>
  page.getByRole("navigation", { name: "Main" }).getByRole("link", { name, exact: true });

/** A page's own heading. */
export const heading = (page: Page, name: string): Locator =>
  page.getByRole("heading", { level: 1, name });

export const button = (page: Page, name: string): Locator =>
  page.getByRole("button", { name, exact: true });

/** Presses the button that copies something, and resolves with it once it was copied. */
export async function copied(page: Page, name: string): Promise<string> {
  await button(page, name).click();
  await button(page, "Copied").waitFor();
  return String(await page.evaluate("navigator.clipboard.readText()"));
}

export const dialog = (page: Page): Locator => page.getByRole("dialog");

/** What is chosen from a list: Mantine gives the field one role or the other. */
export const choice = (page: Page, name: string): Locator =>
  page.getByRole("combobox", { name }).or(page.getByRole("textbox", { name })).first();
