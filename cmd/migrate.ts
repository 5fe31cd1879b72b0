/**
 * `npm run migrate`: brings the database of DATABASE_URL up to this release, and creates the first
 * account when one is asked for. Safe to run at any time, and by several at once.
 */
import { required } from "../src/configuration/configuration.ts";
import { migrate } from "../src/postgres/migrate.ts";
import { bootstrap, firstAccount } from "./bootstrap.ts";
import { readEnvironment } from "./environment.ts";
import { reportFailure } from "./problem.ts";
import { ignoreClosedReaders, say } from "./say.ts";
import { monotonic, timers } from "./system.ts";
import { untilAvailable } from "./until-available.ts";
import { VERSION } from "./version.ts";

ignoreClosedReaders();
// In a pod this is the first process of a container, which ignores signals that it does not handle. PostgreSQL
// rolls back the migration under way.
process.once("SIGTERM", () => process.exit(143));
process.once("SIGINT", () => process.exit(130));

let databaseUrl: string | undefined;
try {
  const configuration = readEnvironment("migrate");
  const url = required(configuration, "databaseUrl");
  databaseUrl = url;
  // Checked before anything is changed.
  const first = firstAccount(configuration);
  const waitMs = required(configuration, "databaseWaitSeconds") * 1_000;
  const patience = { waitMs, say, monotonic, timers };
  await untilAvailable(() => migrate({ url, appVersion: VERSION, onProgress: say }), patience);
  // Without the number of migrations: a try that PostgreSQL cut off may have applied some.
  say("The database is up to date");
  await untilAvailable(() => bootstrap({ first, databaseUrl: url, say }), patience);
} catch (error) {
  reportFailure(error, databaseUrl);
}
