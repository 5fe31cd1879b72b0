import type { Locator, Page } from "playwright-core";

/** A page's link in the menu. */
export const place = (page: Page, name: string): Locator =>
  page.getByRole("navigation", { name: "Main" }).getByRole("link", { name, exact: true });

/** A page's own heading. */
export const heading = (page: Page, name: string): Locator =>
  page.getByRole("heading", { level: 1, name });
