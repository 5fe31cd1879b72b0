export interface Hop {
  status: number;
  /** The lines of Set-Cookie. */
  cookies: string[];
  location: string | null;
  text: string;
}

export type Traveller = ReturnType<typeof traveller>;

/** Does what a browser does with cookies, redirects and the provider's own forms. */
export function traveller() {
  /** By host, as in browsers: ports and schemes do not separate cookies. */
  const jars = new Map<string, Map<string, string>>();

  function jarOf(url: string): Map<string, string> {
    const { hostname } = new URL(url);
    const jar = jars.get(hostname) ?? new Map<string, string>();
    jars.set(hostname, jar);
    return jar;
  }

  /** One exchange; does not follow redirects. */
  async function go(url: string, init: RequestInit = {}): Promise<Hop> {
    const jar = jarOf(url);
    const headers = new Headers(init.headers);
    headers.set("Cookie", [...jar].map(([name, value]) => `${name}=${value}`).join("; "));
    const response = await fetch(url, { ...init, headers, redirect: "manual" });
    const cookies = response.headers.getSetCookie();
    for (const line of cookies) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === "" || /max-age=0(?:;|$)/i.test(line)) jar.delete(name);
      else jar.set(name, value);
    }
    const location = response.headers.get("location");
    return {
      status: response.status,
      cookies,
      location: location === null ? null : new URL(location, url).href,
      text: await response.text(),
    };
  }

  /**
   * Goes to the provider, signs in there as `login`, and consents. Returns the address that leads back to the
   * dashboard, without going there. Null: cancels instead of signing in.
   */
  async function throughProvider(start: string, login: string | null): Promise<string> {
    const { origin } = new URL(start);
    let at = start;
    let hop = await go(at);
    for (let count = 0; count < 20; count += 1) {
      if (hop.location !== null) {
        at = hop.location;
        if (new URL(at).origin !== origin) return at;
        hop = await go(at);
        continue;
      }
      const form = /<form[^>]* action="([^"]+)"/.exec(hop.text)?.[1];
      const cancel = /href="([^"]+\/abort)"/.exec(hop.text)?.[1];
      const prompt = /name="prompt" value="(\w+)"/.exec(hop.text)?.[1];
      if (form === undefined || cancel === undefined || prompt === undefined)
        throw new Error(`the provider shows ${hop.status}: ${hop.text.slice(0, 2_000)}`);
      const answer = {
        prompt,
        ...(prompt === "login" ? { login: login ?? "", password: "x" } : {}),
      };
      at = new URL(login === null ? cancel : form, origin).href;
      hop = await go(
        at,
        login === null ? {} : { method: "POST", body: new URLSearchParams(answer) },
      );
    }
    throw new Error("the provider sends the browser round and round");
  }

  return { go, throughProvider, jarOf };
}
