import { Agent, request } from "undici";

export interface ApiClient {
  /** Throws when the answer is not a 2xx. */
  post(path: string, body: unknown): Promise<void>;
  close(): Promise<void>;
}

export function createApiClient(options: { url: string; key: string; width: number }): ApiClient {
  const dispatcher = new Agent({ connections: options.width });
  const headers = { "x-api-key": options.key, "content-type": "application/json" };
  return {
    async post(path, body) {
      const answer = await request(`${options.url}${path}`, {
        method: "POST",
        headers,
        body: JSON.stringify(body),
        dispatcher,
      });
      const text = await answer.body.text();
      if (answer.statusCode >= 300) throw new Error(`${path}: ${answer.statusCode} ${text}`);
    },
    close: () => dispatcher.close(),
  };
}
