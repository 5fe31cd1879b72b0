import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startStandalone, type Standalone } from "../program.ts";
import { startReceiver, type Receiver } from "../receiver.ts";
import { violations } from "./axe.ts";
import { findChrome, launchChrome } from "./chrome.ts";
import { DESKTOP, openWindow, PHONE, printedOwner, signIn, type Owner } from "./owner.ts";
import { sampleData } from "./sample-data.ts";

const chrome = findChrome();
const PAGES = [
  { path: "", title: "Overview" },
  { path: "jobs", title: "Jobs" },
  { path: "jobs/JOB", title: "Nightly report" },
  { path: "jobs/JOB/edit", title: "Edit Nightly report" },
  { path: "jobs/new", title: "Create a job" },
  { path: "logs", title: "Email log" },
  { path: "otp", title: "Passcodes" },
  { path: "api-keys", title: "API keys" },
  { path: "smtp", title: "SMTP" },
  { path: "signing-secret", title: "Webhook signing" },
  { path: "settings", title: "Settings" },
  { path: "accounts", title: "Accounts" },
  { path: "nowhere", title: "There is no such page" },
];

describe.skipIf(chrome === undefined)("every page", () => {
  let data: string;
  let program: Standalone;
  let receiver: Receiver;
  let browser: Browser;
  let owner: Owner;
  let job: string;
  beforeAll(async () => {
    data = await mkdtemp(join(tmpdir(), "carillon-pages-"));
    [receiver, program] = await Promise.all([startReceiver(), startStandalone(data)]);
    browser = await launchChrome(chrome ?? "");
    owner = printedOwner(program.printed("Sign in"));
    const key = program.printed("API key") ?? "";
    [job = ""] = (await sampleData({ url: program.url, key, receiver })).jobs;
  });
  afterAll(async () => {
    await browser?.close();
    program?.signal("SIGTERM");
    await program?.finished;
    await receiver?.close();
    await rm(data, { recursive: true, force: true });
  });

  const windows = [
    { name: "desktop, light", view: DESKTOP, scheme: "light" },
    { name: "desktop, dark", view: DESKTOP, scheme: "dark" },
    { name: "phone, light", view: PHONE, scheme: "light" },
    { name: "phone, dark", view: PHONE, scheme: "dark" },
  ] as const;
  test.each(windows)(
    "$name: reads well for everybody, fits, and breaks no policy",
    async ({ view, scheme }) => {
      const { context, page, complaints } = await openWindow(browser, program.url, {
        view,
        scheme,
      });
      await page.goto("/dashboard/");
      await page.getByRole("button", { name: "Sign in" }).waitFor();
      const found = [...(await violations(page)).map((line) => `sign in: ${line}`)];
      await signIn(page, owner);
      for (const { path, title } of PAGES) {
        await page.goto(`/dashboard/${path.replace("JOB", job)}`);
        await page.getByRole("heading", { level: 1, name: title }).waitFor();
        await page.waitForLoadState("networkidle");
        found.push(...(await violations(page)).map((line) => `${title}: ${line}`));
        const overflow = await page.evaluate(
          "document.documentElement.scrollWidth - document.documentElement.clientWidth",
        );
        if (overflow !== 0) found.push(`${title}: ${String(overflow)} px wider than the window`);
      }
      expect(found).toEqual([]);
      expect(complaints).toEqual([]);
      await context.close();
    },
    120_000,
  );

  test("the first load is light, and soon there", async () => {
    const { context, page } = await openWindow(browser, program.url);
    const session = await context.newCDPSession(page);
    await session.send("Network.enable");
    let bytes = 0;
    const scripts = new Set<string>();
    session.on("Network.responseReceived", ({ requestId, type }) => {
      if (type === "Script") scripts.add(requestId);
    });
    session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
      if (scripts.has(requestId)) bytes += encodedDataLength;
    });
    await signIn(page, owner);
    await page.reload();
    bytes = 0;
    await session.send("Network.clearBrowserCache");
    await page.reload();
    await page.getByRole("heading", { level: 2, name: "Next runs" }).waitFor();
    await page.waitForLoadState("networkidle");
    const paint = (await page.evaluate(
      `performance.getEntriesByName("first-contentful-paint")[0]?.startTime`,
    )) as number;
    console.log(
      `first load: ${Math.round(bytes / 1024)} KiB of scripts, painted in ${Math.round(paint)} ms`,
    );
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThan(250_000);
    expect(paint).toBeLessThan(1_000);
    await context.close();
  });
});
