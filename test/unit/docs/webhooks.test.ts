import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { sign } from "../../../src/delivery/signature.ts";

const SECRET = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;

test("the receiver of docs/webhooks.md takes what is signed, does it once, and takes nothing else", async () => {
  const page = await readFile("docs/webhooks.md", "utf8");
  const [, code = ""] = /^```js\n(.*?)^```/ms.exec(page) ?? [];
  const anyPort = "listen(0, function () { console.log(this.address().port); })";
  expect(code).toContain("listen(3000)");
  const receiver = spawn(
    process.execPath,
    ["--input-type=module", "--eval", code.replace("listen(3000)", anyPort)],
    { env: { CARILLON_SIGNING_SECRET: SECRET }, stdio: ["ignore", "pipe", "inherit"] },
  );
  try {
    const lines = createInterface(receiver.stdout)[Symbol.asyncIterator]();
    const port = String((await lines.next()).value);
    const call = async (body: string, signed = body) => {
      const timestamp = Math.floor(Date.now() / 1_000);
      const headers = {
        "webhook-id": "run-1",
        "webhook-timestamp": String(timestamp),
        "webhook-signature": sign({ id: "run-1", timestamp, body: signed, secrets: [SECRET] }),
        "carillon-job-id": "nightly",
      };
      const answer = await fetch(`http://127.0.0.1:${port}`, { method: "POST", headers, body });
      return answer.status;
    };
    const body = '{ "price": "5 €" }';
    expect(await call('{ "price": "0 €" }', body)).toBe(401);
    expect(await call(body)).toBe(204);
    expect(await call(body)).toBe(204);
    receiver.kill();
    const done: unknown[] = [];
    for await (const line of { [Symbol.asyncIterator]: () => lines }) done.push(line);
    expect(done).toEqual(["nightly { price: '5 €' }"]);
  } finally {
    receiver.kill("SIGKILL");
    if (receiver.exitCode === null && receiver.signalCode === null) await once(receiver, "exit");
  }
});
