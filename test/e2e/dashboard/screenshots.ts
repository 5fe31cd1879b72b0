/**
 * `npm run screenshots -- DIRECTORY`: every page of the dashboard with a day's data, on a desktop and on a phone, light
 * and dark.
 */
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { findChrome } from "./chrome.ts";
import { DESKTOP, openWindow, PHONE, signIn } from "./owner.ts";
import { sampleData } from "./sample-data.ts";
import { openStage } from "./stage.ts";

const directory = resolve(process.argv[2] ?? "screenshots");
const chrome = findChrome();
if (chrome === undefined) process.exit(1);
await mkdir(directory, { recursive: true });
const stage = await openStage({ name: "screenshots", chrome });
const { program, owner, browser } = stage;
try {
  const { jobs } = await sampleData(stage);
  const places: Record<string, string> = {
    overview: "",
    jobs: "jobs",
    job: `jobs/${jobs[0]}`,
    "job-failing": `jobs/${jobs[3]}`,
    "job-new": "jobs/_new",
    logs: "logs",
    otp: "otp",
    "api-keys": "api-keys",
    smtp: "smtp",
    "signing-secret": "signing-secret",
    settings: "settings",
    accounts: "accounts",
  };
  for (const scheme of ["light", "dark"] as const)
    for (const [size, view] of Object.entries({ desktop: DESKTOP, phone: PHONE })) {
      const { context, page } = await openWindow(browser, program.url, { view, scheme });
      await page.goto("/dashboard/");
      await page.getByRole("button", { name: "Sign in" }).waitFor();
      await page.screenshot({ path: join(directory, `sign-in-${size}-${scheme}.png`) });
      await signIn(page, owner);
      for (const [name, path] of Object.entries(places)) {
        await page.goto(`/dashboard/${path}`);
        await page.getByRole("heading", { level: 1 }).waitFor();
        await page.waitForLoadState("networkidle");
        await page.screenshot({
          path: join(directory, `${name}-${size}-${scheme}.png`),
          fullPage: true,
        });
      }
      await context.close();
    }
  console.log(`wrote ${directory}`);
} finally {
  await stage.close();
}
process.exit();
