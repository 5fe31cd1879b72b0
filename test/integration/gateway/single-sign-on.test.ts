import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Identities } from "../../../src/domain/ports/single-sign-on.ts";
import { parseTrustedProxies } from "../../../src/gateway/client-address.ts";
import { CALLBACK_PATH, createOpenIdProvider } from "../../../src/oidc/openid-provider.ts";
import { createIdentities } from "../../../src/postgres/identities.ts";
import {
  createSingleSignOns,
  deleteExpiredSingleSignOns,
} from "../../../src/postgres/single-sign-ons.ts";
import { freePort } from "../../network/free-port.ts";
import { CLIENT, startOpenIdProvider, type OpenIdProvider } from "../../oidc/provider.ts";
import { traveller, type Traveller } from "../../oidc/traveller.ts";
import { startHarness, type Harness } from "./harness.ts";

const PASSWORD = "correct horse battery";
const SESSION = "carillon_session";
const UNDER_WAY = "carillon_single_sign_on";

let harness: Harness;
let provider: OpenIdProvider;
let dashboard: string;
/** A client of the provider as in a process that has just been started. */
function relyingParty() {
  return createOpenIdProvider({
    issuer: provider.issuer,
    clientId: CLIENT.id,
    clientSecret: CLIENT.secret,
    name: "Example ID",
    publicUrl: dashboard,
    monotonic: () => performance.now(),
    timeoutSeconds: 5,
  });
}

/** Runs once when the next identity has been looked up, before the gateway goes on. */
let onceKnown: (() => Promise<void>) | undefined;
/** The gateway's monotonic clock, in milliseconds. */
let time = 0;
function knowing(identities: Identities): Identities {
  return {
    ...identities,
    async userOf(person) {
      const found = await identities.userOf(person);
      await onceKnown?.();
      return found;
    },
  };
}

beforeAll(async () => {
  const port = await freePort();
  dashboard = `http://127.0.0.1:${port}`;
  // Another site, as real providers are: cookies of the one are never sent to the other.
  provider = await startOpenIdProvider({
    hostname: "localhost",
    redirectUri: dashboard + CALLBACK_PATH,
  });
  harness = await startHarness({
    port,
    trustedProxies: parseTrustedProxies(["127.0.0.1"]),
    monotonic: () => time,
    singleSignOn: (pool) => ({
      provider: relyingParty(),
      attempts: createSingleSignOns({ pool }),
      identities: knowing(createIdentities({ pool })),
    }),
  });
  const { account } = harness.first;
  for (const name of ["ada", "ben", "cleo"])
    await harness.users.create({ account, email: `${name}@example.com`, password: PASSWORD });
});
afterAll(async () => {
  await harness.close();
  await provider.close();
});
afterEach(() => {
  provider.people.clear();
});

function person(login: string, email: string, verified = true): void {
  provider.people.set(login, { email, email_verified: verified });
}

/** The cookie of the sign-in that is under way. */
function underWay(browser: Traveller): { name: string; token: string } {
  const found = [...browser.jarOf(dashboard)].filter(([name]) => name.startsWith(UNDER_WAY));
  expect(found).toHaveLength(1);
  const [[name, token] = ["", ""]] = found;
  return { name, token };
}

/** Presses the button. Returns the address of the provider to which the page goes. */
async function begin(browser: Traveller, body: object = {}): Promise<string> {
  const reply = await ask(browser, "POST", "/single-sign-on", body);
  expect(reply.status).toBe(200);
  return (JSON.parse(reply.text) as { url: string }).url;
}

function ask(browser: Traveller, method: string, path: string, json?: object, origin = dashboard) {
  return browser.go(`${dashboard}/dashboard/api${path}`, {
    method,
    headers: { Origin: origin, "Content-Type": "application/json" },
    ...(json && { body: JSON.stringify(json) }),
  });
}

/** The address of the signed-in user; undefined: nobody. */
async function whoIs(browser: Traveller): Promise<string | undefined> {
  const reply = await ask(browser, "GET", "/session");
  if (reply.status === 401) return undefined;
  return (JSON.parse(reply.text) as { user: { email: string } }).user.email;
}

async function signIn(browser: Traveller, login: string | null) {
  return browser.go(await browser.throughProvider(await begin(browser), login));
}

