import type { Browser, Page } from "playwright-core";
import { findChrome, launchChrome } from "../test/e2e/dashboard/chrome.ts";
import { openWindow, signIn, type Owner } from "../test/e2e/dashboard/owner.ts";
import { median } from "./median.ts";

const PAINTS = 5;
const PAGES = 20;

export interface BrowserFigures {
  /** Median of five cold loads of the signed-in overview. */
  firstContentfulPaintMs: number;
  /** Size of a cold load's scripts as transferred. */
  scriptBytes: number;
  /** From the click on Jobs until its first row is shown. */
  rowsMs: number;
  /** From a click on the next page of the list until its rows are shown: median and worst of twenty. */
  pageMs: { p50: number; max: number };
  /** The longest time for which the page did not react while paging and searching. */
  longestTaskMs: number;
}

/** Undefined when there is no browser, after saying so. */
export async function measureBrowser(target: {
  url: string;
  owner: Owner;
}): Promise<BrowserFigures | undefined> {
  const chrome = findChrome();
  if (chrome === undefined) return undefined;
  const browser = await launchChrome(chrome);
  try {
    return { ...(await coldLoads(browser, target)), ...(await useJobs(browser, target)) };
  } finally {
    await browser.close();
  }
}

async function coldLoads(
  browser: Browser,
  { url, owner }: { url: string; owner: Owner },
): Promise<Pick<BrowserFigures, "firstContentfulPaintMs" | "scriptBytes">> {
  const { context, page } = await openWindow(browser, url);
  await signIn(page, owner);
  const session = await context.newCDPSession(page);
  await session.send("Network.enable");
  let scriptBytes = 0;
  const scripts = new Set<string>();
  session.on("Network.responseReceived", ({ requestId, type }) => {
    if (type === "Script") scripts.add(requestId);
  });
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    if (scripts.has(requestId)) scriptBytes += encodedDataLength;
  });
  const paints: number[] = [];
  for (let load = 0; load < PAINTS; load += 1) {
    await session.send("Network.clearBrowserCache");
    scriptBytes = 0;
    await page.goto("/dashboard/");
    await page.getByRole("heading", { level: 2, name: "Next runs" }).waitFor();
    await page.waitForLoadState("networkidle");
    paints.push(
      await page.evaluate<number>(
        `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity`,
      ),
    );
  }
  await context.close();
  return { firstContentfulPaintMs: median(paints), scriptBytes };
}

async function useJobs(
  browser: Browser,
  { url, owner }: { url: string; owner: Owner },
): Promise<Pick<BrowserFigures, "rowsMs" | "pageMs" | "longestTaskMs">> {
  const { context, page } = await openWindow(browser, url);
  await signIn(page, owner);
  await page.waitForLoadState("networkidle");
  await page.evaluate(`
    globalThis.longest = 0;
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) globalThis.longest = Math.max(globalThis.longest, duration);
    }).observe({ entryTypes: ["longtask"] });
    globalThis.untilFirstRowIsNot = (before) => new Promise((resolve) => {
      const look = () => {
        const link = document.querySelector("tbody a.row-link");
        if (link && link.textContent !== before) resolve(performance.now());
        else requestAnimationFrame(look);
      };
      look();
    });
  `);
  const rowsMs = await untilRows(page, `document.querySelector('nav a[href="/dashboard/jobs"]')`);
  const pages: number[] = [];
  for (let turn = 0; turn < PAGES; turn += 1)
    pages.push(await untilRows(page, `document.querySelector('[aria-label="next page"]')`));
  await page.getByLabel("Search").pressSequentially("report 00", { delay: 30 });
  await page.getByText(/^\d+ jobs$/).waitFor();
  await page.mouse.wheel(0, 2_000);
  const longestTaskMs = (await page.evaluate("globalThis.longest")) as number;
  await context.close();
  pages.sort((a, b) => a - b);
  return { rowsMs, pageMs: { p50: median(pages), max: pages.at(-1) ?? 0 }, longestTaskMs };
}

/** Milliseconds from a click until the first row has changed. */
async function untilRows(page: Page, button: string): Promise<number> {
  return (await page.evaluate(`(async () => {
    const before = document.querySelector("tbody a.row-link")?.textContent;
    const began = performance.now();
    ${button}.click();
    return (await globalThis.untilFirstRowIsNot(before)) - began;
  })()`)) as number;
}
