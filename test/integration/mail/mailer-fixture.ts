import { monotonic, timers } from "../../../cmd/system.ts";
import type { SmtpSettings } from "../../../src/domain/account.ts";
import type { MailMessage } from "../../../src/domain/mail.ts";
import { startMailCatcher } from "../../../src/mail/mail-catcher.ts";
import { createMailer } from "../../../src/mail/mailer.ts";
import {
  parseDestinationRules,
  type DestinationRules,
} from "../../../src/network/destination-rules.ts";
import { createGuardedDial } from "../../../src/network/guarded-dial.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { startScriptedServer, type ScriptedServer, type SmtpScript } from "./scripted-server.ts";

export const HELLO: MailMessage = {
  to: "you@there.example",
  subject: "Hello",
  body: "Body",
  isHtml: false,
};

/** Creates mailers without TLS to servers on this machine. `close` ends all that were started. */
export function mailerFixture() {
  let ends: (() => Promise<void> | void)[] = [];

  async function catcher() {
    const started = await startMailCatcher({ smtpPort: 0, httpPort: 0, host: "127.0.0.1" });
    ends.push(() => started.close());
    return started;
  }

  function mailer(
    port: number,
    change: Partial<SmtpSettings> = {},
    options: {
      accountRules?: () => Promise<DestinationRules>;
      ehloName?: string;
      poolSize?: number;
      sendTimeoutMs?: number;
    } = {},
  ) {
    const { accountRules = async () => parseDestinationRules(""), ...rest } = options;
    const metrics = createMetrics({ version: "test", nodeMetrics: false });
    const state: { settings: SmtpSettings | undefined; revisions: number } = {
      settings: {
        host: "127.0.0.1",
        port,
        username: null,
        password: null,
        from: "me@sender.example",
        tls: "none",
        revision: "1",
        ...change,
      },
      revisions: 0,
    };
    const started = createMailer({
      timers,
      monotonic,
      settings: {
        get: async () => state.settings,
        revision: async () => {
          state.revisions += 1;
          return state.settings?.revision;
        },
        set: async () => undefined,
        delete: async () => undefined,
      },
      dial: createGuardedDial({
        rules: parseDestinationRules("127.0.0.0/8"),
        accountRules,
      }),
      metrics,
      log: createLogger({ level: "silent" }),
      // More than a test may take, so that no mail ends by its own limit unless the test says so.
      sendTimeoutMs: 60_000,
      ...rest,
    });
    ends.push(() => started.close());
    return { ...started, metrics, state };
  }

  async function scripted(script: SmtpScript): Promise<number> {
    return (await scriptedServer(script)).port;
  }

  async function scriptedServer(script: SmtpScript): Promise<ScriptedServer> {
    const server = await startScriptedServer(script);
    ends.push(() => {
      server.close();
    });
    return server;
  }

  async function close(): Promise<void> {
    for (const end of ends.toReversed()) await end();
    ends = [];
  }

  return { catcher, mailer, scripted, scriptedServer, close };
}
