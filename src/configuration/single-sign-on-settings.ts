import { ConfigurationError, required, type Configuration } from "./configuration.ts";
import { VARIABLES } from "./variables.ts";

export interface SingleSignOnSettings {
  issuer: string;
  clientId: string;
  /** Undefined: a public client. */
  clientSecret: string | undefined;
  name: string;
  /** Origin: scheme, host and port. */
  publicUrl: string;
}

/** Undefined: sign-in by password only. Throws ConfigurationError when some of the settings are missing. */
export function singleSignOnSettings(
  configuration: Configuration,
): SingleSignOnSettings | undefined {
  const { oidcIssuer, oidcClientId, oidcClientSecret, publicUrl } = configuration;
  if (oidcIssuer === undefined && oidcClientId === undefined && oidcClientSecret === undefined)
    return undefined;
  if (oidcIssuer === undefined || oidcClientId === undefined || publicUrl === undefined) {
    const missing = (["oidcIssuer", "oidcClientId", "publicUrl"] as const)
      .filter((field) => configuration[field] === undefined)
      .map((field) => VARIABLES[field].name);
    throw new ConfigurationError(`single sign-on is half configured: set ${missing.join(" and ")}`);
  }
  return {
    issuer: oidcIssuer.href,
    clientId: oidcClientId,
    clientSecret: oidcClientSecret,
    name: required(configuration, "oidcName"),
    publicUrl: publicUrl.origin,
  };
}
