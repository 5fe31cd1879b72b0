import { INVITATION_DAYS, type UserRole } from "../../domain/account.ts";
import { renamed } from "../../domain/findings.ts";
import { isoUtc } from "../../domain/instant.ts";
import { mailFailureText } from "../../domain/mail.ts";
import type { Accounts, JobsLeft, Users } from "../../domain/ports/accounts.ts";
import type { Invitation, Invitations, SignInBrake } from "../../domain/ports/dashboard.ts";
import type { Mailer } from "../../domain/ports/mail.ts";
import type { ApiAnswer } from "../endpoint.ts";
import { ApiError, errorAnswer, invalid } from "../errors.ts";
import { DONE, signedIn, type DashboardRequest } from "./request.ts";
import type {
  AccountBind,
  AccountCreate,
  AccountDelete,
  AccountPatch,
  InviteBody,
  UserPatch,
} from "./schemas.ts";
import { accountView, confirmPassword, userView } from "./session-routes.ts";
import { sessionCookie } from "./session-cookie.ts";

export interface AccountRouteOptions {
  accounts: Accounts;
  users: Users;
  invitations: Invitations;
  brake: SignInBrake;
  /** Days that the installation keeps history; 0: for ever. */
  installation: { retentionDays: number };
  mailer: Pick<Mailer, "send">;
  /** Undefined: jobs are kept in PostgreSQL, and accounts have no namespaces. */
  binding?: {
    /** The uid, which tells a namespace from an earlier one of its name; empty when there is none yet. */
    uidOf(namespace: string): Promise<string>;
    /** Deletes an account by `remove`, and then the jobs that REST made in its namespace. */
    deleteAccount(account: string, remove: () => Promise<void>): Promise<JobsLeft | undefined>;
    /** To be called when what this process remembers of bindings is out of date. */
    changed(): void;
  };
  report: (error: unknown) => void;
}

