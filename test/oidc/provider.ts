import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Provider } from "oidc-provider";

/** A person at the provider. Their subject is the name that they type into its sign-in page. */
export interface Person {
  email: string;
  email_verified: boolean;
}

export const CLIENT = { id: "carillon", secret: "only for tests, with a: colon & more" };

/**
 * A real OpenID provider on a real port, with its own sign-in and consent pages, which accept any password. `people`
 * may be changed while it runs.
 */
export async function startOpenIdProvider(options: {
  redirectUri: string;
  /** For browsers it must be another site than the dashboard's: `localhost` is not `127.0.0.1`. */
  hostname?: string;
  /** Where it gives the email address. */
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
    // In seconds. Set because the library warns about its own defaults.
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
    /** Stops listening and closes all connections. */
    async close(): Promise<void> {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
    /** Listens on the same port again. */
    async open(): Promise<void> {
      server.listen(port, "127.0.0.1");
      await once(server, "listening");
    },
  };
}

export type OpenIdProvider = Awaited<ReturnType<typeof startOpenIdProvider>>;
