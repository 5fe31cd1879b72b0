import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { leaveOut } from "../../leave-out.ts";
import { claimedRun } from "./claimed-run.ts";
import { loopbackSender } from "./loopback-sender.ts";
import { startReceiver } from "../../receiver.ts";

const run = promisify(execFile);
const PACKAGE = "standardwebhooks==1.0.0";

/** Prints `verified`, or the name of the package's own exception. */
const VERIFY = `
import json, sys
from standardwebhooks.webhooks import Webhook
secret, headers, body = json.loads(sys.argv[1])
try:
    Webhook(secret).verify(body, headers)
    print("verified")
except Exception as error:
    print(type(error).__name__)
`;

let folder: string;
let python: string | undefined;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "carillon-test-python-"));
  try {
    await run("python3", ["-m", "venv", folder]);
    python = join(folder, "bin", "python");
    await run(python, ["-m", "pip", "install", "-q", "--disable-pip-version-check", PACKAGE]);
  } catch (error) {
    python = undefined;
    leaveOut(`signatures, which are not verified in Python: ${String(error)}`);
  }
}, 120_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

const secret = (byte: number) => `whsec_${Buffer.alloc(24, byte).toString("base64")}`;

test("what a receiver gets is verified by the package of PyPI, with either secret of a rotation", async (context) => {
  const interpreter = python ?? context.skip();
  const receiver = await startReceiver();
  const sender = loopbackSender();
  const payload = '{ "é": "😀", "n":1.50 }';
  const delivery = claimedRun({ url: receiver.url, payload });
  if (delivery.spec.target.kind !== "webhook") throw new Error("a webhook");
  await sender.send({
    run: delivery,
    target: delivery.spec.target,
    signingSecrets: [secret(2), secret(1)],
    signal: new AbortController().signal,
    maySend: () => true,
  });
  const [call] = await receiver.count(1);
  const body = call?.body ?? "";
  const verify = async (byte: number, text = body): Promise<string> => {
    const input = JSON.stringify([secret(byte), call?.headers, text]);
    return (await run(interpreter, ["-c", VERIFY, input])).stdout.trim();
  };
  expect(body).toBe(payload);
  expect(await verify(2)).toBe("verified");
  expect(await verify(1)).toBe("verified");
  expect(await verify(3)).toBe("WebhookVerificationError");
  expect(await verify(1, `${body} `)).toBe("WebhookVerificationError");
  await sender.close();
  await receiver.close();
});
