import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Standalone } from "../program.ts";
import { violations } from "./axe.ts";
import { findChrome } from "./chrome.ts";
import { OPENINGS } from "./openings.ts";
import { DESKTOP, PHONE, settled, signIn, type Owner } from "./owner.ts";
import { sampleData } from "./sample-data.ts";
import { openStage, openTestWindow, type Stage } from "./stage.ts";

const chrome = findChrome();

/** Pixels between the middle of the window and the middle of an open dialog; 0 without a dialog. */
const DIALOG_ASIDE = `(() => {
  const dialog = document.querySelector(".mantine-Modal-content");
  if (!dialog) return 0;
  const { left, width } = dialog.getBoundingClientRect();
  return Math.round(left + width / 2 - document.documentElement.clientWidth / 2);
})()`;

describe.skipIf(chrome === undefined)("everything that opens", () => {
  let stage: Stage;
  let program: Standalone;
  let owner: Owner;
  let browser: Browser;
  let job: string;
  beforeAll(async () => {
    stage = await openStage({ name: "openings", chrome });
    ({ program, owner, browser } = stage);
    [job = ""] = (await sampleData(stage)).jobs;
  });
  afterAll(() => stage?.close());

  test.each([
    { name: "desktop", view: DESKTOP, scheme: "light" },
    { name: "desktop", view: DESKTOP, scheme: "dark" },
    { name: "phone", view: PHONE, scheme: "light" },
    { name: "phone", view: PHONE, scheme: "dark" },
  ] as const)(
    "$name, $scheme: reads well for everybody, and fits",
    async ({ name, view, scheme }) => {
      const { page, complaints } = await openTestWindow(browser, program.url, {
        view,
        scheme,
      });
      await signIn(page, owner);
      const found: string[] = [];
      for (const { path, what, open, only } of OPENINGS) {
        if (only !== undefined && only !== name) continue;
        await page.goto(`/dashboard/${path.replace("JOB", job)}`);
        await settled(page);
        try {
          await open(page);
        } catch (error) {
          throw new Error(`${path}: could not open ${what}`, { cause: error });
        }
        const place = `/${path}: ${what}`;
        // The dark scheme has the same elements: only its colours are checked.
        const look = scheme === "light" ? "everything" : "colours";
        found.push(...(await violations(page, look)).map((line) => `${place}: ${line}`));
        const overflow = await page.evaluate(
          "document.documentElement.scrollWidth - document.documentElement.clientWidth",
        );
        if (overflow !== 0) found.push(`${place}: ${String(overflow)} px wider than the window`);
        const aside = Number(await page.evaluate(DIALOG_ASIDE));
        if (Math.abs(aside) > 1) found.push(`${place}: the dialog is ${aside} px off the middle`);
      }
      expect(found).toEqual([]);
      expect(complaints).toEqual([]);
    },
    // For each opening, the whole page and what opens on it are checked.
    OPENINGS.length * 20_000,
  );
});