const sessionsIn = async () => {
  const { rows } = await harness.pool.query<{ count: number }>(
    "select count(*)::int as count from sessions",
  );
  return rows[0]?.count ?? 0;
};

describe("a sign-in through the provider", () => {
  test("is one to Carillon: a session of its own, which signing out ends", async () => {
    person("ada-1", "Ada@Example.com");
    const browser = traveller();
    const start = new URL(await begin(browser));
    expect(start.origin).toBe(provider.issuer);
    expect(Object.fromEntries(start.searchParams)).toMatchObject({
      response_type: "code",
      code_challenge_method: "S256",
      redirect_uri: dashboard + CALLBACK_PATH,
      scope: "openid email",
    });
    const { name } = underWay(browser);
    const end = await browser.go(await browser.throughProvider(start.href, "ada-1"));
    expect(end).toMatchObject({ status: 303, location: `${dashboard}/dashboard/` });
    expect(end.cookies.map((line) => line.replace(/=[\w-]{43};/, "=TOKEN;"))).toEqual([
      `${name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax`,
      `${SESSION}=TOKEN; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict`,
    ]);
    expect(await whoIs(browser)).toBe("ada@example.com");
    const token = browser.jarOf(dashboard).get(SESSION) ?? "";
    expect((await ask(browser, "DELETE", "/session")).status).toBe(200);
    browser.jarOf(dashboard).set(SESSION, token);
    expect(await whoIs(browser)).toBeUndefined();
  });

  test("in two tabs is two, whichever ends first", async () => {
    person("ada-1", "ada@example.com");
    const browser = traveller();
    const older = await browser.throughProvider(await begin(browser), "ada-1");
    const newer = await browser.throughProvider(await begin(browser), "ada-1");
    for (const callback of [older, newer]) {
      expect((await browser.go(callback)).location).toBe(`${dashboard}/dashboard/`);
      expect(await whoIs(browser)).toBe("ada@example.com");
    }
    expect([...browser.jarOf(dashboard).keys()]).toEqual([SESSION]);
  });

  test("remembers the person, not the address", async () => {
    person("ben-1", "ben@example.com");
    const browser = traveller();
    await signIn(browser, "ben-1");
    expect(await whoIs(browser)).toBe("ben@example.com");
    // With another address, even one that is not verified, it is still the same person.
    person("ben-1", "ben.new@example.com", false);
    const later = traveller();
    await signIn(later, "ben-1");
    expect(await whoIs(later)).toBe("ben@example.com");
    // A person who is given the old address does not get the user with it.
    person("ben-2", "ben@example.com");
    const other = traveller();
    expect((await signIn(other, "ben-2")).location).toMatch(/#sign-in=taken$/);
    expect(await whoIs(other)).toBeUndefined();
  });

  test("is forgotten with the user", async () => {
    person("dan-1", "dan@example.com");
    const { account } = harness.second;
    await harness.users.create({ account, email: "owner2@example.com", password: PASSWORD });
    const made = await harness.users.create({
      account,
      email: "dan@example.com",
      password: PASSWORD,
    });
    const browser = traveller();
    await signIn(browser, "dan-1");
    expect(await whoIs(browser)).toBe("dan@example.com");
    await harness.users.delete(account, made.id, { admin: false });
    expect(await whoIs(browser)).toBeUndefined();
    expect((await signIn(traveller(), "dan-1")).location).toMatch(/#sign-in=unknown$/);
  });

  test("fixation: takes over no token that came along, and ends the session that was there", async () => {
    person("ada-1", "ada@example.com");
    const attacker = traveller();
    await ask(attacker, "POST", "/session", { email: "cleo@example.com", password: PASSWORD });
    const planted = attacker.jarOf(dashboard).get(SESSION) ?? "";
    const victim = traveller();
    victim.jarOf(dashboard).set(SESSION, planted);
    await signIn(victim, "ada-1");
    expect(await whoIs(victim)).toBe("ada@example.com");
    expect(victim.jarOf(dashboard).get(SESSION)).not.toBe(planted);
    expect(await whoIs(attacker)).toBeUndefined();
  });
});

describe("nobody is signed in", () => {
  const people = [
    {
      name: "whose address is not verified",
      email: "cleo@example.com",
      verified: false,
      reason: "unverified",
    },
    { name: "whom nobody invited", email: "zoe@example.com", verified: true, reason: "unknown" },
    {
      name: "whose address is none",
      email: "not an address",
      verified: true,
      reason: "unverified",
    },
  ];
  test.each(people)("$name", async ({ email, verified, reason }) => {
    person("somebody", email, verified);
    const browser = traveller();
    const before = await sessionsIn();
    const end = await signIn(browser, "somebody");
    expect(end.location).toBe(`${dashboard}/dashboard/#sign-in=${reason}`);
    expect(await whoIs(browser)).toBeUndefined();
    expect(await sessionsIn()).toBe(before);
  });

  test("who cancels at the provider", async () => {
    const end = await signIn(traveller(), null);
    expect(end.location).toMatch(/#sign-in=refused$/);
    expect(harness.lines.join("")).toContain("access_denied");
  });

  const tampering: { name: string; start?: (url: URL) => void; back?: (url: URL) => void }[] = [
    {
      name: "the end of the state",
      back: (url) => url.searchParams.set("state", `${url.searchParams.get("state")}x`),
    },
    { name: "the nonce", start: (url) => url.searchParams.set("nonce", "of-another-sign-in") },
    { name: "the code", back: (url) => url.searchParams.set("code", "guessed") },
    { name: "no code", back: (url) => url.searchParams.delete("code") },
    { name: "the issuer", back: (url) => url.searchParams.set("iss", "https://evil.example") },
    {
      name: "the code challenge",
      start: (url) => url.searchParams.set("code_challenge", "x".repeat(43)),
    },
  ];
  test.each(tampering)("when $name is not what was asked for", async ({ start, back }) => {
    person("ada-1", "ada@example.com");
    const browser = traveller();
    const before = await sessionsIn();
    const there = new URL(await begin(browser));
    start?.(there);
    const callback = await browser.throughProvider(there.href, "ada-1");
    const changed = new URL(callback);
    back?.(changed);
    const { name, token } = underWay(browser);
    const end = await browser.go(changed.href);
    expect(end.location).toBe(`${dashboard}/dashboard/#sign-in=refused`);
    expect(end.cookies).toHaveLength(1);
    // There is only one try: now even the right token comes too late.
    browser.jarOf(dashboard).set(name, token);
    expect((await browser.go(callback)).location).toMatch(/#sign-in=expired$/);
    expect(await sessionsIn()).toBe(before);
  });

  test("who is removed meanwhile", async () => {
    const { account } = harness.first;
    const email = "removed@example.com";
    const user = await harness.users.create({ account, email, password: PASSWORD });
    person("removed", email);
    onceKnown = async () => {
      onceKnown = undefined;
      await harness.users.delete(account, user.id, { admin: false });
    };
    expect((await signIn(traveller(), "removed")).location).toMatch(/#sign-in=unknown$/);
  });

  test("who comes back twice", async () => {
    person("ada-1", "ada@example.com");
    const browser = traveller();
    const callback = await browser.throughProvider(await begin(browser), "ada-1");
    const { name, token } = underWay(browser);
    const thief = traveller();
    thief.jarOf(dashboard).set(name, token);
    const ends = await Promise.all([browser, thief].map((each) => each.go(callback)));
    expect(ends.map(({ location }) => location?.split("#")[1] ?? "in").toSorted()).toEqual([
      "in",
      "sign-in=expired",
    ]);
    browser.jarOf(dashboard).set(name, token);
    expect((await browser.go(callback)).location).toMatch(/#sign-in=expired$/);
  });

  test("in a browser that did not begin it, whatever it began itself", async () => {
    person("ada-1", "ada@example.com");
    const attacker = traveller();
    const callback = await attacker.throughProvider(await begin(attacker), "ada-1");
    const victim = traveller();
    expect((await victim.go(callback)).location).toMatch(/#sign-in=expired$/);
    await begin(victim);
    expect((await victim.go(callback)).location).toMatch(/#sign-in=expired$/);
    expect(await whoIs(victim)).toBeUndefined();
  });

  const otherStates = ["of-somebody-else", "", "x; Path=/", "\u00e9".repeat(9), undefined];
  test.each(otherStates)("by another state (%j), which leaves the sign-in be", async (state) => {
    person("ada-1", "ada@example.com");
    const browser = traveller();
    const callback = await browser.throughProvider(await begin(browser), "ada-1");
    const changed = new URL(callback);
    if (state === undefined) changed.searchParams.delete("state");
    else changed.searchParams.set("state", state);
    const end = await browser.go(changed.href);
    expect(end).toMatchObject({ location: `${dashboard}/dashboard/#sign-in=expired`, cookies: [] });
    expect(await whoIs(browser)).toBeUndefined();
    await browser.go(callback);
    expect(await whoIs(browser)).toBe("ada@example.com");
  });

  test("who comes back too late", async () => {
    person("ada-1", "ada@example.com");
    const browser = traveller();
    const callback = await browser.throughProvider(await begin(browser), "ada-1");
    await harness.pool.query("update single_sign_ons set expires_at = now()");
    expect((await browser.go(callback)).location).toMatch(/#sign-in=expired$/);
    // Sign-ins that are never finished are deleted by the retention task.
    await begin(traveller());
    await harness.pool.query("update single_sign_ons set expires_at = now()");
    const other = traveller();
    const inTime = await other.throughProvider(await begin(other), "ada-1");
    expect(await deleteExpiredSingleSignOns({ pool: harness.pool })).toBeGreaterThan(0);
    expect((await other.go(inTime)).location).toBe(`${dashboard}/dashboard/`);
  });
});

function beginAs(client: string): Promise<Response> {
  return fetch(`${dashboard}/dashboard/api/single-sign-on`, {
    method: "POST",
    headers: {
      Origin: dashboard,
      "Content-Type": "application/json",
      "X-Forwarded-For": client,
    },
    body: "{}",
  });
}

/** How many sign-ins are stored. */
async function stored(): Promise<number> {
  const { rows } = await harness.pool.query<{ count: number }>(
    "select count(*)::int as count from single_sign_ons",
  );
  return rows[0]?.count ?? 0;
}

describe("beginning", () => {
  test("is the page's to do, at the address that the provider sends people back to", async () => {
    const cross = await ask(traveller(), "POST", "/single-sign-on", {}, "https://evil.example");
    expect(cross).toMatchObject({ status: 403, cookies: [] });
    const localhost = dashboard.replace("127.0.0.1", "localhost");
    const elsewhere = await fetch(`${localhost}/dashboard/api/single-sign-on`, {
      method: "POST",
      headers: { Origin: localhost, "Content-Type": "application/json" },
      body: "{}",
    });
    expect(elsewhere.status).toBe(400);
    expect(await elsewhere.text()).toContain(`sign in with Example ID at ${dashboard}/dashboard/`);
  });

  test("is limited for each client, as every sign-in under way is stored", async () => {
    const before = await stored();
    const many = await Promise.all(Array.from({ length: 101 }, () => beginAs("192.0.2.1")));
    const refused = many.filter(({ status }) => status === 429);
    expect(refused).toHaveLength(1);
    expect(refused[0]?.headers.get("retry-after")).toBe("1");
    expect(await refused[0]?.json()).toMatchObject({ code: "sign_in_delayed" });
    expect((await stored()) - before).toBe(100);
    expect((await beginAs("192.0.2.2")).status).toBe(200);
    time += 100;
    expect((await beginAs("192.0.2.1")).status).toBe(200);
    expect((await beginAs("192.0.2.1")).status).toBe(429);
  });

  test("keeps no secret in what the browser stores: a hash is kept here", async () => {
    const browser = traveller();
    await begin(browser);
    const { token } = underWay(browser);
    expect(token).toMatch(/^[\w-]{43}$/);
    const { rows } = await harness.pool.query("select s::text from single_sign_ons s");
    expect(JSON.stringify(rows)).not.toContain(token);
  });
});

/** Invites somebody. Returns the token of the link. */
async function invited(email: string): Promise<string> {
  const owner = traveller();
  await ask(owner, "POST", "/session", { email: "cleo@example.com", password: PASSWORD });
  const reply = await ask(owner, "POST", "/invitations", { email, role: "member" });
  const { link } = JSON.parse(reply.text) as { link: string };
  return link.split("#")[1] ?? "";
}

async function accept(browser: Traveller, invitation: string, login: string) {
  return browser.go(await browser.throughProvider(await begin(browser, { invitation }), login));
}

/** Makes the user's session look as if it had begun so many minutes ago. */
async function age(email: string, minutes: number): Promise<void> {
  await harness.pool.query(
    `update sessions s set created_at = now() - $2 * interval '1 minute'
       from users u where u.id = s.user_id and u.email = $1`,
    [email, minutes],
  );
}

describe("an invitation", () => {
  test("is accepted through the provider, once, without a password", async () => {
    const invitation = await invited("eva@example.com");
    person("eva-1", "Eva@example.com");
    // Neither the link nor the sign-in alone is enough.
    expect((await signIn(traveller(), "eva-1")).location).toMatch(/#sign-in=unknown$/);
    person("mallory", "mallory@example.com");
    const other = await accept(traveller(), invitation, "mallory");
    expect(other.location).toMatch(/#sign-in=other_address$/);
    const browser = traveller();
    const end = await accept(browser, invitation, "eva-1");
    expect(end.location).toBe(`${dashboard}/dashboard/`);
    const session = JSON.parse((await ask(browser, "GET", "/session")).text) as object;
    expect(session).toMatchObject({
      user: { email: "eva@example.com", role: "member", has_password: false },
    });
    // From now on the person is known, and needs no link.
    await signIn(browser, "eva-1");
    expect(await whoIs(browser)).toBe("eva@example.com");
    const again = await accept(traveller(), invitation, "mallory");
    expect(again.location).toMatch(/#sign-in=invitation$/);
    for (const password of ["x", PASSWORD]) {
      const reply = await ask(traveller(), "POST", "/session", {
        email: "eva@example.com",
        password,
      });
      expect(reply.status).toBe(401);
    }
  });

  test("of two browsers at once one accepts it", async () => {
    const invitation = await invited("finn@example.com");
    person("finn-1", "finn@example.com");
    const browsers = [traveller(), traveller(), traveller()];
    const callbacks = await Promise.all(
      browsers.map(async (each) =>
        each.throughProvider(await begin(each, { invitation }), "finn-1"),
      ),
    );
    await Promise.all(browsers.map((each, index) => each.go(callbacks[index] ?? "")));
    const { rows } = await harness.pool.query("select 1 from users where email = $1", [
      "finn@example.com",
    ]);
    expect(rows).toHaveLength(1);
    const later = traveller();
    await signIn(later, "finn-1");
    expect(await whoIs(later)).toBe("finn@example.com");
  });

  test("who has no password confirms by a fresh sign-in, and may choose one", async () => {
    const invitation = await invited("gil@example.com");
    person("gil-1", "gil@example.com");
    const browser = traveller();
    await accept(browser, invitation, "gil-1");
    const choose = (body: object) =>
      ask(browser, "POST", "/password", { new_password: PASSWORD, ...body });
    await age("gil@example.com", 11);
    for (const body of [{}, { current_password: PASSWORD }]) {
      const stale = await choose(body);
      expect(stale.status).toBe(400);
      expect(stale.text).toContain("sign in again, and do this within ten minutes");
    }
    await age("gil@example.com", 9);
    expect((await choose({})).status).toBe(200);
    // Now there is a password, and it is required, however new the session is.
    expect((await choose({})).status).toBe(400);
    const withPassword = traveller();
    await ask(withPassword, "POST", "/session", { email: "gil@example.com", password: PASSWORD });
    expect(await whoIs(withPassword)).toBe("gil@example.com");
  });
});

test("while the provider is away the password does, and the page says so; it is asked again", async () => {
  person("ada-1", "ada@example.com");
  const waiting = traveller();
  const callback = await waiting.throughProvider(await begin(waiting), "ada-1");
  await provider.close();
  try {
    // A process that has not yet contacted the provider.
    const fresh = relyingParty();
    await expect(fresh.begin()).rejects.toThrow("Example ID is unavailable");
    expect((await waiting.go(callback)).location).toMatch(/#sign-in=unavailable$/);
    const browser = traveller();
    const options = await ask(browser, "GET", "/sign-in");
    expect(JSON.parse(options.text)).toEqual({ single_sign_on: { name: "Example ID" } });
    const reply = await ask(browser, "POST", "/session", {
      email: "ada@example.com",
      password: PASSWORD,
    });
    expect(reply.status).toBe(200);
    await provider.open();
    expect((await fresh.begin()).url).toContain(provider.issuer);
  } finally {
    await provider.open().catch(() => undefined);
  }
  const again = traveller();
  await signIn(again, "ada-1");
  expect(await whoIs(again)).toBe("ada@example.com");
});
