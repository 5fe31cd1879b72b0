import { Agent, type Dispatcher, request } from "undici";
import { concurrently } from "./concurrently.ts";

/** As many bytes as a delivery's headers, but constant: the peers do not spend time on making them. */
const HEADERS = {
  "Content-Type": "application/json",
  "User-Agent": "Carillon/0.1.0",
  "webhook-id": "01980000-0000-7000-8000-000000000000",
  "webhook-timestamp": "1700000000",
  "webhook-signature": `v1,${Buffer.alloc(32, 7).toString("base64")}`,
  "Carillon-Job-Id": "job-01980000-0000-7000-8000-000000000000",
  "Carillon-Scheduled-At": "2026-01-01T00:00:00.000Z",
  "Carillon-Attempt": "1",
};

/** One POST, the same for all peers. Resolves with the status once the answer is read. */
export async function post(dispatcher: Dispatcher, url: string, body: string): Promise<number> {
  const answer = await request(url, { method: "POST", headers: HEADERS, body, dispatcher });
  await answer.body.dump();
  return answer.statusCode;
}

/** Bare undici POSTs, `width` at a time, per second: nothing on top of undici can be faster. */
export async function benchRawPost(
  url: string,
  { count, width }: { count: number; width: number },
): Promise<number> {
  const dispatcher = new Agent({ connections: width });
  const perSecond = await concurrently({ count, width }, () =>
    post(dispatcher, url, '{"hello":"world"}'),
  );
  await dispatcher.close();
  return perSecond;
}
