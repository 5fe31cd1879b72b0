import { expect, test } from "vitest";
import { Webhook } from "standardwebhooks";
import { sign } from "../../../src/delivery/signature.ts";

const secret = (byte: number) => `whsec_${Buffer.alloc(24, byte).toString("base64")}`;
const message = {
  id: "0190b7a2-0000-7000-8000-000000000000",
  timestamp: Math.floor(Date.now() / 1_000),
  body: '{"é":"😀"}',
};
const headers = (signature: string) => ({
  "webhook-id": message.id,
  "webhook-timestamp": String(message.timestamp),
  "webhook-signature": signature,
});

test("receivers with the old and with the new secret verify during a rotation", () => {
  const both = headers(sign({ ...message, secrets: [secret(2), secret(1)] }));
  for (const byte of [1, 2])
    expect(new Webhook(secret(byte)).verify(message.body, both)).toEqual({ é: "😀" });
  expect(() => new Webhook(secret(3)).verify(message.body, both)).toThrow(
    "No matching signature found",
  );
});

test("another body, id or time does not verify", () => {
  const signature = sign({ ...message, secrets: [secret(1)] });
  const webhook = new Webhook(secret(1));
  expect(() => webhook.verify('{"é":"x"}', headers(signature))).toThrow(
    "No matching signature found",
  );
  expect(() =>
    webhook.verify(message.body, { ...headers(signature), "webhook-id": "other" }),
  ).toThrow("No matching signature found");
});
