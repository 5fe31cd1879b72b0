import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { parseTrustedProxies } from "../../../src/gateway/client-address.ts";
import { passwordsWait } from "../../postgres/passwords-wait.ts";
import { PASSWORD, newUser, visitor } from "./dashboard-visitor.ts";
import { startHarness, type Harness, type Reply } from "./harness.ts";

let harness: Harness;
/** Runs once when the next password has been verified, before the gateway goes on. */
let onceVerified: (() => Promise<void>) | undefined;
beforeAll(async () => {
  harness = await startHarness({
    // The tests' own address, so that they count as a proxy when they add X-Forwarded-For.
    trustedProxies: parseTrustedProxies(["127.0.0.1"]),
    users: (users) => ({
      ...users,
      async verify(...attempt) {
        const found = await users.verify(...attempt);
        await onceVerified?.();
        return found;
      },
    }),
  });
  const { account } = harness.first;
  await harness.users.create({ account, email: "owner@example.com", password: PASSWORD });
  await harness.users.create({
    account,
    email: "member@example.com",
    password: PASSWORD,
    role: "member",
  });
});
afterAll(() => harness.close());

/** As a proxy forwards it. */
const signInFrom = (forwardedFor: string, email: string, password: string) =>
  visitor(harness).ask(
    "POST",
    "/session",
    { email, password },
    { "X-Forwarded-For": forwardedFor },
  );

async function owner() {
  const somebody = visitor(harness);
  expect((await somebody.signIn("owner@example.com", PASSWORD)).status).toBe(200);
  return somebody;
}

