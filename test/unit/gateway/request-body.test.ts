import { createHash } from "node:crypto";
import { once } from "node:events";
import { connect, type AddressInfo } from "node:net";
import { setImmediate } from "node:timers/promises";
import Koa from "koa";
import { describe, expect, test } from "vitest";
import { createBodyReader, memberText, parseJsonBody } from "../../../src/gateway/request-body.ts";
import { collectGarbage } from "../../collect-garbage.ts";
import { outOfFiles } from "../../out-of-files.ts";

const parse = (text: string) => parseJsonBody(Buffer.from(text));

test("a payload is kept byte for byte", () => {
  const payload = '{ "b": 1.0,\n\t"a":"\\u00e9é", "2":[], "1":{} }';
  const body = parse(`{"name":"x","webhook_payload":${payload} }`);
  expect(memberText(body, "webhook_payload")).toBe(payload);
  expect(memberText(body, "absent")).toBeUndefined();
});

test("null counts as absent", () => {
  expect(memberText(parse('{"webhook_payload": null}'), "webhook_payload")).toBeUndefined();
});

test("the fingerprint is that of the bytes", () => {
  expect(parse('{"a":1}').fingerprint()).not.toBe(parse('{"a": 1}').fingerprint());
  const bytes = Buffer.from('{"é":"🔔\ufeff"}');
  const hash = createHash("sha256").update(bytes).digest("hex");
  expect(parseJsonBody(bytes).fingerprint()).toBe(hash);
});

/** A function of its own, so that no variable of the test keeps them. */
function readOnce() {
  const bytes = Buffer.from(`{"a":"${"x".repeat(60_000)}"}`);
  return { body: parseJsonBody(bytes), bytes: new WeakRef(bytes) };
}

test("the bytes are not kept beside their text", async () => {
  const { body, bytes } = readOnce();
  // The target of a new WeakRef stays until the end of the turn.
  await setImmediate();
  collectGarbage();
  expect(bytes.deref()).toBeUndefined();
  expect(body.bytes).toBe(60_008);
});

test("a chunked body whose client had gone before anybody looked is waited for by nobody", async () => {
  const most = Promise.withResolvers<number>();
  const reader = createBodyReader({ limitBytes: 1_000 });
  const app = new Koa();
  app.silent = true;
  app.use(async (ctx) => {
    client.destroy();
    await new Promise((resolve) => ctx.req.once("close", resolve));
    most.resolve(await reader.mostBytes(ctx));
  });
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  client.write("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n");
  expect(await most.promise).toBe(1_000);
  server.close();
});

test("a body is read also when no file can be opened", async () => {
  const said = await outOfFiles(`
    import { once } from "node:events";
    import { connect } from "node:net";
    import Koa from "koa";
    import { createBodyReader } from "./src/gateway/request-body.ts";
    const reader = createBodyReader({ limitBytes: 1_000 });
    const app = new Koa();
    app.use(async (ctx) => {
      useUpFiles();
      const { text } = await reader.read(ctx);
      console.log("read", text);
      process.exit();
    });
    const server = app.listen(0, "127.0.0.1");
    await once(server, "listening");
    const head = "POST / HTTP/1.1\\r\\nHost: a\\r\\nContent-Type: application/json\\r\\n";
    connect(server.address().port, "127.0.0.1").write(head + "Content-Length: 2\\r\\n\\r\\n{}");
  `);
  expect(said.trim()).toBe("read {}");
});

describe("refused", () => {
  const cases = [
    { name: "a lone continuation byte", bytes: [0x7b, 0x22, 0x80, 0x22, 0x3a, 0x31, 0x7d] },
    { name: "an overlong form", bytes: [0x7b, 0x22, 0xc0, 0xaf, 0x22, 0x3a, 0x31, 0x7d] },
    { name: "a surrogate in UTF-8", bytes: [0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d] },
    { name: "UTF-16", bytes: [...Buffer.from('{"a":1}', "utf16le")] },
    { name: "nothing", bytes: [] },
    { name: "a byte order mark", bytes: [...Buffer.from('\ufeff{"a":1}')] },
  ];
  test.each(cases)("$name", ({ bytes }) => {
    expect(() => parseJsonBody(Buffer.from(bytes))).toThrow(
      expect.objectContaining({ code: "invalid_json" }),
    );
  });
  test("more values than any schema takes, before a validator collects an error for each", () => {
    const message = "the body has more than 2000 values";
    expect(() => parse(`{"attachments":[${"0,".repeat(5_000)}0]}`)).toThrow(
      expect.objectContaining({
        code: "invalid_request",
        message,
        details: [{ field: "", message }],
      }),
    );
  });
  test.each(["attachments", "webhook_payload"])(
    "too many of them in %s are refused where they are too many, not at their end",
    (name) => {
      // The text has no end: a parser that reads so far would say `invalid_json`.
      expect(() => parse(`{"${name}":[${"0,".repeat(200_000)}`)).toThrow(
        expect.objectContaining({ code: "invalid_request" }),
      );
    },
  );
  test("but not inside webhook_payload, which no validator walks", () => {
    expect(parse(`{"webhook_payload":{"a":[${"0,".repeat(5_000)}0]}}`).members.size).toBe(1);
  });
});
