import { fileURLToPath } from "node:url";
import { required, type Configuration } from "../src/configuration/configuration.ts";
import {
  singleSignOnSettings,
  type SingleSignOnSettings,
} from "../src/configuration/single-sign-on-settings.ts";
import type { IdentityProvider } from "../src/domain/ports/single-sign-on.ts";
import type { DashboardOptions } from "../src/gateway/dashboard/dashboard-router.ts";
import { readStaticFiles } from "../src/gateway/dashboard/static-files.ts";
import { createAccountDeletion } from "../src/kubernetes/account-deletion.ts";
import { API_VERSION, KIND, specToResource } from "../src/kubernetes/scheduled-job.ts";
import { createDashboardStatistics } from "../src/postgres/dashboard-statistics.ts";
import { createIdentities } from "../src/postgres/identities.ts";
import { createInvitations } from "../src/postgres/invitations.ts";
import { createSessions } from "../src/postgres/sessions.ts";
import { createSignInBrake } from "../src/postgres/sign-in-brake.ts";
import { createSingleSignOns } from "../src/postgres/single-sign-ons.ts";
import { createUsers } from "../src/postgres/users.ts";
import type { Foundation } from "./foundation.ts";
import { monotonic } from "./system.ts";
import { VERSION } from "./version.ts";

/** The output of scripts/build-dashboard.ts. */
const FILES = fileURLToPath(new URL("../src/dashboard/dist/", import.meta.url));

/** What the dashboard needs besides the REST API's parts. */
export async function createDashboardPart(options: {
  foundation: Foundation;
  configuration: Configuration;
}): Promise<DashboardOptions> {
  const { foundation, configuration } = options;
  const { pool } = foundation;
  const users = createUsers({ pool });
  const singleSignOn = singleSignOnSettings(configuration);
  const { kubernetes } = foundation;
  return {
    users,
    sessions: createSessions({ pool }),
    accounts: foundation.accounts,
    smtpSettings: foundation.smtpSettings,
    signingSecrets: foundation.signingSecrets,
    invitations: createInvitations({ pool }),
    brake: createSignInBrake({ pool }),
    ...(singleSignOn && {
      singleSignOn: {
        provider: await identityProvider(singleSignOn),
        attempts: createSingleSignOns({ pool }),
        identities: createIdentities({ pool }),
      },
    }),
    statistics: createDashboardStatistics({ pool }),
    ...(kubernetes && {
      binding: {
        uidOf: (namespace) => kubernetes.binding.uidOf(namespace),
        deleteAccount: createAccountDeletion({ ...kubernetes, accounts: foundation.accounts }),
        changed: () => {
          kubernetes.accountNamespaces.forget();
        },
      },
    }),
    manifest: ({ name, spec }) => ({
      apiVersion: API_VERSION,
      kind: KIND,
      metadata: { name },
      spec: specToResource(spec),
    }),
    installation: {
      version: VERSION,
      retentionDays: required(configuration, "retentionDays"),
      kubernetes: required(configuration, "jobStore") === "kubernetes",
    },
    files: await readStaticFiles(FILES),
  };
}

/** Loads the library only if single sign-on is used: without it standalone starts faster. */
async function identityProvider(settings: SingleSignOnSettings): Promise<IdentityProvider> {
  const { createOpenIdProvider } = await import("../src/oidc/openid-provider.ts");
  return createOpenIdProvider({ ...settings, monotonic });
}
