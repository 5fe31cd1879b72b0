import type { Harness, Reply } from "./harness.ts";

/** Like a browser, it keeps the session cookie, and sends the Origin of requests. */
export function visitor(harness: Harness) {
  let cookie: string | undefined;
  const origin = `http://127.0.0.1:${harness.port}`;

  async function ask(
    method: string,
    path: string,
    json?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Reply> {
    const reply = await harness.request({
      method,
      path: `/dashboard/api${path}`,
      key: null,
      json,
      headers: {
        ...(method === "GET" ? {} : { Origin: origin }),
        ...(cookie === undefined ? {} : { Cookie: cookie }),
        ...headers,
      },
    });
    const set = reply.headers.get("set-cookie");
    if (set !== null) cookie = /Max-Age=0/.test(set) ? undefined : set.split(";")[0];
    return reply;
  }

  return {
    origin,
    ask,
    get: (path: string) => ask("GET", path),
    post: (path: string, json?: unknown) => ask("POST", path, json),
    signIn: (email: string, password: string) => ask("POST", "/session", { email, password }),
    cookie: () => cookie,
    setCookie: (value: string | undefined) => {
      cookie = value;
    },
  };
}

export type Visitor = ReturnType<typeof visitor>;

/** The password of all users of the dashboard's tests. */
export const PASSWORD = "correct horse battery";

/** Creates a user, by default an owner, and signs in. */
export async function newUser(
  harness: Harness,
  who: { account: string; email: string; role?: "member"; admin?: boolean },
): Promise<Visitor & { id: string }> {
  const { id } = await harness.users.create({ ...who, password: PASSWORD });
  const one = visitor(harness);
  const { status } = await one.signIn(who.email, PASSWORD);
  if (status !== 200) throw new Error(`${who.email} cannot sign in: ${status}`);
  return { ...one, id };
}
