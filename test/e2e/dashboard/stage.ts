import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { startStandalone, type Standalone } from "../program.ts";
import { startReceiver, type Receiver } from "../receiver.ts";
import { launchChrome } from "./chrome.ts";
import { printedOwner, type Owner } from "./owner.ts";

/** A program at its first start, its owner, a receiver for its webhooks, and a browser. */
export interface Stage {
  program: Standalone;
  owner: Owner;
  receiver: Receiver;
  browser: Browser;
  /** The program's data directory. */
  data: string;
  close(): Promise<void>;
}

export async function openStage(options: {
  /** Part of the data directory's name. */
  name: string;
  /** As `findChrome` has found it. */
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
    return { program, owner, receiver, browser, data, close };
  } catch (error) {
    await close();
    throw error;
  }
}