export function accountRoutes(options: AccountRouteOptions) {
  const { accounts, users, invitations, mailer, binding } = options;
  return {
    async updateAccount(request: DashboardRequest<AccountPatch>): Promise<ApiAnswer> {
      const { time_zone: timeZone, retention_days: retentionDays } = request.body;
      const most = options.installation.retentionDays;
      if (most > 0 && (retentionDays ?? 0) > most)
        throw invalid([
          {
            field: "retention_days",
            message: `must be at most ${most}: the installation keeps no more`,
          },
        ]);
      const account = await accounts.update(request.account, { timeZone, retentionDays });
      return { status: 200, body: accountView(account) };
    },

    async deleteAccount(request: DashboardRequest<AccountDelete>): Promise<ApiAnswer> {
      const { password, name } = request.body;
      const account = await accounts.get(request.account);
      if (account?.name !== name)
        throw invalid([{ field: "name", message: "is not the name of this account" }]);
      await confirmPassword(options, request, { field: "password", password: password ?? "" });
      const remove = () => accounts.delete(request.account, signedIn(request));
      const left = await (binding ? binding.deleteAccount(request.account, remove) : remove());
      binding?.changed();
      if (left) options.report(left);
      return { ...DONE, headers: { "Set-Cookie": sessionCookie(null, request.host) } };
    },

    async listUsers({ account }: DashboardRequest): Promise<ApiAnswer> {
      const [all, open] = await Promise.all([users.list(account), invitations.list(account)]);
      return {
        status: 200,
        body: { users: all.map(userView), invitations: open.map(invitationView) },
      };
    },

    async updateUser(request: DashboardRequest<UserPatch>): Promise<ApiAnswer> {
      const { account, params, body } = request;
      const id = params["id"] ?? "";
      const user = await users.setRole(account, id, body.role, signedIn(request));
      if (!user) throw unknownUser();
      return { status: 200, body: userView(user) };
    },

    async deleteUser(request: DashboardRequest): Promise<ApiAnswer> {
      const { account, params } = request;
      if (!(await users.delete(account, params["id"] ?? "", signedIn(request))))
        throw unknownUser();
      return DONE;
    },

    async invite(request: DashboardRequest<InviteBody>): Promise<ApiAnswer> {
      const { email, role, send } = request.body;
      const { account } = request;
      const { invitation, token } = await createInvitation(request, { account, email, role });
      const link = linkOf(request, token);
      const mail =
        send === true
          ? await mailInvitation(request, invitation, link).catch((error: unknown) => {
              // The invitation is made, and the link is shown only in this answer.
              options.report(error);
              return errorAnswer(error).body.error;
            })
          : null;
      return { status: 201, body: { invitation: invitationView(invitation), link, mail } };
    },

    async deleteInvitation({ account, params }: DashboardRequest): Promise<ApiAnswer> {
      if (!(await invitations.delete(account, params["id"] ?? "")))
        throw new ApiError("not_found", "there is no such invitation");
      return DONE;
    },

    async listAccounts(): Promise<ApiAnswer> {
      return { status: 200, body: { accounts: (await accounts.list()).map(accountView) } };
    },

    async createAccount(request: DashboardRequest<AccountCreate>): Promise<ApiAnswer> {
      const { name, namespace, owner_email: email } = request.body;
      if (namespace !== undefined && !binding) throw noNamespaces();
      const namespaceUid = namespace === undefined ? "" : await binding?.uidOf(namespace);
      const account = await accounts.create({
        name,
        namespace,
        namespaceUid: namespaceUid || undefined,
      });
      try {
        const made = await createInvitation(request, { account: account.id, email, role: "owner" });
        const link = linkOf(request, made.token);
        return {
          status: 201,
          body: {
            account: accountView(account),
            invitation: invitationView(made.invitation),
            link,
          },
        };
      } catch (error) {
        // Nobody could get into the account, and it would keep its name taken.
        await accounts.delete(account.id);
        // The invitation's `email` is called `owner_email` in this request.
        return renamed("email", "owner_email")(error);
      }
    },

    async bindAccount({ params, body }: DashboardRequest<AccountBind>): Promise<ApiAnswer> {
      if (!binding) throw noNamespaces();
      const { namespace } = body;
      const account = await accounts.get(params["id"] ?? "");
      if (!account || account.deletedAt !== null)
        throw new ApiError("not_found", "there is no such account");
      const bound = await accounts.bind(account.id, namespace, await binding.uidOf(namespace));
      binding.changed();
      return { status: 200, body: accountView(bound) };
    },
  };

  async function createInvitation(
    request: DashboardRequest,
    to: { account: string; email: string; role: UserRole },
  ): Promise<{ invitation: Invitation; token: string }> {
    const made = await invitations.create({ ...to, by: signedIn(request).id });
    if (!made) throw new ApiError("signed_out", "you are not signed in");
    return made;
  }

  async function mailInvitation(
    request: DashboardRequest,
    invitation: Invitation,
    link: string,
  ): Promise<string> {
    const account = await accounts.get(request.account);
    const result = await mailer.send(request.account, {
      to: invitation.email,
      subject: `Invitation to ${account?.name ?? "an account"} on Carillon`,
      body: `${signedIn(request).email} invites you to the account "${account?.name ?? ""}" on Carillon.\n\nChoose a password here, within ${INVITATION_DAYS} days:\n${link}\n`,
      isHtml: false,
    });
    if (result.kind === "accepted") return "sent";
    return result.kind === "unconfigured"
      ? "the account has no SMTP settings yet"
      : mailFailureText(result);
  }
}

/** The token is in the fragment: browsers send that to no server, and no log has it. */
function linkOf(request: DashboardRequest, token: string): string {
  return `${request.origin}/dashboard/invitation#${token}`;
}

function unknownUser(): ApiError {
  return new ApiError("not_found", "there is no such user");
}

function invitationView({ id, email, role, createdAt, expiresAt }: Invitation) {
  return { id, email, role, created_at: isoUtc(createdAt), expires_at: isoUtc(expiresAt) };
}

function noNamespaces(): ApiError {
  return invalid([
    { field: "namespace", message: "means nothing here: jobs are kept in PostgreSQL" },
  ]);
}
