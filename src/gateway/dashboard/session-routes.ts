import { renamed } from "../../domain/findings.ts";
import type { Account, User } from "../../domain/account.ts";
import { isoUtc } from "../../domain/instant.ts";
import type { Accounts, Sessions, Users, Verified } from "../../domain/ports/accounts.ts";
import type { Invitations, SignInBrake } from "../../domain/ports/dashboard.ts";
import type { IdentityProvider } from "../../domain/ports/single-sign-on.ts";
import type { ApiAnswer } from "../endpoint.ts";
import { ApiError, invalid } from "../errors.ts";
import { DONE, signedIn, type DashboardRequest } from "./request.ts";
import type { InvitationAccept, InvitationToken, PasswordChange, SignIn } from "./schemas.ts";
import { sessionCookie } from "./session-cookie.ts";

export interface SessionRouteOptions {
  users: Users;
  sessions: Sessions;
  accounts: Accounts;
  invitations: Invitations;
  brake: SignInBrake;
  /** Undefined: people sign in with their passwords only. */
  singleSignOn?: { provider: Pick<IdentityProvider, "name"> };
  installation: { version: string; retentionDays: number; kubernetes: boolean };
}

export function sessionRoutes(options: SessionRouteOptions) {
  const { users, sessions, accounts, invitations, brake } = options;
  return {
    async signIn(request: DashboardRequest<SignIn>): Promise<ApiAnswer> {
      const { email, password } = request.body;
      const { client } = request;
      const found = await verifyPassword(
        { brake, users },
        { email, password, client, party: client },
      );
      if (!found) throw signInFailed();
      const token = await sessionOf(found);
      if (token === undefined) throw signInFailed();
      return answerWithSession(request, found.user, token, 200);
    },

    /** What the page needs to know before anybody is signed in. */
    async signInOptions(): Promise<ApiAnswer> {
      const { singleSignOn } = options;
      return {
        status: 200,
        body: { single_sign_on: singleSignOn ? { name: singleSignOn.provider.name } : null },
      };
    },

    async getSession(request: DashboardRequest): Promise<ApiAnswer> {
      return { status: 200, body: await sessionView(signedIn(request)) };
    },

    async signOut(request: DashboardRequest): Promise<ApiAnswer> {
      if (request.token !== undefined) await sessions.delete(request.token);
      return { ...DONE, headers: { "Set-Cookie": sessionCookie(null, request.host) } };
    },

    async signOutEverywhere(request: DashboardRequest): Promise<ApiAnswer> {
      await sessions.deleteAll(signedIn(request).id);
      return { ...DONE, headers: { "Set-Cookie": sessionCookie(null, request.host) } };
    },

    async changePassword(request: DashboardRequest<PasswordChange>): Promise<ApiAnswer> {
      const { current_password: password = "", new_password: wanted } = request.body;
      const field = "current_password";
      const confirmed = await confirmPassword({ brake, users }, request, { field, password });
      // Fails if the confirmed password was replaced meanwhile: the old one must not undo that change. Ends the sessions
      // of others, who knew the old password or stole a session.
      const changed = await users
        .replacePassword(confirmed, wanted)
        .catch(renamed("password", "new_password"));
      if (!changed) throw notYours(field);
      const token = await sessionOf(changed);
      if (token === undefined) throw notYours(field);
      return { ...DONE, headers: { "Set-Cookie": sessionCookie(token, request.host) } };
    },

    async findInvitation(request: DashboardRequest<InvitationToken>): Promise<ApiAnswer> {
      const found = await invitations.find(request.body.token);
      if (!found) throw unknownInvitation();
      const { email, role, accountName } = found;
      return { status: 200, body: { email, role, account: accountName } };
    },

    async acceptInvitation(request: DashboardRequest<InvitationAccept>): Promise<ApiAnswer> {
      const { token, password } = request.body;
      const user = await invitations.accept(token, password, request.client);
      if (!user) throw unknownInvitation();
      const session = await sessions.create(user.id);
      if (!session) throw unknownInvitation();
      return answerWithSession(request, user, session.token, 201);
    },
  };

  /**
   * A new session's token. Whoever replaces a password ends all sessions: one that begins with the old password
   * meanwhile is either ended with them, or found by the check here. Undefined: the password was replaced, or the user
   * removed.
   */
  async function sessionOf(verified: Verified): Promise<string | undefined> {
    const session = await sessions.create(verified.user.id);
    if (!session || (await users.stillVerified(verified))) return session?.token;
    await sessions.delete(session.token);
    return undefined;
  }

  /** Always a new session, whatever cookie came along: nobody can make a user sign in to a session known to others. */
  async function answerWithSession(
    request: DashboardRequest,
    user: User,
    token: string,
    status: number,
  ): Promise<ApiAnswer> {
    if (request.token !== undefined) await sessions.delete(request.token);
    return {
      status,
      body: await sessionView(user),
      headers: { "Set-Cookie": sessionCookie(token, request.host) },
    };
  }

  async function sessionView(user: User): Promise<object> {
    const account = await accounts.get(user.account);
    if (!account) throw new ApiError("signed_out", "the account is gone");
    const { version, retentionDays, kubernetes } = options.installation;
    return {
      user: userView(user),
      account: accountView(account),
      installation: { version, retention_days: retentionDays, kubernetes },
    };
  }
}