describe("session", () => {
  test("a sign-in sets a cookie that scripts cannot read and other sites do not send", async () => {
    const somebody = visitor(harness);
    const reply = await somebody.signIn("Owner@Example.com", PASSWORD);
    expect(reply.json).toMatchObject({ user: { email: "owner@example.com", role: "owner" } });
    const set = reply.headers.get("set-cookie") ?? "";
    expect(set).toMatch(
      /^carillon_session=[\w-]{43}; Path=\/; Max-Age=604800; HttpOnly; SameSite=Strict$/,
    );
    expect((await somebody.get("/session")).status).toBe(200);
  });

  test("away from the loopback the cookie is bound to host and TLS, and plain http is refused", async () => {
    const body = { email: "owner@example.com", password: PASSWORD };
    const somebody = visitor(harness);
    const plain = await hosted("http://mail.example.com", body);
    expect(plain).toMatchObject({ status: 403, cookie: "" });
    const secure = await hosted("https://mail.example.com", body);
    expect(secure.status).toBe(200);
    expect(secure.cookie).toMatch(/^__Host-carillon_session=[^;]+; Path=\/; .*; Secure$/);
    // Over https the name without prefix, which any sibling domain could set, is not read.
    const token = secure.cookie.split(";")[0]?.split("=")[1] ?? "";
    somebody.setCookie(`__Host-carillon_session=${token}`);
    expect((await somebody.get("/session")).status).toBe(200);
    const unsafe = await hosted("https://mail.example.com", undefined, `carillon_session=${token}`);
    expect(unsafe.status).toBe(401);
  });

  test("a wrong password and an unknown user get the same answer", async () => {
    const wrong = await visitor(harness).signIn("member@example.com", "wrong password");
    const unknown = await visitor(harness).signIn("nobody@example.com", "wrong password");
    expect(wrong.status).toBe(401);
    expect(unknown.text).toBe(wrong.text);
    expect(wrong.headers.get("set-cookie")).toBeNull();
  });

  test("fixation: a sign-in never takes over the token that came along", async () => {
    const attacker = await owner();
    const planted = attacker.cookie();
    const victim = visitor(harness);
    victim.setCookie(planted);
    await victim.signIn("member@example.com", PASSWORD);
    expect(victim.cookie()).not.toBe(planted);
    // The planted session has ended.
    attacker.setCookie(planted);
    expect((await attacker.get("/session")).status).toBe(401);
  });

  test("signing out ends the session on the server", async () => {
    const somebody = await owner();
    const token = somebody.cookie();
    expect((await somebody.ask("DELETE", "/session")).status).toBe(200);
    somebody.setCookie(token);
    expect((await somebody.get("/session")).status).toBe(401);
  });

  test("signing out everywhere ends all of them; a new password does so too, but for this one", async () => {
    const [here, there] = [await owner(), await owner()];
    await here.ask("DELETE", "/sessions");
    expect((await there.get("/session")).status).toBe(401);
    const [one, two] = [await owner(), await owner()];
    const wrong = await one.post("/password", { current_password: "no", new_password: "x" });
    expect(wrong.json["details"]).toEqual([
      { field: "current_password", message: "is not your password" },
    ]);
    const short = await one.post("/password", { current_password: PASSWORD, new_password: "x" });
    expect(short.json["details"]).toMatchObject([{ field: "new_password" }]);
    const changed = await one.post("/password", {
      current_password: PASSWORD,
      new_password: PASSWORD,
    });
    expect(changed.status).toBe(200);
    expect((await one.get("/session")).status).toBe(200);
    expect((await two.get("/session")).status).toBe(401);
  });

  test("a sign-in with a password that is replaced meanwhile is none", async () => {
    const { account } = harness.first;
    const email = "replaced@example.com";
    const user = await harness.users.create({ account, email, password: PASSWORD });
    onceVerified = async () => {
      onceVerified = undefined;
      await harness.users.setPassword(user.id, "another horse battery");
    };
    const somebody = visitor(harness);
    const reply = await somebody.signIn(email, PASSWORD);
    expect(reply).toMatchObject({ status: 401, json: { code: "sign_in_failed" } });
    expect(somebody.cookie()).toBeUndefined();
    const left = await harness.pool.query("select 1 from sessions where user_id = $1", [user.id]);
    expect(left.rowCount).toBe(0);
  });

  test("a sign-in of somebody who is removed meanwhile is none", async () => {
    const { account } = harness.first;
    const email = "removed@example.com";
    const user = await harness.users.create({ account, email, password: PASSWORD });
    onceVerified = async () => {
      onceVerified = undefined;
      await harness.users.delete(account, user.id, { admin: false });
    };
    const somebody = visitor(harness);
    const reply = await somebody.signIn(email, PASSWORD);
    expect(reply).toMatchObject({ status: 401, json: { code: "sign_in_failed" } });
    expect(somebody.cookie()).toBeUndefined();
  });

  test("a change of a password that is replaced meanwhile is none", async () => {
    const { account } = harness.first;
    const email = "changed@example.com";
    const thief = await newUser(harness, { account, email });
    onceVerified = async () => {
      onceVerified = undefined;
      await harness.users.setPassword(thief.id, "another horse battery");
    };
    const taken = "the horse of a thief";
    const reply = await thief.post("/password", {
      current_password: PASSWORD,
      new_password: taken,
    });
    expect(reply.json["details"]).toEqual([
      { field: "current_password", message: "is not your password" },
    ]);
    expect((await thief.get("/session")).status).toBe(401);
    expect((await visitor(harness).signIn(email, taken)).status).toBe(401);
    expect((await visitor(harness).signIn(email, "another horse battery")).status).toBe(200);
  });
});

