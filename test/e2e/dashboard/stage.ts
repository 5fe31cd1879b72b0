import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { onTestFinished } from "vitest";
import { call, startStandalone, type Standalone } from "../program.ts";
import { startReceiver, type Receiver } from "../../receiver.ts";
import { launchChrome } from "./chrome.ts";
import {
  openWindow,
  printedOwner,
  settled,
  signInWithoutForm,
  type Owner,
  type View,
} from "./owner.ts";

/** A newly started program with its owner, a receiver for its webhooks, and a browser. */
export interface Stage {
  program: Standalone;
  owner: Owner;
  receiver: Receiver;
  browser: Browser;
  /** The program's data directory. */
  data: string;
  /** Opens a window for a test, in which the owner signs in and goes to a page below `/dashboard/`. */
  openPage(path: string, view?: View): ReturnType<typeof openWindow>;
  /** A call of the REST API with the key of the first start. */
  rest(request: { method?: string; path: string; body?: unknown }): ReturnType<typeof call>;
  /** Creates a webhook job for each night at three, changed by `fields`; resolves with its id. */
  createJob(fields: { name: string } & Record<string, unknown>): Promise<string>;
  close(): Promise<void>;
}

export async function openStage(options: {
  /** Part of the data directory's name. */
  name: string;
  /** The result of `findChrome`. */
  chrome: string | undefined;
  env?: Record<string, string>;
}): Promise<Stage> {
  const ends: (() => Promise<unknown>)[] = [];
  const close = async (): Promise<void> => {
    for (const end of ends.toReversed()) await end();
  };
  try {
    const data = await mkdtemp(join(tmpdir(), `carillon-${options.name}-`));
    ends.push(() => rm(data, { recursive: true, force: true }));
    const receiver = await startReceiver();
    ends.push(() => receiver.close());
    const program = await startStandalone(data, options.env);
    ends.push(() => {
      program.signal("SIGTERM");
      return program.finished;
    });
    const browser = await launchChrome(options.chrome ?? "");
    ends.push(() => browser.close());
    const owner = printedOwner(program.printed("Sign in"));
    const rest: Stage["rest"] = (request) =>
      call(program.url, { key: program.printed("API key") ?? "", ...request });
    return {
      program,
      owner,
      receiver,
      browser,
      data,
      openPage: async (path, view) => {
        const window = await openTestWindow(browser, program.url, { view });
        await signInWithoutForm(window.context, owner);
        await window.page.goto(`/dashboard/${path}`);
        await settled(window.page);
        return window;
      },
      rest,
      createJob: async (fields) => {
        const body = {
          type: "webhook",
          schedule_type: "cron",
          cron_expression: "0 3 * * *",
          webhook_url: `${receiver.url}/nightly`,
          ...fields,
        };
        const made = await rest({ method: "POST", path: "/jobs", body });
        if (made.status !== 201) throw new Error(`POST /jobs: ${made.status}`);
        return (made.body as { id: string }).id;
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Opens a window that is closed at the end of the test. */
export async function openTestWindow(
  ...options: Parameters<typeof openWindow>
): ReturnType<typeof openWindow> {
  const window = await openWindow(...options);
  onTestFinished(() => window.context.close());
  return window;
}
