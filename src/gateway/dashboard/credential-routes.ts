import { smtpHostProblem, type ApiKey, type SmtpSettings } from "../../domain/account.ts";
import { parseAddress, wireAddress } from "../../domain/address.ts";
import type { Finding } from "../../domain/findings.ts";
import { isoUtc, isoUtcOrNull } from "../../domain/instant.ts";
import { mailFailureText } from "../../domain/mail.ts";
import type { ApiKeys, SigningSecrets, SmtpSettingsStore } from "../../domain/ports/accounts.ts";
import type { DestinationPolicy } from "../../domain/ports/destination-policy.ts";
import type { Mailer } from "../../domain/ports/mail.ts";
import type { ApiAnswer } from "../endpoint.ts";
import { ApiError, invalid } from "../errors.ts";
import { addressFindings } from "../mail-message.ts";
import { DONE, type DashboardRequest } from "./request.ts";
import type { SmtpBody, SmtpTestBody } from "./schemas.ts";

export interface CredentialRouteOptions {
  apiKeys: Pick<ApiKeys, "create" | "list" | "delete">;
  smtpSettings: SmtpSettingsStore;
  signingSecrets: SigningSecrets;
  destinations: Pick<DestinationPolicy, "mailServerRefusal">;
  mailer: Pick<Mailer, "test">;
}

export function credentialRoutes(options: CredentialRouteOptions) {
  const { apiKeys, smtpSettings, signingSecrets, destinations, mailer } = options;
  return {
    async listApiKeys({ account }: DashboardRequest): Promise<ApiAnswer> {
      return { status: 200, body: { keys: (await apiKeys.list(account)).map(keyView) } };
    },

    async createApiKey(request: DashboardRequest<{ label: string }>): Promise<ApiAnswer> {
      const { key, raw } = await apiKeys.create(request.account, request.body.label);
      return { status: 201, body: { key: keyView(key), raw } };
    },

    async deleteApiKey({ account, params }: DashboardRequest): Promise<ApiAnswer> {
      if (!(await apiKeys.delete(account, params["id"] ?? "")))
        throw new ApiError("not_found", "there is no such API key");
      return DONE;
    },

    async getSmtp({ account }: DashboardRequest): Promise<ApiAnswer> {
      return { status: 200, body: smtpView(await smtpSettings.get(account)) };
    },

    async setSmtp(request: DashboardRequest<SmtpBody>): Promise<ApiAnswer> {
      const settings = await completeSettings(request.account, request.body);
      await smtpSettings.set(request.account, settings);
      return { status: 200, body: smtpView(await smtpSettings.get(request.account)) };
    },

    async deleteSmtp({ account }: DashboardRequest): Promise<ApiAnswer> {
      await smtpSettings.delete(account);
      return DONE;
    },

    async testSmtp(request: DashboardRequest<SmtpTestBody>): Promise<ApiAnswer> {
      const { to, ...body } = request.body;
      const findings = addressFindings("to", to);
      if (findings.length > 0) throw invalid(findings);
      const settings = await completeSettings(request.account, body);
      const { result, transcript } = await mailer.test(request.account, settings, wireAddress(to));
      return {
        status: 200,
        body: {
          accepted: result.kind === "accepted",
          error: result.kind === "failed" ? mailFailureText(result) : null,
          transcript,
        },
      };
    },

    async getSigningSecret({ account }: DashboardRequest): Promise<ApiAnswer> {
      const secrets = (await signingSecrets.list(account)).map(({ secret, validUntil }) => ({
        secret,
        valid_until: isoUtcOrNull(validUntil),
      }));
      return { status: 200, body: { secrets } };
    },

    async rotateSigningSecret({ account }: DashboardRequest): Promise<ApiAnswer> {
      const { secret, oldValidUntil } = await signingSecrets.rotate(account);
      return { status: 200, body: { secret, old_valid_until: isoUtcOrNull(oldValidUntil) } };
    },
  };

  /**
   * The settings as they will be used. A password that is left out is the stored one, but never for another
   * server or user, nor with less encryption: a session alone must not be enough to have the password sent
   * to some other server.
   */
  async function completeSettings(
    account: string,
    body: SmtpBody,
  ): Promise<Omit<SmtpSettings, "revision">> {
    const host = body.host.trim().toLowerCase();
    const username = body.username === null || body.username === "" ? null : body.username;
    const findings: Finding[] = [...addressFindings("from", body.from)];
    const problem =
      smtpHostProblem(host) ??
      (await destinations.mailServerRefusal(account, { host, port: body.port }));
    if (problem !== null) findings.push({ field: "host", message: problem });
    let password: string | null = null;
    if (username !== null) {
      const stored = body.password === undefined ? await smtpSettings.get(account) : undefined;
      password = body.password ?? keptPassword(stored, { ...body, host, username }) ?? null;
      if (password === null)
        findings.push({
          field: "password",
          message:
            (stored?.password ?? null) === null
              ? "is required with a user name"
              : "must be entered again when the server, the user name or the encryption changes",
        });
    } else if (body.password !== undefined)
      findings.push({ field: "username", message: "is required with a password" });
    if (findings.length > 0) throw invalid(findings);
    const from = parseAddress(body.from);
    return {
      host,
      port: body.port,
      username,
      password,
      from: from.kind === "valid" ? from.address : body.from,
      tls: body.tls,
    };
  }
}

function keptPassword(
  stored: SmtpSettings | undefined,
  next: { host: string; port: number; username: string; tls: string },
): string | undefined {
  const same =
    stored?.host.toLowerCase() === next.host &&
    stored.port === next.port &&
    stored.username === next.username &&
    (next.tls !== "none" || stored.tls === "none");
  return same ? (stored.password ?? undefined) : undefined;
}

function keyView(key: ApiKey) {
  return {
    id: key.id,
    label: key.label,
    prefix: key.prefix,
    created_at: isoUtc(key.createdAt),
    last_used_at: isoUtcOrNull(key.lastUsedAt),
  };
}

function smtpView(settings: SmtpSettings | undefined): { settings: object | null } {
  if (!settings) return { settings: null };
  const { host, port, username, from, tls, password } = settings;
  return { settings: { host, port, username, from, tls, password_set: password !== null } };
}