/**
 * Undefined: the address or the password is wrong. Throws ApiError 429 while guesses are slowed down. An attempt that
 * is refused because too many are under way does not count as a guess.
 */
async function verifyPassword(
  { brake, users }: { brake: SignInBrake; users: Pick<Users, "verify"> },
  attempt: { email: string; password: string; client: string; party: string },
): Promise<Verified | undefined> {
  const { client, ...given } = attempt;
  const { email } = given;
  const found = await users.verify({
    ...given,
    async first() {
      const may = await brake.take(email, client);
      if (may.kind === "wait")
        throw new ApiError(
          "sign_in_delayed",
          `too many wrong passwords: try again in ${may.retryAfterSeconds} s`,
          { retryAfterSeconds: may.retryAfterSeconds },
        );
    },
  });
  if (found) await brake.forget(email, client);
  return found;
}

/**
 * For actions for which a stolen session must not be enough. Asks for the password, or, of a user without one, for a
 * sign-in within the last ten minutes. Throws ApiError 400 on `field`.
 */
export async function confirmPassword(
  parts: { brake: SignInBrake; users: Pick<Users, "verify"> },
  request: Pick<DashboardRequest, "user" | "client" | "fresh">,
  given: { field: string; password: string },
): Promise<Verified> {
  const user = signedIn(request);
  const { id, email, hasPassword } = user;
  if (!hasPassword) {
    if (request.fresh) return { user, passwordHash: null };
    const message =
      "is not set for you: sign out, sign in again, and do this within ten minutes after that";
    throw invalid([{ field: given.field, message }]);
  }
  const { password } = given;
  // The user is the party: one who is signed in is not refused for the attempts of others at the same address.
  const found = await verifyPassword(parts, { email, password, client: request.client, party: id });
  if (found?.user.id !== id) throw notYours(given.field);
  return found;
}

export function userView(user: User) {
  const { id, email, role, admin, hasPassword, createdAt } = user;
  return { id, email, role, admin, has_password: hasPassword, created_at: isoUtc(createdAt) };
}

export function accountView(account: Account) {
  return {
    id: account.id,
    name: account.name,
    namespace: account.namespace,
    time_zone: account.timeZone,
    retention_days: account.retentionDays,
    created_at: isoUtc(account.createdAt),
  };
}

function notYours(field: string): ApiError {
  return invalid([{ field, message: "is not your password" }]);
}

function signInFailed(): ApiError {
  return new ApiError("sign_in_failed", "the address or the password is wrong");
}

function unknownInvitation(): ApiError {
  return new ApiError("not_found", "the invitation has expired, was used or was withdrawn");
}
