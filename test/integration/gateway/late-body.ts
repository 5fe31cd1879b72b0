import { until } from "../../until.ts";
import type { Harness } from "./harness.ts";

/** Sends the beginning of a JSON body, and resolves when the request is there. The rest comes when `rest` is called. */
export async function sendLate(
  { port, inFlight }: Harness,
  request: { method: string; path: string; json: object; headers: Record<string, string> },
): Promise<{ rest: () => Promise<Response> }> {
  const { method, path, json, headers } = request;
  const text = JSON.stringify(json);
  const { readable, writable } = new TransformStream<Uint8Array<ArrayBuffer>>();
  const writer = writable.getWriter();
  const bytes = new TextEncoder();
  const reply = fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { "Content-Type": "application/json", ...headers },
    body: readable,
    duplex: "half",
  });
  await writer.write(bytes.encode(text.slice(0, 1)));
  await until("it is there", async () => (await inFlight()) > 0);
  return {
    rest: async () => {
      await writer.write(bytes.encode(text.slice(1)));
      await writer.close();
      return reply;
    },
  };
}
