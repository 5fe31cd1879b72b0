import { generateKeyPairSync, sign, type KeyObject } from "node:crypto";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { createOpenIdProvider } from "../../../src/oidc/openid-provider.ts";

const MIB = 1_048_576;

/** A provider that answers all requests in this way. */
async function provider(answer: (response: ServerResponse) => void) {
  const server = createServer((_request, response) => {
    answer(response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return createOpenIdProvider({
    issuer: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    clientId: "carillon",
    clientSecret: undefined,
    name: "Example ID",
    publicUrl: "https://carillon.example.com",
    monotonic: () => performance.now(),
    // Longer than a test may take, so that no request ends by its time.
    timeoutSeconds: 600,
  });
}

function begin(response: ServerResponse, headers: Record<string, string> = {}): void {
  response.writeHead(200, { "Content-Type": "application/json", ...headers });
}

test("an answer without end is not read on", async () => {
  let left = false;
  const endless = await provider((response) => {
    begin(response);
    response.on("close", () => (left = true));
    const more = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(MIB, " ")));
    };
    response.on("drain", more);
    more();
  });
  await expect(endless.begin()).rejects.toThrow("Example ID is unavailable");
  await expect.poll(() => left).toBe(true);
});

test("an answer that is large only once it is unpacked is not read on", async () => {
  const packed = gzipSync(Buffer.alloc(64 * MIB, " "));
  const bomb = await provider((response) => {
    begin(response, { "Content-Encoding": "gzip" });
    // The answer never ends: unpacking all of it would wait for more.
    response.write(packed);
  });
  await expect(bomb.begin()).rejects.toThrow("Example ID is unavailable");
});

test("an answer of half a megabyte is read", async () => {
  const wordy = await provider((response) => {
    const { port } = response.req.socket.address() as AddressInfo;
    const issuer = `http://127.0.0.1:${port}`;
    begin(response);
    response.end(
      JSON.stringify({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        claims_supported: Array.from({ length: 50_000 }, (_, n) => `c${n}`),
      }),
    );
  });
  expect((await wordy.begin()).url).toContain("/authorize?");
});

const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2_048 });
const stranger = generateKeyPairSync("rsa", { modulusLength: 2_048 }).privateKey;

const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** The result of a sign-in at a provider that gives these claims, signed with this key. */
async function finished(claims: object, key: KeyObject = privateKey) {
  let nonce = "";
  const signing = await provider((response) => {
    const { port } = response.req.socket.address() as AddressInfo;
    const iss = `http://127.0.0.1:${port}`;
    const now = Math.floor(Date.now() / 1_000);
    const about = { iss, sub: "ada", aud: "carillon", iat: now, exp: now + 60, nonce, ...claims };
    const signed = `${part({ alg: "RS256", kid: "1" })}.${part(about)}`;
    const signature = sign("sha256", Buffer.from(signed), key).toString("base64url");
    const answers: Record<string, object> = {
      "/.well-known/openid-configuration": {
        issuer: iss,
        authorization_endpoint: `${iss}/authorize`,
        token_endpoint: `${iss}/token`,
        jwks_uri: `${iss}/keys`,
        id_token_signing_alg_values_supported: ["RS256"],
      },
      "/keys": { keys: [{ ...publicKey.export({ format: "jwk" }), kid: "1", alg: "RS256" }] },
      "/token": { access_token: "a", token_type: "Bearer", id_token: `${signed}.${signature}` },
    };
    begin(response);
    response.end(JSON.stringify(answers[response.req.url ?? ""]));
  });
  const { checks } = await signing.begin();
  nonce = checks.nonce;
  return signing.finish({ code: "c", state: checks.state }, checks);
}

test.each([
  { says: true, verified: true },
  { says: "true", verified: false },
  { says: "false", verified: false },
  { says: 1, verified: false },
  { says: undefined, verified: false },
])("an address is verified by true alone, not by $says", async ({ says, verified }) => {
  const claims = { email: "ada@example.com", email_verified: says };
  expect(await finished(claims)).toMatchObject({
    kind: "person",
    person: { subject: "ada", email: "ada@example.com", emailVerified: verified },
  });
});

test("what somebody else has signed says nothing", async () => {
  const claims = { email: "ada@example.com", email_verified: true };
  expect(await finished(claims, stranger)).toMatchObject({ kind: "refused" });
});