describe("requests from elsewhere", () => {
  const cases: { name: string; headers: Record<string, string> }[] = [
    { name: "another site", headers: { Origin: "https://evil.example" } },
    { name: "another port", headers: { Origin: "http://127.0.0.1:1" } },
    { name: "an opaque origin", headers: { Origin: "null" } },
    { name: "no origin at all", headers: { Origin: "" } },
    { name: "a cross-site fetch", headers: { "Sec-Fetch-Site": "cross-site" } },
    { name: "a sibling domain", headers: { "Sec-Fetch-Site": "same-site" } },
  ];
  test.each(cases)("$name cannot change anything", async ({ headers }) => {
    const somebody = await owner();
    const before = (await somebody.get("/api-keys")).text;
    const reply = await somebody.ask("POST", "/api-keys", { label: "stolen" }, headers);
    expect(reply).toMatchObject({ status: 403, json: { code: "cross_origin" } });
    expect((await somebody.get("/api-keys")).text).toBe(before);
  });

  test("a form cannot change anything: bodies are JSON only", async () => {
    const somebody = await owner();
    const reply = await harness.request({
      method: "POST",
      path: "/dashboard/api/api-keys",
      key: null,
      body: "label=stolen",
      headers: {
        Origin: somebody.origin,
        Cookie: somebody.cookie() ?? "",
        "Content-Type": "application/x-www-form-urlencoded",
      },
    });
    expect(reply.status).toBe(415);
  });

  test("a large body without a session is refused", async () => {
    const body = { email: "owner@example.com", password: "x".repeat(16_384) };
    const reply = await visitor(harness).post("/session", body);
    expect(reply).toMatchObject({ status: 413, json: { code: "payload_too_large" } });
  });

  test("an API key is no session, and a session is no API key", async () => {
    const reply = await harness.request({ path: "/dashboard/api/jobs" });
    expect(reply.status).toBe(401);
    const somebody = await owner();
    const other = await harness.request({
      path: "/jobs",
      key: null,
      headers: { Cookie: somebody.cookie() ?? "" },
    });
    expect(other.status).toBe(401);
  });
});

