import { existsSync } from "node:fs";
import { chromium, type Browser } from "playwright-core";
import { leaveOut } from "../../leave-out.ts";

/** Where Chrome and Chromium are installed, by system. */
const PLACES = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/usr/bin/google-chrome-stable",
  "/snap/bin/chromium",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
  "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe",
  "C:\\Program Files (x86)\\Google\\Chrome\\Application\\chrome.exe",
];

/** CHROME_PATH, or the first browser that is installed. Without one its tests are skipped, loudly; in CI that fails. */
export function findChrome(): string | undefined {
  const given = process.env["CHROME_PATH"];
  if (given !== undefined && given !== "") {
    if (!existsSync(given)) throw new Error(`CHROME_PATH names no file: ${given}`);
    return given;
  }
  const found = PLACES.find((place) => existsSync(place));
  if (found !== undefined) return found;
  const advice = "install Chromium or Chrome, or set CHROME_PATH";
  leaveOut(`the dashboard's browser tests, because there is no browser: ${advice}`);
  return undefined;
}

export async function launchChrome(executablePath: string): Promise<Browser> {
  return chromium.launch({
    executablePath,
    // Chrome's sandbox refuses to run as root, as containers do.
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });
}
