import { Agent, request } from "undici";
import { concurrently } from "./concurrently.ts";

const HEADERS = { "content-type": "application/json" };

/** Bare undici POSTs, `width` at a time: what nothing on top of undici can beat. A second's worth. */
export async function benchRawPost(
  url: string,
  { count, width }: { count: number; width: number },
): Promise<number> {
  const dispatcher = new Agent({ connections: width });
  const post = async (): Promise<void> => {
    const answer = await request(url, {
      method: "POST",
      headers: HEADERS,
      body: '{"hello":"world"}',
      dispatcher,
    });
    await answer.body.dump();
  };
  const perSecond = await concurrently({ count, width }, post);
  await dispatcher.close();
  return perSecond;
}