describe("guessing", () => {
  test("is slowed down for the guesser, and for nobody else", async () => {
    await harness.pool.query("delete from sign_in_failures");
    for (let guess = 0; guess < 5; guess += 1)
      expect((await visitor(harness).signIn("owner@example.com", "guess")).status).toBe(401);
    // As after more guesses, so that the wait after the next one is long.
    await harness.pool.query("update sign_in_failures set failures = 10, next_at = now()");
    expect((await visitor(harness).signIn("owner@example.com", "guess")).status).toBe(401);
    const delayed = await visitor(harness).signIn("owner@example.com", PASSWORD);
    expect(delayed.json["code"]).toBe("sign_in_delayed");
    expect(Number(delayed.headers.get("retry-after"))).toBeGreaterThan(30);
    // Another user from the same address.
    expect((await visitor(harness).signIn("member@example.com", PASSWORD)).status).toBe(200);
    // The owner from another address: the row is this client's alone.
    const { rows } = await harness.pool.query(
      "select guesser from sign_in_failures where failures > 3",
    );
    expect(rows).toHaveLength(1);
    await harness.pool.query("update sign_in_failures set next_at = now()");
    expect((await visitor(harness).signIn("owner@example.com", PASSWORD)).status).toBe(200);
    await harness.pool.query("delete from sign_in_failures");
  });

  test("behind a proxy is slowed down for the client that guesses, not for all who come through it", async () => {
    await harness.pool.query("delete from sign_in_failures");
    const email = "owner@example.com";
    const guesses = async (forwardedFor: string) =>
      (await signInFrom(forwardedFor, email, "guess")).status;
    for (let guess = 0; guess < 5; guess += 1)
      expect(await guesses(`203.0.113.${guess}, 198.51.100.7`)).toBe(401);
    await harness.pool.query("update sign_in_failures set next_at = now() + interval '1 minute'");
    // What a guesser adds itself is further left in the header, and a /64 of IPv6 counts as one guesser.
    expect(await guesses("192.0.2.1, 198.51.100.7")).toBe(429);
    expect((await signInFrom("198.51.100.8", email, PASSWORD)).status).toBe(200);
    expect(await guesses("2001:db8::1")).toBe(401);
    await harness.pool.query("update sign_in_failures set next_at = now() + interval '1 minute'");
    expect(await guesses("[2001:db8::2]:443")).toBe(429);
    await harness.pool.query("delete from sign_in_failures");
  });

  test("a flood is refused before it costs anything, and is nobody's guess", async () => {
    await harness.pool.query("delete from sign_in_failures");
    const replies = await Promise.all(
      Array.from({ length: 150 }, (_, n) =>
        signInFrom(`203.0.113.${n}`, `made-up-${n}@example.com`, "guess"),
      ),
    );
    const looked = replies.filter(({ status }) => status === 401).length;
    const refused = replies.filter(({ status }) => status === 429);
    expect(looked + refused.length).toBe(150);
    expect(looked).toBeGreaterThanOrEqual(34);
    expect(refused.length).toBeGreaterThan(0);
    expect(refused[0]?.headers.get("retry-after")).toBe("1");
    expect(refused[0]?.json).toMatchObject({
      code: "sign_in_delayed",
      error: "too many people are signing in at this moment: try again in a moment",
    });
    const { rows } = await harness.pool.query<{ count: number }>(
      "select count(*)::int as count from sign_in_failures",
    );
    expect(rows).toEqual([{ count: looked }]);
    expect((await visitor(harness).signIn("owner@example.com", PASSWORD)).status).toBe(200);
    await harness.pool.query("delete from sign_in_failures");
  });

  test("of one client, however many at once, keeps nobody else out", async () => {
    const client = "203.0.113.200";
    const here = await owner();
    const guest = { email: "guest@example.com", role: "member" };
    const invited = await here.post("/invitations", guest);
    const token = String(invited.json["link"]).split("#")[1] ?? "";
    const accept = (from: string) =>
      visitor(harness).ask(
        "POST",
        "/invitation/accept",
        { token, password: PASSWORD },
        { "X-Forwarded-For": from },
      );
    await harness.pool.query("delete from sign_in_failures");
    const looked = async () =>
      (await harness.pool.query("select from sign_in_failures")).rowCount ?? 0;
    const passwords = passwordsWait();
    onTestFinished(() => {
      passwords.go();
    });
    let refused = 0;
    const flood = Array.from({ length: 40 }, async (_, n) => {
      const { status } = await signInFrom(client, `made-up-${n}@example.com`, "guess");
      if (status === 429) refused += 1;
    });
    await expect.poll(() => refused).toBe(36);
    expect((await accept(client)).status).toBe(429);
    const others = [
      signInFrom("203.0.113.201", "member@example.com", PASSWORD),
      here.ask(
        "POST",
        "/password",
        { current_password: PASSWORD, new_password: PASSWORD },
        { "X-Forwarded-For": client },
      ),
      accept("203.0.113.202"),
    ];
    await expect.poll(looked).toBe(4 + 2);
    passwords.go();
    expect((await Promise.all(others)).map(({ status }) => status)).toEqual([200, 200, 201]);
    await Promise.all(flood);
    expect(refused).toBe(36);
    await harness.pool.query("delete from sign_in_failures");
  });

  test("in parallel is counted one by one", async () => {
    await harness.pool.query("delete from sign_in_failures");
    const begun = performance.now();
    const replies: Reply[] = [];
    // In batches of as many as one client may have under way.
    for (let batch = 0; batch < 3; batch += 1)
      replies.push(
        ...(await Promise.all(
          Array.from({ length: 4 }, () => visitor(harness).signIn("member@example.com", "wrong")),
        )),
      );
    const elapsed = (performance.now() - begun) / 1_000;
    const tried = replies.filter(({ status }) => status === 401).length;
    // The first five need no wait. On a slow machine some of the waits after them, of 1 s, 2 s, 4 s and so on, may
    // have passed.
    expect(tried).toBeGreaterThanOrEqual(5);
    expect(tried).toBeLessThanOrEqual(5 + Math.log2(elapsed + 1));
    const { rows } = await harness.pool.query("select failures from sign_in_failures");
    expect(rows).toEqual([{ failures: tried }]);
    await harness.pool.query("delete from sign_in_failures");
  });
});

/** A gateway as behind a reverse proxy. */
async function hosted(
  origin: string,
  json: unknown,
  cookie?: string,
): Promise<{ status: number; cookie: string }> {
  const { request } = await import("node:http");
  const { host } = new URL(origin);
  const body = json === undefined ? undefined : JSON.stringify(json);
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        port: harness.port,
        host: "127.0.0.1",
        path: "/dashboard/api/session",
        method: body === undefined ? "GET" : "POST",
        headers: {
          Host: host,
          Origin: origin,
          ...(cookie === undefined ? {} : { Cookie: cookie }),
          ...(body === undefined
            ? {}
            : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) }),
        },
      },
      (response) => {
        response.resume();
        response.on("end", () => {
          resolve({
            status: response.statusCode ?? 0,
            cookie: response.headers["set-cookie"]?.[0] ?? "",
          });
        });
      },
    );
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}
