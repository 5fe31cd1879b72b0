import type { User } from "../account.ts";

/** What is asked for on the way to the provider and must come back unchanged. */
export interface SignInChecks {
  /** In the address that the browser comes back to. */
  state: string;
  /** In the ID token. */
  nonce: string;
  /** Proves to the provider that the one who redeems the code also asked for it (PKCE, RFC 7636). */
  codeVerifier: string;
}

/** A person as the provider vouches for them. */
export interface ProviderPerson {
  issuer: string;
  /** Names the person for ever, whatever becomes of the email address. */
  subject: string;
  /** Undefined: the provider tells none. */
  email: string | undefined;
  emailVerified: boolean;
}

/** The OpenID provider that the operator configured. */
export interface IdentityProvider {
  /** For the button: `Sign in with NAME`. */
  readonly name: string;
  /** Origin of the dashboard, the only one that the provider sends people back to. */
  readonly publicUrl: string;
  /** Where the browser goes. Throws DependencyUnavailable when the provider does not answer. */
  begin(): Promise<{ url: string; checks: SignInChecks }>;
  /**
   * With the query parameters that the browser brought back. `refused`: by the person, the provider or one
   * of the checks, the reason for the log. Throws DependencyUnavailable when the provider does not answer.
   */
  finish(
    parameters: Readonly<Record<string, string>>,
    checks: SignInChecks,
  ): Promise<{ kind: "person"; person: ProviderPerson } | { kind: "refused"; reason: string }>;
}

/** Sign-ins between leaving for the provider and coming back: ten minutes at most, used once. */
export interface SingleSignOns {
  /** The token is for the browser's cookie; its hash is stored. */
  begin(checks: SignInChecks): Promise<string>;
  /** Undefined: unknown, expired, or taken before. Of two calls at once, one gets it. */
  take(token: string): Promise<SignInChecks | undefined>;
}

/** Which user a provider's person is. */
export interface Identities {
  /**
   * Found by (issuer, subject); the first time by the email address, if it is verified, and remembered from then on.
   * `unverified`: there is no verified address. `taken`: the user of that address belongs to another person of the
   * provider.
   */
  userOf(
    person: ProviderPerson,
  ): Promise<
    { kind: "user"; user: User } | { kind: "unknown" } | { kind: "unverified" } | { kind: "taken" }
  >;
  /**
   * Creates a user without a password for a person who is `unknown` and holds an invitation's token, which is used up.
   * `invitation`: it is not valid. `other_address`: it is for somebody else.
   */
  accept(
    token: string,
    person: ProviderPerson,
  ): Promise<{ kind: "user"; user: User } | { kind: "invitation" } | { kind: "other_address" }>;
}
