import { describe, expect, test } from "vitest";
import { MalformedWatch, watchEvents } from "../../../src/kubernetes/watch-events.ts";

async function* chunks(...texts: readonly (string | Buffer)[]): AsyncGenerator<Buffer> {
  for (const text of texts) yield Buffer.from(text);
}

async function read(...texts: readonly (string | Buffer)[]): Promise<unknown[]> {
  const events: unknown[] = [];
  for await (const together of watchEvents(chunks(...texts))) events.push(...together);
  return events;
}

const event = (name: string) => ({ type: "ADDED", object: { metadata: { name } } });

describe("watchEvents", () => {
  test("lines split anywhere, also inside a character", async () => {
    const text = Buffer.from(`${JSON.stringify(event("ü"))}\n${JSON.stringify(event("b"))}\n`);
    for (let at = 1; at < text.length; at += 1)
      expect(await read(text.subarray(0, at), text.subarray(at))).toEqual([event("ü"), event("b")]);
    const bytes = Array.from(text, (byte) => Buffer.of(byte));
    expect(await read(...bytes)).toEqual([event("ü"), event("b")]);
  });

  test("however much is told in all, the limit is that of one line", async () => {
    const line = `${JSON.stringify(event("x".repeat(1 << 20)))}\n`;
    // Each piece has the end of a line, and nearly all of the next one.
    const pieces = Array<string>(20).fill(line.slice(-10) + line.slice(0, -10));
    expect(await read(line.slice(0, -10), ...pieces)).toHaveLength(20);
  });

  test("an object in many pieces costs no more than in one", { timeout: 10_000 }, async () => {
    const large = event("x".repeat(8 << 20));
    const text = Buffer.from(`${JSON.stringify(event("a"))}\n${JSON.stringify(large)}\n`);
    async function* pieces(): AsyncGenerator<Buffer> {
      for (let at = 0; at < text.length; at += 256) {
        // As from a socket; otherwise no time-out would fire here.
        if (at % 65_536 === 0) await new Promise(setImmediate);
        yield text.subarray(at, at + 256);
      }
    }
    const events: unknown[] = [];
    for await (const together of watchEvents(pieces())) events.push(...together);
    expect(events).toEqual([event("a"), large]);
  });

  test("a line that the end cut off is no event", async () => {
    expect(await read(`${JSON.stringify(event("a"))}\n{"type":"ADD`)).toEqual([event("a")]);
  });

  const BAD: { title: string; line: string }[] = [
    { title: "not JSON", line: "<html>" },
    { title: "not an event", line: '{"kind":"Status"}' },
    { title: "no object", line: '{"type":"ADDED"}' },
    { title: "null", line: "null" },
  ];
  test.each(BAD)("$title ends the watch", async ({ line }) => {
    await expect(read(`${line}\n`)).rejects.toThrow(MalformedWatch);
  });

  test("what comes together is told together, also before a line that ends the watch", async () => {
    const line = (name: string) => `${JSON.stringify(event(name))}\n`;
    const pieces = watchEvents(chunks(line("a") + line("b"), `${line("c")}null\n`));
    expect((await pieces.next()).value).toEqual([event("a"), event("b")]);
    expect((await pieces.next()).value).toEqual([event("c")]);
    await expect(pieces.next()).rejects.toThrow(MalformedWatch);
  });

  test("a line without end ends the watch, and does not fill the memory", async () => {
    let sent = 0;
    async function* endless(): AsyncGenerator<Buffer> {
      for (; sent < 64; sent += 1) yield Buffer.alloc(1 << 20, "x");
    }
    await expect(watchEvents(endless()).next()).rejects.toThrow(MalformedWatch);
    expect(sent).toBeLessThan(20);
  });
});
