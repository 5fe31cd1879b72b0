import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Provider } from "oidc-provider";

/** A person at the provider. The subject is the name that they type into the provider's page. */
export interface Person {
  email: string;
  email_verified: boolean;
}

export const CLIENT = { id: "carillon", secret: "only for tests, with a: colon & more" };

/**
 * A real OpenID provider on a real port, with its own sign-in and consent pages; any password will do.
 * Its people change while it runs.
 */
export async function startOpenIdProvider(options: {
  redirectUri: string;
  /** Another site than the dashboard's, for browsers: `localhost` is not `127.0.0.1`. */
  hostname?: string;
  /** Where it tells the email address. */
  addressIn?: "id token" | "userinfo";
}) {
  const people = new Map<string, Person>();
  const server: Server = createServer((request, response) => {
    void handle(request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const issuer = `http://${options.hostname ?? "127.0.0.1"}:${port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        redirect_uris: [options.redirectUri],
      },
    ],
    cookies: { keys: ["only for tests"] },
    conformIdTokenClaims: options.addressIn !== "id token",
    // Seconds; it complains about its own defaults.
    ttl: { AccessToken: 600, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
    claims: { openid: ["sub"], email: ["email", "email_verified"] },
    findAccount: (_context, subject) => {
      const person = people.get(subject);
      return person && { accountId: subject, claims: () => ({ sub: subject, ...person }) };
    },
  });
  const handle = provider.callback();
  return {
    issuer,
    people,
    /** Nothing listens any more, and no connection is left. */
    async close(): Promise<void> {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
    /** On the same port again. */
    async open(): Promise<void> {
      server.listen(port, "127.0.0.1");
      await once(server, "listening");
    },
  };
}

export type OpenIdProvider = Awaited<ReturnType<typeof startOpenIdProvider>>;
