import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** Makes and verifies bearer tokens of users that exist only in a test. */
export interface TokenSigner {
  tokenFor(this: void, user: string, groups?: readonly string[]): string;
  verify(this: void, token: string): { user: string; groups: string[] } | undefined;
}

export function createTokenSigner(secret: string): TokenSigner {
  const sign = (body: string) => createHmac("sha256", secret).update(body).digest("base64url");
  return {
    tokenFor(user, groups = []) {
      const body = Buffer.from(JSON.stringify({ user, groups })).toString("base64url");
      return `${body}.${sign(body)}`;
    },
    verify(token) {
      const [body = "", signature = ""] = token.split(".");
      const expected = Buffer.from(sign(body));
      const given = Buffer.from(signature);
      if (expected.length !== given.length || !timingSafeEqual(expected, given)) return undefined;
      return JSON.parse(Buffer.from(body, "base64url").toString()) as {
        user: string;
        groups: string[];
      };
    },
  };
}

export interface TokenWebhook {
  url: string;
  secret: string;
  close(): Promise<void>;
}

/**
 * Answers the API server's TokenReviews, so that a test can act as any user at any moment. A token file would not do:
 * the API server reads it only at its start.
 */
export async function startTokenWebhook(): Promise<TokenWebhook> {
  const secret = randomBytes(32).toString("hex");
  const signer = createTokenSigner(secret);
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const review = JSON.parse(await text(request)) as {
      apiVersion: string;
      spec: { token: string };
    };
    const who = signer.verify(review.spec.token);
    const status = who
      ? { authenticated: true, user: { username: who.user, groups: who.groups } }
      : { authenticated: false };
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({ apiVersion: review.apiVersion, kind: "TokenReview", status }));
  };
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    secret,
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
