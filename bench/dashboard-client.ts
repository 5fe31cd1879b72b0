/** A client of the dashboard's own API, signed in as its pages are. Throws when an answer is not a 2xx. */
export async function signInClient(
  url: string,
  owner: { email: string; password: string },
): Promise<{
  get(path: string): Promise<unknown>;
  post(path: string, body?: unknown): Promise<unknown>;
}> {
  let cookie = "";

  async function ask(method: string, path: string, body?: unknown): Promise<unknown> {
    const answer = await fetch(`${url}/dashboard/api${path}`, {
      method,
      headers: {
        cookie,
        ...(method === "GET" ? {} : { origin: url }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    cookie = answer.headers.get("set-cookie")?.split(";")[0] ?? cookie;
    return JSON.parse(text);
  }

  await ask("POST", "/session", owner);
  return { get: (path) => ask("GET", path), post: (path, body) => ask("POST", path, body) };
}
