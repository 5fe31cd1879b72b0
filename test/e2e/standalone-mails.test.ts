import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startScriptedServer, type ScriptedServer } from "../integration/mail/scripted-server.ts";
import { until } from "../until.ts";
import { call, run, startStandalone, type Standalone } from "./program.ts";

let directory: string;
let program: Standalone | undefined;
let server: ScriptedServer;
let key = "";

/** The server's answer to the first mail that it has received in full. It does not answer the others. */
const first = Promise.withResolvers<string>();
let mails = 0;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "carillon-e2e-"));
  server = await startScriptedServer({
    END: () => ((mails += 1) === 1 ? first.promise : "hang"),
  });
});
afterEach(async () => {
  server.close();
  program?.signal("SIGTERM");
  await program?.finished;
  await rm(directory, { recursive: true, force: true });
});

/** Sends a mail, and disconnects when the mail server has it. */
async function sendAndLeave(url: string, subject: string): Promise<void> {
  const before = mails;
  const gone = new AbortController();
  const answer = fetch(`${url}/send`, {
    method: "POST",
    headers: { "X-API-Key": key, "Content-Type": "application/json" },
    body: JSON.stringify({ to: "you@example.com", subject, body: "Hi" }),
    signal: gone.signal,
  });
  await until("the server has the mail", () => mails > before);
  gone.abort();
  await expect(answer).rejects.toThrow("aborted");
}

test(
  "at SIGTERM mails have 25 s, whether or not somebody waits for them, and all are logged",
  { timeout: 90_000 },
  async () => {
    program = await startStandalone(directory);
    key = program.printed("API key") ?? "";
    const { url } = program;
    const settings = `--account default --host 127.0.0.1 --port ${server.port} --from me@example.com --tls none`;
    const set = run("cli", {
      args: `admin smtp set ${settings}`.split(" "),
      env: { CARILLON_DATA_DIR: directory },
    });
    expect(await set.finished).toMatchObject({ code: 0 });
    await sendAndLeave(url, "slow");
    await sendAndLeave(url, "too slow");

    program.signal("SIGTERM");
    await until("nobody is let in any more", () =>
      call(url, { path: "/healthz" }).then(
        () => false,
        () => true,
      ),
    );
    first.resolve("250 queued");
    expect((await program.finished).code).toBe(0);

    program = await startStandalone(directory);
    expect(await call(program.url, { key, path: "/logs" })).toMatchObject({
      body: {
        logs: [
          {
            subject: "too slow",
            status: "failed",
            error_message: expect.stringContaining("may have been sent"),
          },
          { subject: "slow", status: "sent" },
        ],
      },
    });
  },
);
